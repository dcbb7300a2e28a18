// Match counts against a count of every row, one by one: the counters, the engine on random tables,
// and the answers of UCI Adult.
#include <algorithm>
#include <map>

#include "compute/device.h"
#include "engine/match/bit_planes.h"
#include "engine/match/match_count.h"
#include "tests/support/data_files.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/sql_session.h"

namespace warplite::engine {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  // From 0 to before n.
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  std::uint64_t word() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

enum ColumnId { kIntegers, kReals, kTexts, kBooleans, kColumns };
constexpr PlainType kTypes[] = {PlainType::kInteger, PlainType::kReal, PlainType::kText,
                                PlainType::kBoolean};

// A range of numbers, some texts, or NULL. Column kColumns is the rowid.
struct Accepted {
  bool null = false;
  std::optional<double> low, high;
  std::vector<std::string> texts;

  bool admits(const Value& value) const {
    if (null || value.is_null()) return null && value.is_null();
    const Cell cell = value.cell();
    if (cell.kind == CellKind::kText) {
      return std::find(texts.begin(), texts.end(), cell.bytes) != texts.end();
    }
    const double number =
        cell.kind == CellKind::kInteger ? static_cast<double>(cell.integer) : cell.real;
    return (!low || number >= *low) && (!high || number <= *high);
  }

  Filter filter(int column) const {
    const int at = column == kColumns ? Predicate::kRowId : column;
    if (null) return {{at, Comparison::kIsNull, {}, {}}};
    if (!texts.empty()) {
      Predicate in{at, Comparison::kIn, {}, {}};
      for (const std::string& text : texts) in.operands.emplace_back(Cell::text(text));
      return {in};
    }
    Filter all;
    if (low) all.push_back({at, Comparison::kGreaterEqual, {Value(Cell::of(*low))}, {}});
    if (high) all.push_back({at, Comparison::kLessEqual, {Value(Cell::of(*high))}, {}});
    if (all.empty()) all.push_back({at, Comparison::kIsNotNull, {}, {}});
    return all;
  }
};

struct Item {
  int column;
  std::vector<Accepted> any_of;
  std::uint32_t weight;
};

struct Row {
  RowId rowid;
  Value values[kColumns];

  std::uint64_t count(const std::vector<Item>& query) const {
    std::uint64_t sum = 0;
    for (const Item& item : query) {
      const Value value =
          item.column == kColumns ? Value(Cell::of(rowid)) : values[item.column];
      const bool matches = std::any_of(item.any_of.begin(), item.any_of.end(),
                                       [&](const Accepted& one) { return one.admits(value); });
      if (matches) sum += item.weight;
    }
    return sum;
  }
};

RelationalQuery compiled(const std::vector<Item>& query) {
  RelationalQuery result;
  for (const Item& item : query) {
    RelationalItem& compiled_item = result.emplace_back();
    compiled_item.weight = item.weight;
    for (const Accepted& one : item.any_of) compiled_item.any_of.push_back(one.filter(item.column));
  }
  return result;
}

// A table with segments, a tail, pending rows out of order, and rows that were erased in each.
class Table {
 public:
  // How the rows of segments are counted.
  enum class By { kScanning, kCodes };

  Table(unsigned seed, int rows, std::uint32_t segment_rows, By by = By::kScanning)
      : random_(seed), rows_count_(rows), by_(by) {
    options_.layout.match.assign(kColumns, by == By::kCodes);
    options_.layout.plains.assign(std::begin(kTypes), std::end(kTypes));
    options_.plain_names = {"i", "r", "t", "b"};
    options_.layout.segment_rows = segment_rows;
    options_.tail_rows = segment_rows / 2;
    db_.run("BEGIN");
    table_ = Collection::create(db_.get(), "main", "w", options_);
    table_->begin();
    for (int n = 0; n < rows; ++n) {
      insert(n < rows * 9 / 10 ? n : (n - rows * 9 / 10) * 7919 % (rows / 10) + 2 * rows, n);
      if (n == rows * 8 / 10) table_->sync();
    }
    for (int i = 0; i < rows / 6; ++i) erase(random_.pick(2) == 0 ? random_.pick(rows)
                                                                  : 2 * rows + random_.pick(rows));
  }
  ~Table() {
    db_.run("ROLLBACK");
    table_->rollback();
  }

  Random& random() { return random_; }
  std::shared_ptr<const View> view() { return table_->view(); }

  // Adds rows behind the others, in segments of their own.
  void grow(int rows) {
    for (int n = 0; n < rows; ++n) insert(4 * rows_count_ + n, rows_count_ - 1);
    table_->sync();
  }

  std::vector<Item> random_query() {
    std::vector<Item> query;
    const int items = 1 + random_.pick(9);
    for (int i = 0; i < items; ++i) {
      Item& item = query.emplace_back();
      // Items on rowids are for those who scan.
      item.column = random_.pick(by_ == By::kCodes ? kColumns : kColumns + 1);
      item.weight = static_cast<std::uint32_t>(random_.pick(3) != 0 ? 1 : 1 + random_.pick(900));
      const int alternatives = random_.pick(4) != 0 ? 1 : 1 + random_.pick(3);
      for (int a = 0; a < alternatives; ++a) item.any_of.push_back(accepted(item.column));
    }
    return query;
  }

  // Hits in the order of results, of rows that pass `keep`.
  template <typename Keep>
  std::vector<std::pair<std::uint64_t, RowId>> expected(const std::vector<Item>& query,
                                                        const CountRange& range,
                                                        const Keep& keep) const {
    std::vector<std::pair<std::uint64_t, RowId>> found;
    for (const auto& [rowid, row] : rows_) {
      const std::uint64_t count = row.count(query);
      if (count >= range.low && count <= range.high && keep(row)) found.emplace_back(count, rowid);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    return found;
  }

 private:
  Accepted accepted(int column) {
    Accepted one;
    if (random_.pick(8) == 0) {
      one.null = true;
    } else if (column == kTexts) {
      const int texts = 1 + random_.pick(random_.pick(3) == 0 ? 12 : 2);
      for (int i = 0; i < texts; ++i) one.texts.push_back(text());
    } else {
      const int span = column == kColumns ? 3 * rows_count_ : column == kBooleans ? 2 : 100;
      const double scale = column == kReals ? 0.25 : 1;
      const double low = random_.pick(span) * scale;
      if (random_.pick(5) != 0) one.low = low;
      if (random_.pick(5) != 0) one.high = low + random_.pick(span / 3 + 1) * scale;
    }
    return one;
  }

  std::string text() {
    const int n = random_.pick(14);
    return n == 0 ? "" : std::string(static_cast<std::size_t>(n % 5) * 4, 'x') + std::to_string(n);
  }

  void insert(RowId rowid, int n) {
    Row row;
    row.rowid = rowid;
    // Zone maps of segments differ, and some columns are all NULL in some of them.
    const int near = n * 70 / rows_count_;
    if (random_.pick(9) != 0) {
      row.values[kIntegers] = Value(Cell::of(std::int64_t{near + random_.pick(30)}));
    }
    if (random_.pick(9) != 0) row.values[kReals] = Value(Cell::of(random_.pick(100) * 0.25));
    if (random_.pick(9) != 0) row.values[kTexts] = Value(Cell::text(text()));
    if (n > rows_count_ / 2) row.values[kBooleans] = Value(Cell::of(std::int64_t{random_.pick(2)}));
    Cell cells[kColumns];
    for (int i = 0; i < kColumns; ++i) cells[i] = row.values[i].cell();
    NewRow added;
    added.rowid = rowid;
    added.plains = cells;
    table_->insert(added, OnConflict::kReplace);
    rows_[rowid] = std::move(row);
  }

  void erase(RowId rowid) {
    table_->erase(rowid);
    rows_.erase(rowid);
  }

  Random random_;
  int rows_count_;
  By by_;
  TableOptions options_;
  Database db_;
  std::shared_ptr<Collection> table_;
  std::map<RowId, Row> rows_;
};

// Checks that hits are the first of those expected, and that they say where their rows are.
void check_hits(const View& view, std::span<const Hit> hits,
                const std::vector<std::pair<std::uint64_t, RowId>>& expected, std::size_t k) {
  REQUIRE(hits.size() == std::min(k, expected.size()));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    wrong += -hits[i].distance != static_cast<double>(expected[i].first);
    wrong += hits[i].rowid != expected[i].second;
    wrong += view.rowid({hits[i].block, hits[i].row}) != hits[i].rowid;
  }
  REQUIRE(wrong == 0);
}

constexpr auto kKeepAll = [](const Row&) { return true; };

void check_batches(Table& table, int batches) {
  const auto view = table.view();
  const Selection all(*view, {});
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<std::vector<Item>> items;
    std::vector<RelationalQuery> queries;
    const int count = 1 + table.random().pick(12);
    for (int q = 0; q < count; ++q) {
      // Some items are those of an earlier query.
      items.push_back(table.random_query());
      if (q > 0) items.back().push_back(items[static_cast<std::size_t>(table.random().pick(q))][0]);
      queries.push_back(compiled(items.back()));
    }
    const auto kth = static_cast<std::size_t>(table.random().pick(60));
    for (const std::size_t k : {kth, std::size_t{1} << 20}) {
      compute::HitTable found = most_matches(*view, all, queries, k, {});
      for (std::size_t q = 0; q < queries.size(); ++q) {
        check_hits(*view, found.sorted(q), table.expected(items[q], {}, kKeepAll), k);
      }
    }
  }
}

TEST_CASE("match counts: as many items as each row matches") {
  Table table(2, 700, 64);
  CHECK(table.view()->parts() > 8);
  check_batches(table, 60);
}

TEST_CASE("match counts: parts of more than one slice, on one thread and on several") {
  Table table(3, 40000, 16384);
  const unsigned before = compute::thread_count();
  for (const unsigned threads : {1u, 4u}) {
    compute::set_thread_count(threads);
    check_batches(table, 2);
  }
  compute::set_thread_count(before);
}

TEST_CASE("match counts: the same by the codes of columns") {
  const std::uint64_t before = compute::Registry::instance().host().searches();
  Table table(6, 700, 64, Table::By::kCodes);
  CHECK(table.view()->parts() > 8);
  check_batches(table, 60);
  Table large(7, 40000, 16384, Table::By::kCodes);
  check_batches(large, 2);
  CHECK(compute::Registry::instance().host().searches() > before);
}

// Asks a question many times in one batch, and returns whether codes were counted.
bool by_codes(Table& table, std::size_t times) {
  const auto view = table.view();
  const Selection all(*view, {});
  const std::vector<Item> items{{kIntegers, {{false, 10, 20, {}}}, 1}, {kTexts, {{true, {}, {}, {}}}, 2}};
  const std::vector<RelationalQuery> queries(times, compiled(items));
  const auto expected = table.expected(items, {}, kKeepAll);
  const auto searches = [] { return compute::Registry::instance().host().searches(); };
  const std::uint64_t before = searches();
  compute::HitTable found = most_matches(*view, all, queries, 9, {});
  for (std::size_t q = 0; q < times; q += 100) check_hits(*view, found.sorted(q), expected, 9);
  return searches() > before;
}

TEST_CASE("match counts: codes are made for many queries, and then serve one") {
  Table at_once(8, 700, 64), by_turns(9, 700, 64);
  CHECK_FALSE(by_codes(at_once, 1));
  CHECK(by_codes(at_once, 600));
  CHECK(by_codes(at_once, 1));
  for (int i = 0; i < 5; ++i) CHECK_FALSE(by_codes(by_turns, 100));
  CHECK(by_codes(by_turns, 100));
  CHECK(by_codes(by_turns, 1));
  // New segments have none yet, and do not keep the others from theirs.
  by_turns.grow(200);
  CHECK(by_codes(by_turns, 1));
  CHECK(by_codes(by_turns, 600));
}

void check_ranges(Table& table) {
  const auto view = table.view();
  for (int round = 0; round < 60; ++round) {
    const std::vector<Item> items = table.random_query();
    const RelationalQuery query = compiled(items);
    const Selection some(
        *view, {{kIntegers, Comparison::kGreaterEqual, {Value(Cell::of(std::int64_t{30}))}, {}}});
    const auto keep = [](const Row& row) {
      return !row.values[kIntegers].is_null() && row.values[kIntegers].cell().integer >= 30;
    };
    const std::uint64_t total = total_weight(query);
    for (const CountRange range : {CountRange{}, CountRange{2, total}, CountRange{1, total / 2},
                                   CountRange{total, total}, CountRange{3, 2}}) {
      const auto expected = table.expected(items, range, keep);
      check_hits(*view, most_matches(*view, some, {&query, 1}, 25, {range}).sorted(0),
                 expected, 25);
      std::vector<Hit> hits = all_matches(*view, some, query, range, {}, nullptr);
      std::sort(hits.begin(), hits.end());
      check_hits(*view, hits, expected, hits.size() + 1);
      if (hits.empty()) continue;
      const std::size_t last = hits.size() / 3;
      std::vector<Hit> rest = all_matches(*view, some, query, range, hits[last], nullptr);
      std::sort(rest.begin(), rest.end());
      check_hits(*view, rest, {expected.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                               expected.end()}, rest.size() + 1);
    }
  }
}

TEST_CASE("match counts: filters first, bounds on the count, and where to go on") {
  Table scanned(4, 900, 64);
  check_ranges(scanned);
  Table coded(9, 900, 64, Table::By::kCodes);
  check_ranges(coded);
}

TEST_CASE("match counts: an interrupt ends the counting") {
  struct Always : compute::Cancellation {
    bool requested() override { return true; }
  };
  Table table(5, 700, 64);
  Always always;
  const RelationalQuery query = compiled({{kIntegers, {{false, 10, 20, {}}}, 1}});
  const Selection all(*table.view(), {});
  CountRequest request;
  request.cancellation = &always;
  CHECK_THROWS_AS(most_matches(*table.view(), all, {&query, 1}, 5, request), Error);
}

TEST_CASE("match counts: devices that are not there") {
  Table table(10, 0, 64);
  CountRequest request;
  request.device = "abacus";
  const Selection all(*table.view(), {});
  CHECK_THROWS_AS(most_matches(*table.view(), all, {}, 5, request), Error);
}

// --- UCI Adult ---------------------------------------------------------------------------------

using Record = std::vector<std::string>;

// Empty, with a message, when the file is not there.
std::vector<Record> read_table(const std::string& name, char separator = '\t') {
  std::vector<Record> records;
  for (std::string& line : testing::data_lines(name)) {
    std::replace(line.begin(), line.end(), separator, '\t');
    records.push_back(testing::fields(line));
  }
  return records;
}

// {"age":[118,218],…} of a record qid, row, age_lo, age_hi, …
std::string query_of(const Record& names, const Record& record) {
  std::string json = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    json += (i == 0 ? "\"" : ",\"") + names[i] + "\":[" + record[2 + 2 * i] + "," +
            record[3 + 2 * i] + "]";
  }
  return json + "}";
}

TEST_CASE("match counts: the known answers of UCI Adult, through SQL") {
  const std::vector<Record> rows = read_table("adult_disc.csv", ',');
  const std::vector<Record> queries = read_table("adult_queries.tsv");
  if (rows.empty() || queries.empty()) return;
  const testing::SqlSession db(":memory:");
  std::string columns, inserts;
  for (const std::string& name : rows[0]) columns += ", " + name + " INTEGER";
  db.must_run("CREATE VIRTUAL TABLE adult USING warp(id INTEGER PRIMARY KEY" + columns + ")");
  db.must_run("CREATE TABLE q(id INTEGER PRIMARY KEY, query TEXT)");
  for (std::size_t i = 1; i < rows.size(); ++i) {
    inserts += i % 500 == 1 ? ";INSERT INTO adult VALUES (" : ",(";
    inserts += std::to_string(i - 1);
    for (const std::string& value : rows[i]) inserts += "," + value;
    inserts += ")";
  }
  db.must_run("BEGIN" + inserts + ";COMMIT");
  for (std::size_t i = 1; i < queries.size(); ++i) {
    db.must_run("INSERT INTO q VALUES (" + queries[i][0] + ", '" + query_of(rows[0], queries[i]) +
                "')");
  }

  std::vector<std::string> expected;
  const std::vector<Record> best = read_table("adult_gt_top100.tsv");
  for (std::size_t i = 1; i < best.size(); ++i) {
    expected.push_back(best[i][0] + "|" + std::to_string(std::stoi(best[i][1]) + 1) + "|" +
                       best[i][2] + "|" + best[i][3]);
  }
  CHECK(expected.size() == 100 * (queries.size() - 1));
  CHECK(db.must_run("SELECT query_id, rank, rowid, matches FROM "
                    "warp_match_join('adult', 'SELECT id, query FROM q', 100)") == expected);

  const std::vector<Record> histograms = read_table("adult_gt_hist.tsv");
  for (std::size_t i = 1; i < histograms.size(); i += 10) {
    std::vector<std::string> counts;
    for (std::size_t c = 15; c > 1; --c) {
      if (histograms[i][c] != "0") {
        counts.push_back(std::to_string(c - 1) + "|" + histograms[i][c]);
      }
    }
    CHECK(db.must_run("SELECT matches, count(*) FROM adult WHERE adult MATCH (SELECT query FROM q "
                      "WHERE id = " + histograms[i][0] + ") GROUP BY matches ORDER BY matches "
                      "DESC") == counts);
  }
}

}  // namespace
}  // namespace warplite::engine
