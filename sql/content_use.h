// How the statements of a ContentTable are used; for its own files alone.
#pragma once

#include <memory>

#include "sql/content_table.h"

namespace warplite::sql {

// One use of a statement; of another one, while an earlier use goes on. Where the table has another
// name than when it was looked for, it is looked for again.
class ContentTable::Use {
 public:
  Use(ContentTable& table, Sql sql, RowId first, RowId second = 0)
      : table_(table), sql_(sql), parameters_{first, second} {
    table.settle();
    if (kept() == nullptr) prepare_kept();
    statement_ = sqlite3_stmt_busy(kept().get()) == 0 ? kept() : prepared();
    bind();
  }
  ~Use() { sqlite3_reset(statement_.get()); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  sqlite3_stmt* get() const { return statement_.get(); }
  // False: there is no row any more.
  bool step() {
    int code = sqlite3_step(get());
    if (code == SQLITE_ERROR && !stepped_) code = step_anew();
    stepped_ = true;
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) table_.explain(code, sqlite3_errmsg(table_.db_));
    return false;
  }

 private:
  std::shared_ptr<sqlite3_stmt>& kept() { return table_.statements_[static_cast<int>(sql_)]; }
  std::shared_ptr<sqlite3_stmt> prepared() const {
    return table_.prepare_statement(table_.text_of(sql_));
  }
  void bind() {
    const int count = sqlite3_bind_parameter_count(get());
    for (int i = 0; i < count; ++i) sqlite3_bind_int64(get(), i + 1, parameters_[i]);
  }
  // The table may have another name than when it was looked for.
  void prepare_kept() {
    try {
      kept() = prepared();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalid) throw;
      table_.forget();
      table_.settle();
      kept() = prepared();
    }
  }
  int step_anew() {
    sqlite3_reset(get());
    table_.forget();
    table_.settle();
    statement_ = prepared();
    bind();
    return sqlite3_step(get());
  }

  ContentTable& table_;
  const Sql sql_;
  const RowId parameters_[2];
  std::shared_ptr<sqlite3_stmt> statement_;
  bool stepped_ = false;
};

}  // namespace warplite::sql
