// Filters against SQLite itself: the same predicates on an ordinary table with the same
// values must select the same rows, for every operator, type, collation and NULL.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/filter/collation.h"
#include "engine/filter/filter.h"
#include "sql/table/host_pattern.h"
#include "tests/support/engine_fixture.h"

namespace warplite::engine {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kTwo53 = std::int64_t{1} << 53;
constexpr double kTwo63 = 9223372036854775808.0;

const std::vector<std::int64_t> kIntegers = {
    kMin,       kMin + 1, -kTwo53 - 1, -kTwo53,    -100,        -2,       -1,  0,
    1,          2,        3,           10,         19,          20,       100, 255,
    kTwo53 - 1, kTwo53,   kTwo53 + 1,  kTwo53 + 2, kMax - 1024, kMax - 1, kMax};
const std::vector<double> kReals = {-std::numeric_limits<double>::infinity(),
                                    -1e308,
                                    -kTwo63 * 2,
                                    -kTwo63,
                                    -9007199254740993.0,
                                    -100.5,
                                    -1.0,
                                    -0.5,
                                    -0.0,
                                    0.0,
                                    5e-324,
                                    0.1,
                                    0.5,
                                    1.0,
                                    1.5,
                                    2.0,
                                    10.0,
                                    19.75,
                                    20.0,
                                    100.0,
                                    9007199254740991.0,
                                    9007199254740992.0,
                                    9007199254740994.0,
                                    9223372036854774784.0,
                                    kTwo63,
                                    kTwo63 * 2,
                                    1e20,
                                    1.5e300,
                                    std::numeric_limits<double>::infinity()};
const std::vector<std::string> kTexts = {"",
                                         " ",
                                         "a",
                                         "A",
                                         "ab",
                                         "AB",
                                         "aB ",
                                         "ab  ",
                                         "abc",
                                         "ABC",
                                         "abd",
                                         "b",
                                         "Zz",
                                         "é",
                                         "É",
                                         "a\u0301",
                                         "ümlaut",
                                         "日本語",
                                         "日本",
                                         "10",
                                         "1.5",
                                         "%",
                                         "_",
                                         "a_c",
                                         "a%c",
                                         "[",
                                         "]",
                                         "a]",
                                         "a-c",
                                         "^a",
                                         "*",
                                         "?",
                                         std::string("a\0b", 3),
                                         std::string("a\0c", 3),
                                         std::string("A\0b", 3),
                                         std::string("\0", 1),
                                         "\xff",
                                         "\xc3",
                                         "a\x80z",
                                         "\xed\xa0\x80",
                                         "\xf0\x9f\x98\x80",
                                         std::string(200, 'x'),
                                         std::string(200, 'x') + "y",
                                         std::string(200, 'x') + "Y",
                                         "zebra",
                                         "zebrA",
                                         "~tilde"};
const std::vector<std::string> kPatterns = {
    "",       "%",     "_",      "a%",     "%b",  "%b%",  "A_",     "a\\_c",  "a_c",
    "%é%",    "_é",    "日%",    "日__",   "1%",  "%.%",  "%0",     "*",      "?",
    "a*",     "[ab]*", "[^a]*",  "[a-c]b", "[]]", "[^]]", "[a-",    "[",      "a]",
    "*[b-d]", "[-a]",  "[a-]",   "??",     "x*y", "x%Y",  "%x%x%y", "*x*x*y", "\xff",
    "_\x80%", "%\xc3", "[é-ü]*", "10",     "2_",  "-1*"};

enum ColumnId { kIntegerColumn, kRealColumn, kTextColumn, kBooleanColumn };
const char* const kColumnNames[] = {"i", "r", "t", "b"};

// The same rows in a collection and in an ordinary table whose columns have no affinity.
class Twin {
 public:
  Twin(unsigned seed, bool clustered) : random_(seed), db_() {
    options_.layout.plains = {PlainType::kInteger, PlainType::kReal, PlainType::kText,
                              PlainType::kBoolean};
    options_.plain_names = {"i", "r", "t", "b"};
    options_.layout.segment_rows = 64;
    options_.tail_rows = 32;
    db_.run("CREATE TABLE o(id INTEGER PRIMARY KEY, i, r, t, b)");
    db_.run("BEGIN");
    table_ = Collection::create(db_.get(), "main", "w", options_);
    table_->begin();
    fill(clustered);
  }
  ~Twin() {
    db_.run("ROLLBACK");
    table_->rollback();
  }

  int pick(std::size_t n) {
    return static_cast<int>(std::uniform_int_distribution<std::size_t>(0, n - 1)(random_));
  }
  template <typename T>
  const T& any(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(pick(from.size()))];
  }

  Predicate random_predicate() {
    Predicate predicate;
    predicate.column = pick(5) - 1;
    predicate.op = static_cast<Comparison>(pick(13));
    predicate.collation = static_cast<Collation>(pick(3));
    const bool unary =
        predicate.op == Comparison::kIsNull || predicate.op == Comparison::kIsNotNull;
    int operands = unary ? 0 : 1;
    if (predicate.op == Comparison::kIn) operands = pick(4) == 0 ? pick(200) : pick(6);
    for (int i = 0; i < operands; ++i) predicate.operands.push_back(random_operand(predicate));
    const bool pattern = predicate.op == Comparison::kLike || predicate.op == Comparison::kGlob;
    if (pattern && (predicate.column == kRealColumn || pick(4) == 0)) {
      predicate.host = std::make_shared<sql::HostPattern>(db_.get(), predicate.op,
                                                          predicate.operands[0].cell());
    }
    return predicate;
  }

  // Rowids by the ordinary table, and by the collection.
  std::set<RowId> expected(const Filter& filter, std::string& sql) {
    sql = "SELECT id FROM o WHERE 1";
    std::vector<Value> bound;
    for (const Predicate& predicate : filter) sql += " AND " + to_sql(predicate, bound);
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    for (std::size_t i = 0; i < bound.size(); ++i)
      bind(statement, static_cast<int>(i) + 1, bound[i]);
    std::set<RowId> rows;
    while (sqlite3_step(statement) == SQLITE_ROW) rows.insert(sqlite3_column_int64(statement, 0));
    sqlite3_finalize(statement);
    return rows;
  }

  std::set<RowId> selected(const Filter& filter) {
    const auto view = table_->view();
    const Selection selection(*view, filter);
    std::set<RowId> rows;
    std::uint64_t count = 0;
    for (std::uint32_t i = 0; i < view->parts(); ++i) {
      const Selection::Rows& part = selection.part(i);
      count += part.count;
      if (part.count == 0) continue;
      if (part.all) CHECK(part.count == view->part(i).rows());
      if (!part.all) CHECK(part.bits.count() == part.count);
      for (std::uint32_t row = 0; row < view->part(i).rows(); ++row) {
        if (part.all || part.bits.test(row)) rows.insert(view->rowid({i, row}));
      }
    }
    CHECK(count == rows.size());
    CHECK(selection.count() == count);
    return rows;
  }

 private:
  void fill(bool clustered) {
    const std::size_t rows = 700;
    for (std::size_t n = 0; n < rows; ++n) {
      const auto choose = [&](const auto& from) {
        const std::size_t near = n * from.size() / rows;
        return clustered && pick(20) != 0 ? from[near] : any(from);
      };
      Value values[4];
      if (pick(8) != 0) values[0] = Value(Cell::of(choose(kIntegers)));
      if (pick(8) != 0) values[1] = Value(Cell::of(choose(kReals)));
      if (pick(8) != 0) values[2] = Value(Cell::text(choose(kTexts)));
      // A run of segments in which all or none are NULL.
      if (n < 200 || (n > 300 && pick(2) == 0)) {
        values[3] = Value(Cell::of(static_cast<std::int64_t>(pick(2))));
      }
      insert(static_cast<RowId>(n < 400 ? n : n * 3), values);
      if (n == 620) table_->sync();
    }
    for (int i = 0; i < 120; ++i) erase(pick(pick(2) == 0 ? 400 : 2100));
  }

  void insert(RowId rowid, const Value (&values)[4]) {
    Cell cells[4];
    for (std::size_t i = 0; i < 4; ++i) cells[i] = values[i].cell();
    NewRow row;
    row.rowid = rowid;
    row.plains = cells;
    table_->insert(row, OnConflict::kAbort);
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(db_.get(), "INSERT INTO o VALUES(?,?,?,?,?)", -1, &statement,
                               nullptr) == SQLITE_OK);
    sqlite3_bind_int64(statement, 1, rowid);
    for (int i = 0; i < 4; ++i) bind(statement, i + 2, values[i]);
    REQUIRE(sqlite3_step(statement) == SQLITE_DONE);
    sqlite3_finalize(statement);
  }

  void erase(RowId rowid) {
    table_->erase(rowid);
    db_.run("DELETE FROM o WHERE id = " + std::to_string(rowid));
  }

  Value random_operand(const Predicate& predicate) {
    if (pick(15) == 0) return Value();
    const bool pattern = predicate.op == Comparison::kLike || predicate.op == Comparison::kGlob;
    if (pattern) return Value(Cell::text(any(kPatterns)));
    // The ordinary table's rowid has an affinity of its own: no text that looks like a number.
    const int kind = pick(12);
    if (kind == 0) return Value(Cell::blob(any(kTexts)));
    if (kind == 1 && predicate.column != Predicate::kRowId) return Value(Cell::text(any(kTexts)));
    if (predicate.column == kTextColumn && kind < 10) return Value(Cell::text(any(kTexts)));
    if (predicate.column == Predicate::kRowId && kind < 9) {
      return Value(Cell::of(static_cast<std::int64_t>(pick(2200) - 10)));
    }
    if (kind < 8) return Value(Cell::of(any(kIntegers)));
    return Value(Cell::of(any(kReals)));
  }

  static std::string to_sql(const Predicate& predicate, std::vector<Value>& bound) {
    static const char* const kOperators[] = {"=",  "<>",   "<",      "<=",      ">",
                                             ">=", "IS",   "IS NOT", "IS NULL", "NOT NULL",
                                             "IN", "LIKE", "GLOB"};
    static const char* const kCollations[] = {"BINARY", "NOCASE", "RTRIM"};
    const bool rowid = predicate.column == Predicate::kRowId;
    std::string sql = rowid ? "id" : kColumnNames[predicate.column];
    if (!rowid)
      sql += std::string(" COLLATE ") + kCollations[static_cast<int>(predicate.collation)];
    sql += std::string(" ") + kOperators[static_cast<int>(predicate.op)];
    const auto bind_one = [&](const Value& value) {
      bound.push_back(value);
      return "?" + std::to_string(bound.size());
    };
    if (predicate.op == Comparison::kIn) {
      sql += " (";
      for (std::size_t i = 0; i < predicate.operands.size(); ++i) {
        sql += (i == 0 ? "" : ",") + bind_one(predicate.operands[i]);
      }
      return sql + ")";
    }
    if (!predicate.operands.empty()) sql += " " + bind_one(predicate.operands[0]);
    return sql;
  }

  static void bind(sqlite3_stmt* statement, int at, const Value& value) {
    const Cell cell = value.cell();
    const int size = static_cast<int>(cell.bytes.size());
    switch (cell.kind) {
      case CellKind::kNull:
        sqlite3_bind_null(statement, at);
        break;
      case CellKind::kInteger:
        sqlite3_bind_int64(statement, at, cell.integer);
        break;
      case CellKind::kReal:
        sqlite3_bind_double(statement, at, cell.real);
        break;
      case CellKind::kText:
        sqlite3_bind_text(statement, at, cell.bytes.data(), size, SQLITE_TRANSIENT);
        break;
      case CellKind::kBlob:
        if (size == 0) {
          sqlite3_bind_zeroblob(statement, at, 0);
        } else {
          sqlite3_bind_blob(statement, at, cell.bytes.data(), size, SQLITE_TRANSIENT);
        }
        break;
    }
  }

  std::mt19937 random_;
  Database db_;
  TableOptions options_;
  std::shared_ptr<Collection> table_;
};

std::string describe(const Value& value) {
  const Cell cell = value.cell();
  switch (cell.kind) {
    case CellKind::kNull:
      return "NULL";
    case CellKind::kInteger:
      return std::to_string(cell.integer);
    case CellKind::kReal: {
      char buffer[40];
      std::snprintf(buffer, sizeof buffer, "%.17g", cell.real);
      return buffer;
    }
    case CellKind::kText:
      return "'" + std::string(cell.bytes) + "'";
    case CellKind::kBlob:
      return "x'" + std::string(cell.bytes) + "'";
  }
  return "";
}

void compare(Twin& twin, const Filter& filter) {
  std::string sql;
  const std::set<RowId> expected = twin.expected(filter, sql);
  std::string operands;
  for (const Predicate& predicate : filter) {
    for (const Value& operand : predicate.operands) operands += " " + describe(operand);
  }
  INFO(sql << " with" << operands);
  CHECK(twin.selected(filter) == expected);
}

TEST_CASE("every predicate selects the rows that SQLite selects") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    Twin twin(seed, seed % 2 == 0);
    for (int trial = 0; trial < 1500; ++trial) {
      Filter filter;
      for (int n = twin.pick(3); n >= 0; --n) filter.push_back(twin.random_predicate());
      compare(twin, filter);
    }
  }
}

TEST_CASE("LIKE and GLOB match as SQLite's functions do") {
  Database db;
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(db.get(), "SELECT ?2 LIKE ?1, ?2 GLOB ?1", -1, &statement, nullptr) ==
          SQLITE_OK);
  const auto check = [&](const std::string& pattern, const std::string& text) {
    sqlite3_reset(statement);
    sqlite3_bind_text(statement, 1, pattern.data(), static_cast<int>(pattern.size()),
                      SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 2, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
    INFO("pattern '" << pattern << "' text '" << text << "'");
    CHECK(like_match(pattern, text) == (sqlite3_column_int(statement, 0) != 0));
    CHECK(glob_match(pattern, text) == (sqlite3_column_int(statement, 1) != 0));
  };
  std::vector<std::string> patterns = kPatterns;
  patterns.insert(patterns.end(), kTexts.begin(), kTexts.end());
  for (const std::string& pattern : patterns) {
    for (const std::string& text : kTexts) check(pattern, text);
  }
  // Random strings over an alphabet in which wildcards are frequent.
  const std::vector<std::string> alphabet = {"a", "B", "b", "%", "_",  "*",    "?",    "[",
                                             "]", "^", "-", "é", "日", "\xff", "\x80", "\xc3"};
  std::mt19937 random(7);
  const auto any_string = [&](std::size_t letters) {
    std::string out;
    for (std::size_t n = random() % 8; n > 0; --n) out += alphabet[random() % letters];
    return out;
  };
  for (int i = 0; i < 20000; ++i) check(any_string(alphabet.size()), any_string(alphabet.size()));
  for (int i = 0; i < 20000; ++i) check(any_string(7), any_string(3));
  sqlite3_finalize(statement);
}

TEST_CASE("texts compare under each collation as SQLite compares them") {
  Database db;
  const char* const names[] = {"BINARY", "NOCASE", "RTRIM"};
  for (int c = 0; c < 3; ++c) {
    const std::string sql = std::string("SELECT (?1 < ?2 COLLATE ") + names[c] +
                            ") - (?1 > ?2 COLLATE " + names[c] + ")";
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    for (const std::string& a : kTexts) {
      for (const std::string& b : kTexts) {
        sqlite3_reset(statement);
        sqlite3_bind_text(statement, 1, a.data(), static_cast<int>(a.size()), SQLITE_TRANSIENT);
        sqlite3_bind_text(statement, 2, b.data(), static_cast<int>(b.size()), SQLITE_TRANSIENT);
        REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
        const int expected = -sqlite3_column_int(statement, 0);
        const auto collation = static_cast<Collation>(c);
        INFO(names[c] << " '" << a << "' '" << b << "'");
        CHECK(compare_text(a, b, collation) == expected);
        CHECK((canonical_text(a, collation) == canonical_text(b, collation)) == (expected == 0));
      }
    }
    sqlite3_finalize(statement);
  }
}

TEST_CASE("rowid IN a long list is quick") {
  Database db;
  TableOptions options;
  options.layout.plains = {PlainType::kInteger};
  options.plain_names = {"n"};
  db.run("BEGIN");
  const auto table = Collection::create(db.get(), "main", "w", options);
  table->begin();
  for (std::int64_t i = 0; i < 200000; ++i) {
    const Cell cell = Cell::of(i % 1000);
    NewRow row;
    row.plains = &cell;
    table->insert(row, OnConflict::kAbort);
  }
  Predicate predicate;
  predicate.op = Comparison::kIn;
  for (std::int64_t i = 0; i < 100000; ++i) predicate.operands.emplace_back(Cell::of(i * 3));
  const Selection selection(*table->view(), {predicate});
  CHECK(selection.count() == 66666);  // 3, 6, … 199,998
  db.run("ROLLBACK");
  table->rollback();
}

}  // namespace
}  // namespace warplite::engine
