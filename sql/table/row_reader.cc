#include "sql/table/row_reader.h"

#include <utility>

namespace warplite::sql {

void RowReader::reset(std::shared_ptr<const engine::View> view) {
  if (view == view_) return;
  view_ = nullptr;  // so that a failure in between leaves nothing half-changed
  plains_.assign(view->layout().plains.size(), {});
  vectors_.assign(view->layout().vectors.size(), {});
  view_ = std::move(view);
}

Cell RowReader::plain(engine::Location at, std::size_t column) {
  PlainBlock& block = plains_[column];
  if (block.part != at.part) {
    block.column = view_->part(at.part).plain(column);
    block.part = at.part;
  }
  return block.column == nullptr ? Cell::null() : block.column->cell(at.row);
}

Cell RowReader::vector(engine::Location at, std::size_t column) {
  VectorBlock& block = vectors_[column];
  const engine::Part& part = view_->part(at.part);
  if (block.part != at.part && part.decodes(column)) {
    if (block.decoded_part != at.part) block.decoded_rows = 0;
    if (block.decoded_rows != 0 && block.decoded_row == at.row) return block.decoded.cell();
    if (block.decoded_rows < kFewRows) {
      block.decoded = part.decode_vector(column, at.row);
      block.decoded_part = at.part;
      block.decoded_row = at.row;
      ++block.decoded_rows;
      return block.decoded.cell();
    }
  }
  if (block.part != at.part) {
    block.vectors = part.vectors(column);
    block.part = at.part;
  }
  const engine::Part::Vectors& vectors = block.vectors;
  if (vectors.all_null || (vectors.present != nullptr && !vectors.present->test(at.row))) {
    return Cell::null();
  }
  return Cell::blob({reinterpret_cast<const char*>(vectors.data.row(at.row)),
                     vectors.data.stride()});
}

Cell RowReader::aux(engine::Location at, std::size_t column) {
  aux_ = view_->aux(at, column);
  return aux_.cell();
}

}  // namespace warplite::sql
