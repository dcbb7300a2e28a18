// Tables whose indexes learn, against exact searches of the same view: with all lists probed and
// all candidates refined, a search through the index gives the same rows and distances, whatever
// was written, taken back, rewritten or trained before.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/ivf/runs.h"
#include "engine/residency/residency.h"
#include "engine/training/training.h"
#include "index/ivf/ivf.h"
#include "tests/support/ivf_fixture.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

using Session = IvfSession;

TEST_CASE("a limit of time has an index learn from fewer rows, to an eighth") {
  const auto made =
      index::ivfflat_kind().make({"ivfflat", {}}, {ElementType::kFloat32, 768, Distance::kL2});
  const index::Trained& index = *made->trained();
  constexpr std::uint64_t kRows = 1000000;
  const std::size_t all = rows_in_time(index, kRows, 0);
  CHECK(all == index.sample_rows(kRows));
  CHECK(rows_in_time(index, kRows, 3600) == all);
  const std::size_t some = rows_in_time(index, kRows, 30);
  CHECK(some < all);
  CHECK(some > all / 8);
  CHECK(rows_in_time(index, kRows, 15) < some);
  CHECK(rows_in_time(index, kRows, 1) == all / 8);
}

TEST_CASE("rows of a table are searched exactly until its index is trained") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(), true);
  std::mt19937 random(1);
  session.begin();
  session.insert_many(random, 200);
  session.commit();
  const auto before = session.table().view();
  SearchRequest request;
  CHECK(is_exact(*before, session.table().index(0), request));
  CHECK(before->model(0).is_null());
  const Hits exact = ask(*before, session.table(), {.exact = true});
  CHECK(ask(*before, session.table(), {.nprobe = 1}) == exact);

  session.begin();
  session.train();
  session.commit();
  const auto after = session.table().view();
  CHECK(has_codes(*after, 0));
  CHECK(has_codes(*after, 1));
  CHECK(after->model(2).is_null());
  CHECK(!is_exact(*after, session.table().index(0), request));
  request.column = 2;
  CHECK(is_exact(*after, session.table().index(2), request));
  request.column = 0;
  request.exact = true;
  CHECK(is_exact(*after, session.table().index(0), request));
  request.exact = false;
  request.has_after = true;
  CHECK(is_exact(*after, session.table().index(0), request));
  request.has_after = false;
  request.range.high = 3;
  CHECK(is_exact(*after, session.table().index(0), request));
  for (const std::size_t column : {0u, 1u}) {
    for (unsigned seed = 1; seed < 20; ++seed) {
      compare(*after, session.table(), {.column = column, .k = seed * 3, .seed = seed});
      compare(*after, session.table(),
              {.column = column, .k = seed, .seed = seed, .below = 3 * seed});
    }
  }
  check_integrity(session);
}

TEST_CASE("an index that is probed little finds most, and never too few") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(512), true);
  std::mt19937 random(7);
  session.begin();
  session.insert_many(random, 3000);
  session.commit();
  session.begin();
  session.train();
  session.insert_many(random, 30);
  session.table().erase(17);
  const auto view = session.table().view();
  REQUIRE(has_codes(*view, 0));
  std::size_t found = 0, wanted = 0;
  bool differs = false;
  for (unsigned seed = 1; seed < 30; ++seed) {
    for (const std::size_t column : {0u, 1u}) {
      Question question{.column = column, .k = 20, .queries = 3, .seed = seed, .nprobe = 1};
      const Hits exact = ask(*view, session.table(), exactly(question));
      const Hits got = ask(*view, session.table(), question);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        REQUIRE(got[i].size() == exact[i].size());
        for (const auto& hit : got[i]) {
          found += static_cast<std::size_t>(std::count(exact[i].begin(), exact[i].end(), hit));
        }
        wanted += exact[i].size();
        differs |= got[i] != exact[i];
      }
      // All rows, and all rows that a filter leaves.
      question.k = 5000;
      question.queries = 1;
      CHECK(ask(*view, session.table(), question).front().size() ==
            ask(*view, session.table(), exactly(question)).front().size());
      question.below = seed;
      CHECK(ask(*view, session.table(), question).front().size() ==
            ask(*view, session.table(), exactly(question)).front().size());
      question.below = 40;
      question.k = 900;
      CHECK(ask(*view, session.table(), question).front().size() == 900);
    }
  }
  CHECK(differs);  // it was no exact search
  CHECK(static_cast<double>(found) > 0.8 * static_cast<double>(wanted));
  session.rollback();
}

TEST_CASE("distances of codes alone, without vectors") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(256), true);
  std::mt19937 random(5);
  session.begin();
  session.insert_many(random, 1000);
  session.commit();
  session.begin();
  session.train();
  session.commit();
  const auto view = session.table().view();
  for (unsigned seed = 1; seed < 10; ++seed) {
    Question question{.column = 1, .k = 50, .seed = seed, .nprobe = 3, .refine = 0};
    const Hits coded = ask(*view, session.table(), question);
    const Hits exact = ask(*view, session.table(), exactly(question));
    for (std::size_t i = 0; i < coded.size(); ++i) {
      REQUIRE(coded[i].size() == exact[i].size());
      CHECK(coded[i].back().first == doctest::Approx(exact[i].back().first).epsilon(0.3));
    }
  }
}

TEST_CASE("an index learns by itself once there are rows enough") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(128), true);
  std::mt19937 random(3);
  session.begin();
  session.insert_many(random, 700);
  session.commit();
  CHECK(session.table().view()->model(0).is_null());
  session.begin();
  session.insert_many(random, 900);
  session.rollback();
  session.begin();
  session.insert_many(random, 900);
  session.commit();
  const auto view = session.table().view();
  const Stamp model = view->model(0);
  CHECK(!model.is_null());
  CHECK(has_codes(*view, 0));
  CHECK(has_codes(*view, 1));
  compare(*view, session.table(), {.k = 30});
  // New segments get codes as they are sealed, of the same model.
  session.begin();
  session.insert_many(random, 500);
  session.commit();
  const auto later = session.table().view();
  CHECK(later->model(0) == model);
  std::uint32_t uncoded = 0;
  for (std::size_t i = 0; i < later->parts(); ++i) {
    if (later->part(i).codes(0, model).is_null()) uncoded += later->part(i).live_rows();
  }
  CHECK(uncoded < 10);
  compare(*later, session.table(), {.k = 30});
  check_integrity(session);
}

TEST_CASE("too few rows are no reason to fail, unless training was asked for") {
  TemporaryFile file;
  TableOptions options = ivf_options();
  Session session(file.path(), options, true);
  std::mt19937 random(3);
  session.begin();
  session.insert_many(random, 2);
  thrown(ErrorKind::kInvalid, [&] { session.train(); });
  session.insert_many(random, 2);
  session.table().rebuild();
  session.commit();
  CHECK(ask(*session.table().view(), session.table(), {.column = 2, .k = 9}).front().size() > 1);

  TemporaryFile other;
  options.vectors = {options.vectors[2], options.vectors[2], options.vectors[2]};
  Session plain(other.path(), options, true);
  plain.begin();
  plain.insert_many(random, 100);
  CHECK(thrown(ErrorKind::kInvalid, [&] { plain.train(); }).find("t: no column has") == 0);
  plain.commit();
}

TEST_CASE("a view keeps its answers while the table is trained, rewritten and emptied") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(), true);
  std::mt19937 random(11);
  session.begin();
  session.insert_many(random, 300);
  session.train();
  session.commit();
  const Question question{.k = 40, .queries = 3};
  using Change = void (*)(Session&);
  const Change changes[] = {[](Session& it) { it.train(); },
                            [](Session& it) { it.table().optimize(); },
                            [](Session& it) { it.table().rebuild(); },
                            [](Session& it) {
                              for (RowId id = 1; id < 1000; ++id) it.table().erase(id);
                            }};
  for (const Change change : changes) {
    const auto view = session.table().view();
    const auto unread = session.table().view();
    const Hits exact = ask(*view, session.table(), exactly(question));
    Residency::instance().clear();
    session.begin();
    change(session);
    session.table().sync();
    Residency::instance().clear();
    CHECK(ask(*view, session.table(), fully(question)) == exact);
    CHECK(ask(*view, session.table(), exactly(question)) == exact);
    session.rollback();
    CHECK(ask(*view, session.table(), fully(question)) == exact);
    CHECK(ask(*unread, session.table(), fully(question)) == exact);
    const auto again = session.table().view();
    CHECK(has_codes(*again, 0));
    CHECK(ask(*again, session.table(), fully(question)) == exact);
  }
  check_integrity(session);
}

TEST_CASE("an index is searched group by group when memory is short") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(128), true);
  std::mt19937 random(13);
  session.begin();
  session.insert_many(random, 3000);
  session.train();
  session.commit();
  const auto view = session.table().view();
  const Question question{.k = 33, .queries = 3};
  const Hits exact = ask(*view, session.table(), exactly(question));
  Residency::instance().clear();
  Residency::instance().set_limit(40000);
  const Hits got = ask(*view, session.table(), fully(question));
  const std::size_t used = Residency::instance().used();
  Residency::instance().set_limit(0);
  CHECK(got == exact);
  CHECK(used < 200000);
}

TEST_CASE("when memory has room for codes alone, searches give what they give in memory") {
  TemporaryFile file;
  TableOptions options = ivf_options(1024);
  options.flush_bytes = 1 << 20;
  options.vectors.push_back({"bits", Distance::kInnerProduct, {"ivfrabitq", {{"lists", "4"}}}});
  options.layout.vectors.push_back({ElementType::kFloat32, kDim});
  Session session(file.path(), options, true);
  std::mt19937 random(19);
  session.begin();
  session.insert_many(random, 9000);
  session.train();
  session.commit();
  session.begin();
  session.insert_many(random, 5);
  for (RowId rowid = 3; rowid < 9000; rowid += 7) session.table().erase(rowid);
  session.commit();
  const auto view = session.table().view();
  const auto question = [](std::size_t column, unsigned i) {
    Question one{.column = column, .k = i % 5 * 3 + 1, .queries = i % 3 * 5 + 1, .seed = i};
    one.nprobe = i % 4 + 1;
    one.refine = i % 4 * 2;
    if (i % 6 != 5) return one;
    one.below = 20;
    return fully(one);
  };
  for (const std::size_t column : {0, 1, 3}) {
    CAPTURE(column);
    std::vector<Hits> in_memory;
    for (unsigned i = 0; i < 24; ++i) {
      in_memory.push_back(ask(*view, session.table(), question(column, i)));
    }
    // Vectors take 288,000 bytes; codes up to 110,000, of ivfflat a third of it.
    const std::size_t limit = column == 0 ? 60000 : 200000;
    Residency::instance().clear();
    Residency::instance().set_limit(limit);
    int like_memory = 0;
    for (unsigned i = 0; i < 24; ++i) {
      CAPTURE(i);
      const Hits got = ask(*view, session.table(), question(column, i));
      CHECK(Residency::instance().used() < limit + 50000);
      if (got == in_memory[i]) {
        ++like_memory;
      } else {  // many rows are as soon compared all
        CHECK(got == ask(*view, session.table(), exactly(question(column, i))));
      }
    }
    CHECK(like_memory >= (column == 0 ? 6 : 12));
    Residency::instance().set_limit(0);
  }
}

TEST_CASE("of a run that segments were added to nothing stays in memory") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(128), true);
  std::mt19937 random(15);
  session.begin();
  session.insert_many(random, 1000);
  session.train();
  session.commit();
  const auto runs = [] {
    const auto entries = Residency::instance().entries();
    return std::ranges::count_if(entries, [](const Residency::Entry& entry) {
      return entry.device == "cpu" && entry.owner.find("codes of segments") != std::string::npos;
    });
  };
  Residency::instance().clear();
  // Fewer than would have the table learn again, and so that a large run grows at times.
  for (int i = 0; i < 24; ++i) {
    const auto view = session.table().view();
    ask(*view, session.table(), {});
    CHECK(runs() == static_cast<std::ptrdiff_t>(find_coded_parts(*view, 0).runs.size()));
    session.begin();
    session.insert_many(random, 32);
    session.commit();
  }
}

// Changes blobs that `where` names at some places; searching and checking must notice.
void damage(Session& session, const std::string& id, std::size_t column) {
  const std::string good = session.db().value("SELECT data FROM t_blocks WHERE id = " + id);
  REQUIRE(!good.empty());
  const auto noticed = [&](const std::string& bad) {
    session.db().put("UPDATE t_blocks SET data = ? WHERE id = " + id, bad);
    Residency::instance().clear();
    session.reopen();
    const auto view = session.table().view();
    thrown(ErrorKind::kCorrupt, [&] { ask(*view, session.table(), {.column = column}); });
    // An exact search needs neither model nor codes.
    ask(*view, session.table(), {.column = column, .exact = true});
    CHECK(!faults_of(session).empty());
  };
  const std::size_t step = good.size() / 50 + 1;
  for (std::size_t i = 0; i < good.size(); i += step) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    noticed(bad);
  }
  noticed(good.substr(0, good.size() / 2));
  noticed(good + '\0');
  noticed("");
  session.db().put("UPDATE t_blocks SET data = ? WHERE id = " + id, good);
  session.reopen();
  check_integrity(session);
}

TEST_CASE("damage of a model and of codes is reported") {
  TemporaryFile file;
  Session session(file.path(), ivf_options(128), true);
  std::mt19937 random(17);
  session.begin();
  session.insert_many(random, 600);
  session.train();
  session.commit();
  damage(session, "0", 0);                            // the model of column 0
  damage(session, "1", 1);
  damage(session, std::to_string(4096 + 2 + 4), 0);   // codes of segment 1
  damage(session, std::to_string(4096 + 2 + 5), 1);

  // Codes that were changed under a right checksum: impossible ones, then wrong ones.
  for (const bool possible : {false, true}) {
    session.begin();
    storage::Store store(session.db().get(), "main", "t", session.table().options().layout);
    storage::State state = store.read_state();
    std::vector<storage::SegmentInfo> segments = store.read_segments();
    const storage::OpaqueBlock block = store.load_codes(segments[1], 0);
    std::vector<std::byte> forged(block.payload.begin(), block.payload.end());
    std::byte& list = forged[16 + 2 * 5];  // of the sixth row
    list = possible ? (list == std::byte{0} ? std::byte{1} : std::byte{0}) : std::byte{77};
    store.write_codes(segments[1], 0, state.models[0], forged);
    store.write_entry(segments[1]);
    state.directory = {};
    for (const storage::SegmentInfo& segment : segments) state.directory.add(segment);
    store.write_state(state);
    const auto view = session.table().view();
    if (!possible) {
      thrown(ErrorKind::kCorrupt, [&] { ask(*view, session.table(), {.column = 0}); });
    }
    const std::vector<std::string> faults = faults_of(session);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0] == "t: segment " + std::to_string(segments[1].id) +
                           ": codes of vector column 0 are not those of its vectors");
    session.rollback();
  }

  // Training and rebuilding repair it.
  for (const bool rebuild : {false, true}) {
    session.db().run("UPDATE t_blocks SET data = zeroblob(100) WHERE id < 4096");
    Residency::instance().clear();
    session.reopen();
    CHECK(!faults_of(session).empty());
    session.begin();
    rebuild ? session.table().rebuild() : session.train();
    session.commit();
    check_integrity(session);
    compare(*session.table().view(), session.table(), {.column = 1, .k = 40});
  }
}

}  // namespace
}  // namespace warplite::engine
