// +columns of a scan's rows, which are the content table's.
// Threads: as the connection. Errors: as ContentTable's.
#pragma once

#include <memory>
#include <vector>

#include "sql/content/table.h"

namespace warplite::sql {

// A column is looked up row by row until it was asked for a few times; from then on one statement
// reads it, with the others that are asked for as often, and goes on from row to row.
class ContentTable::AuxWalk {
 public:
  explicit AuxWalk(ContentTable& table);
  ~AuxWalk();

  // NULL when there is no such row. Best where rowids ascend.
  Value value(RowId rowid, const ColumnDefinition& column);
  // Comes when no more rows do for now: else the host's statement stays open.
  void rest();

 private:
  ContentTable& table_;
  std::vector<int> asked_;  // by slot
  Columns columns_;         // that the walk reads
  std::unique_ptr<RowWalk> walk_;
};

}  // namespace warplite::sql
