// Says how the statements of a ContentTable are used; only its own files include this.
#pragma once

#include <memory>

#include "sql/content/table.h"

namespace warplite::sql {

// One use of a statement; of another one, while an earlier use goes on. Where the table has another
// name than when it was looked for, it is looked for again.
class ContentTable::Use {
 public:
  Use(ContentTable& table, Sql sql, RowId rowid) : table_(table), sql_(sql), rowid_(rowid) {
    begin();
  }
  // `aux`: the +columns that kAuxFrom reads, which outlive this; such a statement is not kept.
  Use(ContentTable& table, Sql sql, RowId rowid, const Columns& aux)
      : table_(table), sql_(sql), aux_(&aux), rowid_(rowid) {
    begin();
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
  void pause() { sqlite3_reset(get()); }
  // Begins again with another rowid.
  void restart(RowId rowid) {
    pause();
    rowid_ = rowid;
    stepped_ = false;
    bind();
  }

 private:
  void begin() {
    table_.settle();
    if (kept() == nullptr) prepare_kept();
    statement_ = sqlite3_stmt_busy(kept().get()) == 0 ? kept() : prepared();
    if (sql_ == Sql::kAuxFrom) kept() = nullptr;
    bind();
  }
  std::shared_ptr<sqlite3_stmt>& kept() { return table_.statements_[static_cast<int>(sql_)]; }
  std::shared_ptr<sqlite3_stmt> prepared() const {
    return table_.prepare_statement(table_.text_of(sql_, aux_));
  }
  void bind() {
    if (sqlite3_bind_parameter_count(get()) != 0) sqlite3_bind_int64(get(), 1, rowid_);
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
  const Columns* const aux_ = nullptr;
  RowId rowid_;
  std::shared_ptr<sqlite3_stmt> statement_;
  bool stepped_ = false;
};

}  // namespace warplite::sql
