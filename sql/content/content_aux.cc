#include "sql/content/content_aux.h"

#include <algorithm>

#include "sql/content/walk.h"

namespace warplite::sql {
namespace {

constexpr int kFewRows = 4;

}  // namespace

ContentTable::AuxWalk::AuxWalk(ContentTable& table)
    : table_(table), asked_(table.aux_.size()) {}

ContentTable::AuxWalk::~AuxWalk() = default;

Value ContentTable::AuxWalk::value(RowId rowid, const ColumnDefinition& column) {
  const auto known = std::find(columns_.begin(), columns_.end(), &column);
  const auto i = static_cast<std::size_t>(known - columns_.begin());
  if (known == columns_.end()) {
    int& asked = asked_[static_cast<std::size_t>(column.slot)];
    if (++asked <= kFewRows) return table_.aux(rowid, column);
    Columns columns = columns_;
    columns.push_back(&column);
    walk_ = std::make_unique<RowWalk>(table_, Sql::kAuxFrom, columns);
    columns_ = std::move(columns);
  }
  return walk_->to(rowid) ? walk_->aux(i) : Value();
}

void ContentTable::AuxWalk::rest() {
  if (walk_ != nullptr) walk_->rest();
}

}  // namespace warplite::sql
