#include "tests/fuzz/forge_rows.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace warplite::fuzzing {
namespace {

using testing::Forgery;

// Values of every type; $ is the column's.
constexpr const char* kValues[] = {
    "NULL",
    "5",
    "-1",
    "0.5",
    "9e999",
    "-9223372036854775807 - 1",
    "'text'",
    "x''",
    "x'00'",
    "x'0001ff'",
    "zeroblob(3)",
    "zeroblob(16)",
    "zeroblob(32)",
    "zeroblob(5000)",
    "x'0000c07f0000c07f0000c07f0000c07f'",
    "x'ffff7f7fffff7fffffff7f7fffff7f7fffff7f7fffff7f7fffff7f7fffff7f7f'",
    "printf('%.*c', 3000, 'a')",
    "CAST(x'fffe80' AS TEXT)",
    "$ + 1",
    "$ || $",
    "CAST($ AS TEXT)",
    "CAST($ AS BLOB)",
    "substr($, 1, length($) / 2)",
    "CAST(substr($, 1, #) || x'ff' || substr($, # + 2) AS BLOB)",
    "CAST(substr($, 1, #) || x'00000080' || substr($, # + 5) AS BLOB)",
    "another row's"};

// Which rows.
constexpr const char* kWheres[] = {"rowid % 2 = 0", "rowid % 3 = 1", "1",
                                   "rowid = (SELECT max(rowid) FROM $)",
                                   "rowid = (SELECT min(rowid) FROM $)"};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// An expression for `column` of a row of `of`.
std::string value_of(const std::string& of, const std::string& column, Input& input) {
  const std::size_t which = input.byte() % std::size(kValues);
  if (which + 1 != std::size(kValues)) {
    return replaced(replaced(kValues[which], "$", column), "#", std::to_string(input.byte()));
  }
  return "(SELECT " + column + " FROM " + of + " ORDER BY rowid DESC LIMIT 1 OFFSET " +
         std::to_string(input.byte() % 7) + ")";
}

std::string where(const std::string& of, Input& input) {
  return " WHERE " + replaced(kWheres[input.byte() % std::size(kWheres)], "$", of);
}

std::vector<std::string> columns_of(const Forgery& table, const std::string& of) {
  return table.texts("SELECT name FROM pragma_table_info('" + of + "')");
}

}  // namespace

std::int64_t changed(std::int64_t value, Input& input) {
  static constexpr std::int64_t kTelling[] = {0,
                                              1,
                                              -1,
                                              2,
                                              63,
                                              64,
                                              65,
                                              255,
                                              1024,
                                              65535,
                                              65536,
                                              INT32_MAX,
                                              INT64_MAX,
                                              INT64_MIN,
                                              UINT32_MAX,
                                              1 << 20,
                                              std::int64_t{1} << 51,
                                              0x7fc00000,
                                              0x7f800000,
                                              0x7f7fffff,
                                              0x7ff0000000000000,
                                              0x7ff8000000000000,
                                              0x7c00,
                                              0x0001000000000000,
                                              4,
                                              8,
                                              16};
  const unsigned how = input.byte();
  const auto bits = static_cast<std::uint64_t>(value);
  if (how % 4 == 0) return static_cast<std::int64_t>(bits + 1);
  if (how % 4 == 1) return static_cast<std::int64_t>(bits - 1);
  if (how % 4 == 2) return kTelling[how / 4 % std::size(kTelling)];
  return static_cast<std::int64_t>(bits ^ (std::uint64_t{1} << (how / 4)));
}

void change_tail(Forgery& table, Input& input) {
  const std::vector<std::int64_t> ids = table.tail_ids();
  if (ids.empty()) return;
  const std::int64_t id = ids[input.byte() % ids.size()];
  const std::string name = table.table() + "_tail", self = " WHERE id = " + std::to_string(id);
  switch (input.byte() % 6) {
    case 0:
      return table.change_tail(id, "id = " + std::to_string(changed(id, input)));
    case 1:
      return table.change_tail(id, "row = " + std::to_string(changed(id, input)));
    case 2:
      return table.run("DELETE FROM " + name + self);
    case 3: {  // twice
      const std::int64_t copy = ids.back() + 1 + input.byte() % 3;
      table.run("CREATE TEMP TABLE copied AS SELECT * FROM " + name + self);
      table.run("UPDATE copied SET id = " + std::to_string(copy));
      table.run("INSERT INTO " + name + " SELECT * FROM copied");
      table.run("DROP TABLE copied");
      return table.change_tail(copy, "id = id");
    }
    default: {
      std::vector<std::string> columns = columns_of(table, name);
      std::erase(columns, "sum");
      const std::string& column = columns[input.byte() % columns.size()];
      return table.change_tail(id, column + " = " + value_of(name, column, input));
    }
  }
}

void change_rows(Forgery& table, Input& input) {
  const std::vector<std::string> tables = table.texts(
      "SELECT name FROM sqlite_schema WHERE rootpage > 0 AND type = 'table' AND (name GLOB '" +
      table.table() + "_*' OR ('" + table.table() +
      "', name) IN (('content', 'rows'), ('found', 'papers')) OR"
      " ('" +
      table.table() + "' = 'imports' AND name GLOB 'docs_*')) ORDER BY name");
  const std::string of = tables[input.byte() % tables.size()];
  const std::vector<std::string> columns = columns_of(table, of);
  if (columns.empty()) return;
  const std::string& column = columns[input.byte() % columns.size()];
  switch (input.byte() % 6) {
    case 0:
      return table.run_if_possible("DELETE FROM " + of + where(of, input));
    case 1:
      return table.run_if_possible("UPDATE OR REPLACE " + of + " SET rowid = rowid + " +
                                   std::to_string(1 + input.byte() % 3) + where(of, input));
    case 2: {  // rows under other ids as well
      std::string list;
      for (const std::string& one : columns) {
        list += (list.empty() ? "" : ", ") +
                (one == "id" ? "id + " + std::to_string(1 + input.byte()) : one);
      }
      return table.run_if_possible("INSERT OR REPLACE INTO " + of + " SELECT " + list + " FROM " +
                                   of + where(of, input));
    }
    default:
      return table.run_if_possible("UPDATE OR REPLACE " + of + " SET " + column + " = " +
                                   value_of(of, column, input) + where(of, input));
  }
}

}  // namespace warplite::fuzzing
