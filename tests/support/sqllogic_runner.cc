#include "tests/support/sqllogic_runner.h"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

namespace warplite::testing {
namespace {

namespace fs = std::filesystem;

struct Line {
  int number;
  std::string text;
};

// What a record consists of once read: its first line, SQL, and expected rows.
struct Record {
  int line = 0;
  std::string kind;      // statement, query, explain, or a directive's word
  std::string argument;  // the rest of the first line
  std::string sql;
  std::vector<std::string> expected;
};

// The answer to some SQL: rows as text, or an error message.
struct Answer {
  std::vector<std::string> rows;
  std::string error;
  bool ok = true;
};

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string lowered(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

bool has_body(const std::string& kind) {
  return kind == "statement" || kind == "query" || kind == "explain";
}

std::vector<Record> read_records(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  std::vector<Record> records;
  Record* open = nullptr;
  bool in_rows = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string text = trimmed(line);
    if (!text.empty() && text[0] == '#') continue;
    if (text.empty()) {
      open = nullptr;
      continue;
    }
    if (open == nullptr) {
      const auto space = text.find(' ');
      Record record;
      record.line = number;
      record.kind = text.substr(0, space);
      record.argument = space == std::string::npos ? "" : trimmed(text.substr(space));
      records.push_back(record);
      in_rows = false;
      if (has_body(record.kind)) open = &records.back();
    } else if (!in_rows && text == "----") {
      in_rows = true;
    } else if (in_rows) {
      open->expected.push_back(text);
    } else {
      open->sql += line + "\n";
    }
  }
  return records;
}

std::string float_text(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

std::string blob_text(const unsigned char* data, int size) {
  std::string text = "x'";
  for (int i = 0; i < size; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", data[i]);
    text += digits;
  }
  return text + "'";
}

std::string value_text(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL: return "NULL";
    case SQLITE_INTEGER: return std::to_string(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: return float_text(sqlite3_column_double(statement, column));
    case SQLITE_BLOB: {
      const void* data = sqlite3_column_blob(statement, column);
      return blob_text(static_cast<const unsigned char*>(data),
                       sqlite3_column_bytes(statement, column));
    }
    default: {
      const std::string text(reinterpret_cast<const char*>(sqlite3_column_text(statement, column)));
      return text.empty() ? "(empty)" : replaced(text, "\n", "\\n");
    }
  }
}

// Runs every statement of `sql`, to the end or to the first error.
Answer run(sqlite3* db, const std::string& sql) {
  Answer answer;
  for (const char* rest = sql.c_str(); *rest != '\0';) {
    sqlite3_stmt* statement = nullptr;
    int rc = sqlite3_prepare_v2(db, rest, -1, &statement, &rest);
    while (rc == SQLITE_OK && statement != nullptr && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
      std::string row;
      for (int i = 0; i < sqlite3_column_count(statement); ++i) {
        row += (i == 0 ? "" : "|") + value_text(statement, i);
      }
      answer.rows.push_back(trimmed(row));
      rc = SQLITE_OK;
    }
    if (rc != SQLITE_OK && rc != SQLITE_DONE) {
      answer.ok = false;
      answer.error = sqlite3_errmsg(db);
    }
    sqlite3_finalize(statement);
    if (!answer.ok) break;
  }
  return answer;
}

std::string joined(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += "    " + row + "\n";
  return text.empty() ? "    (no rows)\n" : text;
}

int version_number(const std::string& text) {
  int major = 0, minor = 0, patch = 0;
  if (std::sscanf(text.c_str(), "%d.%d.%d", &major, &minor, &patch) < 2) {
    throw std::runtime_error("not a version: " + text);
  }
  return major * 1000000 + minor * 1000 + patch;
}

// "sqlite>=3.44" or "sqlite<3.44", of the SQLite that runs.
bool version_holds(const std::string& condition) {
  if (condition.rfind("sqlite>=", 0) == 0) {
    return sqlite3_libversion_number() >= version_number(condition.substr(8));
  }
  if (condition.rfind("sqlite<", 0) == 0) {
    return sqlite3_libversion_number() < version_number(condition.substr(7));
  }
  throw std::runtime_error("expected sqlite>=X.Y or sqlite<X.Y, not " + condition);
}

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

// The state of one file's run.
class Conversation {
 public:
  Conversation(const fs::path& file, DatabaseKind kind) : file_(file), kind_(kind) {
    std::string pattern = (fs::temp_directory_path() / "warplite-sql-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    directory_ = pattern;
    current();
  }
  ~Conversation() {
    connections_.clear();
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  std::vector<std::string> run_all() {
    bool skip_next = false;
    for (const Record& record : read_records(file_)) {
      if (record.kind == "db" && record.argument != kind_name()) return {};
      if (record.kind == "require" && !version_holds(record.argument)) break;
      if (record.kind == "onlyif") {
        skip_next = !version_holds(record.argument);
        continue;
      }
      if (!skip_next) perform(record);
      skip_next = false;
    }
    return std::move(failures_);
  }

 private:
  const char* kind_name() const { return kind_ == DatabaseKind::kFile ? "file" : "memory"; }

  sqlite3* current() {
    Database& db = connections_[name_];
    if (db == nullptr) {
      const bool file = kind_ == DatabaseKind::kFile;
      sqlite3* opened = nullptr;
      const std::string path = file ? (directory_ / "test.db").string() : ":memory:";
      const int rc = sqlite3_open(path.c_str(), &opened);
      db.reset(opened);
      if (rc != SQLITE_OK) throw std::runtime_error("cannot open " + path);
    }
    return db.get();
  }

  void perform(const Record& record) {
    if (record.kind == "statement") {
      statement(record);
    } else if (record.kind == "query") {
      query(record);
    } else if (record.kind == "explain") {
      explain(record);
    } else {
      directive(record);
    }
  }

  Answer ask(const std::string& sql) { return run(current(), replaced(sql, "$DIR", directory_.string())); }

  void fail(const Record& record, const std::string& what) {
    failures_.push_back(file_.filename().string() + ":" + std::to_string(record.line) + " (" +
                        kind_name() + "): " + what + "\n" + record.sql);
  }

  void statement(const Record& record) {
    const Answer answer = ask(record.sql);
    if (record.argument == "ok") {
      if (!answer.ok) fail(record, "expected success, got the error: " + answer.error);
      return;
    }
    if (record.argument.rfind("error", 0) != 0) {
      throw std::runtime_error("statement ok or statement error, not " + record.argument);
    }
    const std::string expected = trimmed(record.argument.substr(5));
    if (answer.ok) {
      fail(record, "expected an error with '" + expected + "', got success");
    } else if (lowered(answer.error).find(lowered(expected)) == std::string::npos) {
      fail(record, "expected an error with '" + expected + "', got: " + answer.error);
    }
  }

  void query(const Record& record) {
    Answer answer = ask(record.sql);
    std::vector<std::string> expected = record.expected;
    if (record.argument == "rowsort") {
      std::sort(answer.rows.begin(), answer.rows.end());
      std::sort(expected.begin(), expected.end());
    } else if (!record.argument.empty()) {
      throw std::runtime_error("query or query rowsort, not query " + record.argument);
    }
    if (!answer.ok) {
      fail(record, "expected rows, got the error: " + answer.error);
    } else if (answer.rows != expected) {
      fail(record, "expected\n" + joined(expected) + "  got\n" + joined(answer.rows));
    }
  }

  void explain(const Record& record) {
    const Answer answer = ask("EXPLAIN QUERY PLAN " + record.sql);
    if (!answer.ok) return fail(record, "expected a plan, got the error: " + answer.error);
    for (const std::string& line : record.expected) {
      const bool forbidden = line[0] == '!';
      const std::string part = forbidden ? trimmed(line.substr(1)) : line;
      const bool found = std::any_of(
          answer.rows.begin(), answer.rows.end(),
          [&](const std::string& row) { return row.find(part) != std::string::npos; });
      if (found == forbidden) {
        fail(record, "expected '" + line + "' in the plan\n" + joined(answer.rows));
      }
    }
  }

  void directive(const Record& record) {
    if (record.kind == "db" || record.kind == "require") return;
    if (record.kind == "connection") {
      name_ = record.argument;
      current();
    } else if (record.kind == "reopen") {
      connections_.clear();
      name_ = "main";
      current();
    } else if (record.kind == "defensive") {
      sqlite3_db_config(current(), SQLITE_DBCONFIG_DEFENSIVE, record.argument == "on" ? 1 : 0,
                        nullptr);
    } else if (record.kind == "backup") {
      backup(record);
    } else if (record.kind == "write") {
      write_file(record.argument);
    } else {
      throw std::runtime_error(file_.filename().string() + ":" + std::to_string(record.line) +
                               ": unknown record: " + record.kind);
    }
    const bool needs_file = record.kind == "connection" || record.kind == "reopen";
    if (needs_file && kind_ == DatabaseKind::kMemory) {
      throw std::runtime_error(record.kind + " needs 'db file'");
    }
  }

  void backup(const Record& record) {
    sqlite3* opened = nullptr;
    sqlite3_open((directory_ / record.argument).c_str(), &opened);
    const Database target(opened);
    sqlite3_backup* copy = sqlite3_backup_init(target.get(), "main", current(), "main");
    sqlite3_backup_step(copy, -1);
    if (sqlite3_backup_finish(copy) != SQLITE_OK) {
      fail(record, std::string("backup failed: ") + sqlite3_errmsg(target.get()));
    }
  }

  void write_file(const std::string& argument) {
    std::istringstream in(argument);
    std::string name, digits, bytes;
    in >> name;
    for (std::string word; in >> word;) digits += word;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    }
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
  }

  fs::path file_;
  DatabaseKind kind_;
  fs::path directory_;
  std::string name_ = "main";
  std::map<std::string, Database> connections_;
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<fs::path> sql_tests(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".test") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> run_sql_test(const fs::path& file, DatabaseKind kind) {
  return Conversation(file, kind).run_all();
}

TEST_CASE("sql") {
  const auto files = sql_tests(fs::path(WARPLITE_SOURCE_DIR) / "tests" / "sql");
  REQUIRE(!files.empty());
  for (const fs::path& file : files) {
    for (const DatabaseKind kind : {DatabaseKind::kFile, DatabaseKind::kMemory}) {
      const std::string name = file.filename().string() +
                               (kind == DatabaseKind::kFile ? " on a file" : " in memory");
      SUBCASE(name.c_str()) {
        for (const std::string& failure : run_sql_test(file, kind)) ADD_FAIL_CHECK_AT(file.c_str(), 0, failure);
      }
    }
  }
}

}  // namespace warplite::testing
