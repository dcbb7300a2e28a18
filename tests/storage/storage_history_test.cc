#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/storage_fixture.h"

namespace warplite::storage {

// Random flushes, deaths, drops and rollbacks, against a model in memory.
TEST_CASE("storage: a long random history agrees with a model") {
  struct Model {
    std::map<std::int64_t, std::pair<SegmentInfo, std::vector<Row>>> segments;
    std::map<std::int64_t, Row> tail;  // by sequence
  };
  Database db;
  Layout layout = rich_layout();
  layout.aux = 0;
  Store store = create_store(db, layout);
  Generator generator(layout, 5);
  std::mt19937 random(11);
  Model committed;
  RowId next_rowid = 1;
  for (int round = 0; round < 150; ++round) {
    Model model = committed;
    const Stamp before = store.read_generation();
    db.run("BEGIN");
    State state = store.read_state();
    for (unsigned step = random() % 3 + 1; step > 0; --step) {
      const unsigned action = random() % 5;
      if (action < 2) {
        const std::vector<Row> rows = generator.rows(next_rowid, random() % 40 + 1, 1 + round % 2);
        next_rowid = rows.back().rowid + 1;
        const Chunk chunk = make_chunk(layout, rows, round % 3 == 0 ? 0 : kBlockHeader);
        if (action == 0) {
          const SegmentInfo info = store.seal(state, refs(chunk));
          model.segments[info.id] = {info, rows};
        } else {
          const std::int64_t first = state.last_sequence + 1;
          store.append_tail(state, new_stamp(), refs(chunk));
          for (std::size_t i = 0; i < rows.size(); ++i) {
            model.tail[first + static_cast<std::int64_t>(i)] = rows[i];
          }
        }
      } else if (action == 2 && !model.segments.empty()) {
        SegmentInfo& info = model.segments.begin()->second.first;
        Bitmap alive(info.rows, true);
        for (std::uint32_t row = 0; row < info.rows; row += random() % 3 + 1) alive.reset(row);
        store.write_alive(info, alive);
      } else if (action == 3 && model.segments.size() > 3) {
        store.drop_segment(model.segments.begin()->second.first);
        model.segments.erase(model.segments.begin());
      } else if (action == 4 && random() % 4 == 0) {
        store.clear_tail(state);
        model.tail.clear();
      } else if (!model.tail.empty()) {
        const std::int64_t gone[] = {model.tail.rbegin()->first, model.tail.begin()->first};
        store.erase_tail(state, gone);
        for (std::int64_t sequence : gone) model.tail.erase(sequence);
      }
    }
    write_state(store, state);
    const bool keep = random() % 3 != 0;
    db.run(keep ? "COMMIT" : "ROLLBACK");
    CHECK((store.read_generation() == before) == !keep);
    if (keep) committed = std::move(model);

    REQUIRE(store.check(10) == std::vector<std::string>{});
    const std::vector<SegmentInfo> segments = store.read_segments();
    REQUIRE(segments.size() == committed.segments.size());
    for (const SegmentInfo& info : segments) {
      REQUIRE(info.live_rows == committed.segments[info.id].first.live_rows);
      check_segment(store, info, committed.segments[info.id].second);
    }
    REQUIRE(store.read_state().tail_rows == static_cast<std::int64_t>(committed.tail.size()));
    Chunk chunk(layout, static_cast<std::uint32_t>(committed.tail.size()));
    std::vector<std::int64_t> sequences;
    const TailRead read = store.read_tail(0, chunk, sequences);
    CHECK(read.digest == store.read_state().tail_digest);
    CHECK(read.last_flush == store.read_state().last_flush);
    std::vector<Row> rows;
    for (const auto& [sequence, row] : committed.tail) rows.push_back(row);
    check_chunk(chunk, 0, rows);
  }
}

}  // namespace warplite::storage
