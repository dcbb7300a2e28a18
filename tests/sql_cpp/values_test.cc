// What goes in and out of SQL: vectors from BLOBs and JSON, plain values as SQLite's own
// STRICT tables and comparisons treat them.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/half.h"
#include "sql/definition/json_vector.h"
#include "sql/definition/values.h"
#include "tests/support/in_host.h"
#include "tests/support/sql_session.h"

namespace warplite::sql {
namespace {

using testing::SqlSession;

template <typename T>
Cell blob_of(const std::vector<T>& values) {
  return Cell::blob({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

// What an operation throws, or "" when it does not.
template <typename Operation>
std::string error_of(Operation&& operation) {
  try {
    operation();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string error_for(const Cell& cell, ElementType type, std::uint32_t dim) {
  return error_of([&] { vector_from_cell(cell, type, dim, Place("papers", "embedding")); });
}

TEST_CASE("every NaN and infinity is found, and nothing else") {
  const testing::InHost host;
  const float worst[] = {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                         std::numeric_limits<float>::denorm_min(), -0.0f, 1.0f};
  const float special[] = {std::numeric_limits<float>::quiet_NaN(),
                           std::bit_cast<float>(0xff800001u), std::bit_cast<float>(0x7fffffffu),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity()};
  for (std::uint32_t dim = 1; dim <= 70; ++dim) {
    std::vector<float> values(dim);
    for (std::uint32_t i = 0; i < dim; ++i) values[i] = worst[i % 5];
    REQUIRE(error_for(blob_of(values), ElementType::kFloat32, dim).empty());
    for (std::uint32_t i = 0; i < dim; ++i) {
      const float before = values[i];
      values[i] = special[(i + dim) % 5];
      const std::string error = error_for(blob_of(values), ElementType::kFloat32, dim);
      values[i] = before;
      INFO(error);
      REQUIRE(error.find("element [" + std::to_string(i) + "]") != std::string::npos);
    }
  }
}

TEST_CASE("float16: every bit pattern is accepted exactly when it is finite") {
  const testing::InHost host;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    for (const std::uint32_t dim : {1u, 40u}) {
      std::vector<std::uint16_t> values(dim, 0x7bff);
      values[dim - 1] = static_cast<std::uint16_t>(bits);
      const bool accepted = error_for(blob_of(values), ElementType::kFloat16, dim).empty();
      REQUIRE(accepted == ((bits & 0x7c00) != 0x7c00));
    }
  }
}

TEST_CASE("a FLOAT16 column rounds float32 values to nearest even") {
  const testing::InHost host;
  std::mt19937 random(7);
  std::uniform_int_distribution<std::uint32_t> any;
  for (int round = 0; round < 20000; ++round) {
    const std::vector<float> value{std::bit_cast<float>(any(random))};
    const std::uint16_t expected = float_to_half(value[0]);
    const std::string error = error_for(blob_of(value), ElementType::kFloat16, 1);
    REQUIRE(error.empty() == ((expected & 0x7c00) != 0x7c00));
    if (!error.empty()) continue;
    const VectorInput vector = vector_from_cell(blob_of(value), ElementType::kFloat16, 1, "t.c");
    std::uint16_t got;
    REQUIRE(vector.size == 2);
    std::memcpy(&got, vector.data, 2);
    REQUIRE(got == expected);
  }
  CHECK(error_for(blob_of(std::vector<float>{65519.0f}), ElementType::kFloat16, 1).empty());
  CHECK(!error_for(blob_of(std::vector<float>{65520.0f}), ElementType::kFloat16, 1).empty());
}

TEST_CASE("valid BLOBs are borrowed, not copied") {
  const testing::InHost host;
  const std::vector<float> values(16, 1.5f);
  const VectorInput vector = vector_from_cell(blob_of(values), ElementType::kFloat32, 16, "t.c");
  CHECK(vector.data == reinterpret_cast<const std::byte*>(values.data()));
  CHECK(vector.owned.empty());
}

TEST_CASE("errors say the place, what was expected and what came") {
  const testing::InHost host;
  CHECK(error_for(Cell::blob("123456789012"), ElementType::kFloat32, 4) ==
        "papers.embedding: expected a FLOAT[4] vector (16 bytes of float32, or a JSON array of 4 "
        "numbers), got a BLOB of 12 bytes");
  CHECK(error_for(Cell::text("[1,2,3]"), ElementType::kInt8, 4) ==
        "papers.embedding: expected an INT8[4] vector (4 bytes of int8, or a JSON array of 4 "
        "numbers), got a JSON array of 3 numbers");
  CHECK(error_for(Cell::of(std::int64_t{7}), ElementType::kBit, 8) ==
        "papers.embedding: expected a BIT[8] vector (1 bytes of bit, or a JSON array of 8 "
        "numbers), got the integer 7");
  CHECK(error_for(Cell::null(), ElementType::kFloat16, 2).find("got NULL") != std::string::npos);
}

TEST_CASE("JSON: what is no flat array of fitting numbers is refused") {
  const testing::InHost host;
  struct Case {
    const char* json;
    ElementType type;
    const char* problem;  // "" when it is fine
  };
  constexpr ElementType kF32 = ElementType::kFloat32, kF16 = ElementType::kFloat16,
                        kI8 = ElementType::kInt8, kBit = ElementType::kBit;
  const Case cases[] = {
      {"[1,2]", kF32, ""},          {" \t\n[ 1 , -2.5e3 ] \r\n", kF32, ""},
      {"[]", kF32, ""},             {"[3.4028235e38]", kF32, ""},
      {"[1e-60]", kF32, ""},        {"[3.5e38]", kF32, "as element [0]"},
      {"[1,1e999]", kF32, "too large at byte 8"},
      {"[-1e999]", kF32, "too large"}, {"[NaN]", kF32, "malformed JSON at byte 2"},
      {"[Infinity]", kF32, "malformed"}, {"[1,]", kF32, "malformed JSON at byte 4"},
      {"[1 2]", kF32, "malformed"}, {"[1,2", kF32, "malformed"},
      {"", kF32, "malformed"},      {"1", kF32, "a number instead of an array"},
      {"null", kF32, "null instead of an array"}, {"[null]", kF32, "null as element [0]"},
      {"[true]", kF32, "true as element [0]"}, {"[0,\"1\"]", kF32, "a string as element [1]"},
      {"[[1]]", kF32, "an array as element [0]"}, {"[{}]", kF32, "an object as element [0]"},
      {"{\"a\":1}", kF32, "an object instead"}, {"[1][2]", kF32, "malformed JSON at byte 4"},
      {"[1] x", kF32, "malformed"}, {"[0x10]", kF32, "malformed"}, {"[01]", kF32, ""},
      {"[+1]", kF32, ""},  {"[.5]", kF32, ""}, {"[-.5e1,.25]", kF32, ""}, {"[.]", kF32, "malformed"},
      {"[1.]", kF32, ""}, {"\xEF\xBB\xBF[1]", kF32, "byte order mark"},
      {"[127,-128,1.0,-0]", kI8, ""}, {"[128]", kI8, "128 as element [0]"},
      {"[0,-129]", kI8, "-129 as element [1]"}, {"[1.5]", kI8, "1.5 as element [0]"},
      {"[99999999999999999999]", kI8, "as element [0]"},
      {"[1,0,1,0,0,0,0,0]", kBit, ""}, {"[2]", kBit, "2 as element [0]"},
      {"[0.5]", kBit, "0.5 as element [0]"}, {"[-1]", kBit, "-1 as element [0]"},
      {"[65519]", kF16, ""},        {"[65520]", kF16, "65520 as element [0]"},
  };
  for (const Case& test : cases) {
    const std::string error =
        error_of([&] { parse_json_vector(test.json, test.type, "t.c"); });
    const std::string shown = std::string(test.json) + " -> " + error;
    INFO(shown);
    if (test.problem[0] == '\0') {
      CHECK(error.empty());
    } else {
      CHECK(error.find(test.problem) != std::string::npos);
      CHECK(error.starts_with("t.c: expected"));
    }
  }
  const std::string deep(1000000, '[');
  CHECK(!error_of([&] { parse_json_vector(deep, kF32, "t.c"); }).empty());
}

TEST_CASE("JSON: numbers are read to the nearest float32") {
  const testing::InHost host;
  std::mt19937 random(11);
  std::uniform_int_distribution<std::uint32_t> any;
  for (int round = 0; round < 20000; ++round) {
    const float value = std::bit_cast<float>(any(random));
    if (!std::isfinite(value)) continue;
    char text[64];
    std::snprintf(text, sizeof text, "[%.9g]", static_cast<double>(value));
    const JsonVector parsed = parse_json_vector(text, ElementType::kFloat32, "t.c");
    float got;
    REQUIRE(parsed.bytes.size() == sizeof got);
    std::memcpy(&got, parsed.bytes.data(), sizeof got);
    REQUIRE(std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(value));
  }
}

TEST_CASE("JSON: bits are least significant first") {
  const testing::InHost host;
  const JsonVector bits =
      parse_json_vector("[1,0,1,0,0,0,0,1, 0,1]", ElementType::kBit, "t.c");
  CHECK(bits.count == 10);
  REQUIRE(bits.bytes.size() == 2);
  CHECK(bits.bytes[0] == std::byte{0x85});
  CHECK(bits.bytes[1] == std::byte{0x02});
}

// --- plain values ----------------------------------------------------------

const char* const kLiterals[] = {
    "0", "1", "-1", "2", "5", "9007199254740993", "9223372036854775807", "-9223372036854775808",
    "0.0", "1.0", "2020.0", "1.5", "-2.5", "1e3", "1e18", "9.2e18", "9.3e18", "-9.3e18", "1e300",
    "1e-300", "9223372036854774784.0", "9223372036854775808.0", "-9223372036854775808.0", "0.1",
    "123456789.125", "''", "' '", "'0'", "'1'", "'2020'", "' 12 '", "'\t12\n'", "'+5'", "'-5'",
    "'+-5'", "'--5'", "'1e3'", "'1E3'", "'1e'", "'1e+'", "'1e+2'", "'0x10'",
    "'9223372036854775807'", "'9223372036854775808'", "'-9223372036854775808'",
    "'-9223372036854775809'", "'12abc'", "'abc'", "'.5'", "'5.'", "'.'", "'-.5'", "'12.0'",
    "'12.5'", "'1 2'", "'1_000'", "'inf'", "'nan'", "'Infinity'", "'1e400'", "'-1e400'", "'1e-400'",
    "'0.000e999'", "'00012'", "'true'", "'TRUE'", "'0.1'", "'1234567890123456789012345'",
    "'\u00a05'", "'1e0000000000000000000001'", "'-0'", "'-0.0'", "x''", "x'31'", "x'00ff'",
};

// A value as "type|text", so that 1, 1.0 and '1' differ.
std::string rendered(const Cell& cell) {
  SqlSession session(":memory:");
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(session.db(), "SELECT typeof(?1) || '|' || quote(?1)", -1, &statement,
                     nullptr);
  switch (cell.kind) {
    case CellKind::kNull: break;
    case CellKind::kInteger: sqlite3_bind_int64(statement, 1, cell.integer); break;
    case CellKind::kReal: sqlite3_bind_double(statement, 1, cell.real); break;
    case CellKind::kText:
      sqlite3_bind_text64(statement, 1, cell.bytes.data(), cell.bytes.size(), SQLITE_STATIC,
                          SQLITE_UTF8);
      break;
    case CellKind::kBlob:
      sqlite3_bind_blob64(statement, 1, cell.bytes.data(), cell.bytes.size(), SQLITE_STATIC);
      break;
  }
  REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
  std::string text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  return text;
}

using HostValue = std::unique_ptr<sqlite3_value, void (*)(sqlite3_value*)>;

HostValue literal(const SqlSession& session, const std::string& text) {
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(session.db(), ("SELECT " + text).c_str(), -1, &statement, nullptr) ==
          SQLITE_OK);
  REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
  HostValue value(sqlite3_value_dup(sqlite3_column_value(statement, 0)), sqlite3_value_free);
  sqlite3_finalize(statement);
  return value;
}

TEST_CASE("plain columns store what STRICT tables store") {
  const testing::InHost host;
  const SqlSession session(":memory:");
  session.must_run("CREATE TABLE integers(x INTEGER) STRICT; CREATE TABLE reals(x REAL) STRICT;"
                   "CREATE TABLE texts(x TEXT) STRICT");
  const std::pair<const char*, PlainType> columns[] = {
      {"integers", PlainType::kInteger}, {"reals", PlainType::kReal}, {"texts", PlainType::kText}};
  for (const auto& [table, type] : columns) {
    for (const char* text : kLiterals) {
      const std::string name = table;
      session.must_run("DELETE FROM " + name);
      const bool stored = session.run("INSERT INTO " + name + " VALUES (" + text + ")").ok();
      std::string ours;
      const HostValue value = literal(session, text);
      const std::string error =
          error_of([&] { ours = rendered(to_column(value.get(), type, "t.c")); });
      const std::string shown = name + " " + text + " -> " + ours + error;
      INFO(shown);
      REQUIRE(error.empty() == stored);
      if (!stored) {
        CHECK(error.starts_with("t.c: expected "));
        CHECK(error.find(", got ") != std::string::npos);
        continue;
      }
      CHECK(ours == rendered(cell_of(literal(session, "x FROM " + name).get())));
    }
  }
}

TEST_CASE("BOOLEAN columns take 0 and 1") {
  const testing::InHost host;
  const SqlSession session(":memory:");
  const auto store = [&](const char* text) {
    return to_column(literal(session, text).get(), PlainType::kBoolean, "t.c");
  };
  CHECK(store("1").integer == 1);
  CHECK(store("0.0").integer == 0);
  CHECK(store("'1'").integer == 1);
  CHECK(store("NULL").is_null());
  CHECK(error_of([&] { store("2"); }) == "t.c: expected BOOLEAN (0 or 1), got the integer 2");
  CHECK(!error_of([&] { store("'true'"); }).empty());
  CHECK(!error_of([&] { store("0.5"); }).empty());
}

// SQLite compares a column with an operand after affinity; comparing a column without
// affinity with our operand must say the same.
TEST_CASE("comparison operands follow SQLite's affinity") {
  const testing::InHost host;
  const SqlSession session(":memory:");
  const std::pair<const char*, PlainType> columns[] = {{"INTEGER", PlainType::kInteger},
                                                       {"REAL", PlainType::kReal},
                                                       {"BOOLEAN", PlainType::kBoolean}};
  for (const auto& [declared, type] : columns) {
    session.must_run(std::string("DROP TABLE IF EXISTS t; CREATE TABLE t(x ") + declared + ", y)");
    for (const char* text : kLiterals) {
      session.must_run(std::string("INSERT INTO t(x) VALUES (") + text + ")");
    }
    session.must_run("UPDATE t SET y = x");
    for (const char* text : kLiterals) {
      const Value operand = compare_operand(literal(session, text).get(), type);
      const std::string ours = rendered(operand.cell());
      std::string quoted = ours.substr(ours.find('|') + 1);
      if (quoted.ends_with("Inf")) quoted.replace(quoted.size() - 3, 3, "9e999");
      for (const char* op : {"=", "<", "<=", ">", ">=", "IS"}) {
        const std::string condition = std::string(" ") + op + " ";
        const std::string shown = std::string(declared) + condition + text + " as " + ours;
        INFO(shown);
        CHECK(session.must_run("SELECT rowid FROM t WHERE x" + condition + text) ==
              session.must_run("SELECT rowid FROM t WHERE y" + condition + quoted));
      }
    }
  }
}

}  // namespace
}  // namespace warplite::sql
