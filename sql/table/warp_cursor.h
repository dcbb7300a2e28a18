// One scan of a warp table: a cursor carries out the Plan that xBestIndex made.
// Threads: as the connection. A cursor owns its rows and its view of the table:
// what later statements write does not move them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/filter/content_hits.h"
#include "engine/filter/ordered_scan.h"
#include "sql/content/content_aux.h"
#include "sql/plan/plan.h"
#include "sql/table/match_rows.h"
#include "sql/table/row_reader.h"
#include "sql/table/warp_table.h"

namespace warplite::sql {

class WarpCursor : public sqlite3_vtab_cursor {
 public:
  explicit WarpCursor(WarpTable& table);
  ~WarpCursor() { note_rows(); }

  // xFilter. REQUIRES: `arguments` as `plan` lists them; `use`: xBestIndex's idxNum for this plan.
  void filter(const std::string& plan, int use, sqlite3_value** arguments);
  void next();
  bool at_end() const { return state_ == State::kEnd; }
  RowId rowid() const;
  void column(sqlite3_context* context, int column);

  // True when the current row was found by a MATCH on this column with this query.
  bool found(int column, sqlite3_value* query) const;

  // Of rows that cannot be read: throws Error{kHost, SQLITE_ABORT} if they were not kept for the connection, as it reads
  // what others have not committed.
  void check_kept() const;

 private:
  enum class State { kEnd, kPoint, kScan, kMatch };

  void start_search(sqlite3_value** arguments);
  void note_rows();  // that the statement has read of a search, for its next one
  void start_scan(sqlite3_value** arguments);
  void start_point(sqlite3_value* value);
  void start_key(sqlite3_value* value);
  void look_at(std::shared_ptr<const engine::View> view);
  void show(std::optional<engine::Location> at);
  void scan(const engine::Filter& filter, bool known);
  void show_scanned();
  void end_scan();
  Value content_aux(const ColumnDefinition& column);
  void declared_column(sqlite3_context* context, const ColumnDefinition& column);
  void hidden_column(sqlite3_context* context, HiddenColumn column) const;
  void counted_column(sqlite3_context* context, HiddenColumn column) const;
  void text_matches(sqlite3_context* context) const;

  WarpTable& table_;
  std::string plan_text_;
  Plan plan_;
  std::optional<StatementReads> reads_;  // of a search that reads on
  bool in_batches_ = false;              // Plan::comes_in_batches()
  bool guesses_rows_ = false;            // of the search: nothing tells how many the statement will read
  bool shows_aux_ = false;               // those of the table with content=
  bool shows_values_ = true;  // else rowids and +columns alone, of an index with content=
  bool descending_ = false;   // the scan
  State state_ = State::kEnd;
  engine::Location at_{};  // the current row
  RowReader reader_;
  std::shared_ptr<const void> aux_holder_;  // while there are rows whose +columns may be read

  std::unique_ptr<MatchRows> match_;            // kMatch; kept for replaying
  std::optional<engine::OrderedScan> scan_;     // kScan
  std::optional<engine::Presence> presence_;    // of its rows
  std::unique_ptr<ContentTable::AuxWalk> aux_;  // of them, with content=; made when asked for
};

}  // namespace warplite::sql
