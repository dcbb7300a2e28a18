// Which parts of a view a search reads that compares every selected row, whether memory has room for them, and of which
// the rows alone are read.
// Threads: as the view. Ownership: borrows what it is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/filter/filter.h"
#include "engine/search/search.h"
#include "engine/table/view.h"

namespace warplite::engine {

class ExactParts {
 public:
  // `but`: parts to leave out, or null.
  ExactParts(const View& view, const Selection& rows, const SearchRequest& request,
             const std::vector<bool>* but);

  std::uint64_t selected_rows() const { return selected_rows_; }
  std::uint64_t live_rows() const { return live_rows_; }
  // Says whether rows of every part that has any are selected.
  bool everywhere() const { return everywhere_; }
  // Say whether memory has room for all that is read, and for the column's vectors of all parts.
  bool fits() const { return fits_; }
  bool column_fits() const { return column_bytes_ <= limit_; }
  // Bytes that are loaded at a time.
  std::size_t group_budget() const { return fits_ ? bytes_ : limit_ / 2; }

  std::uint32_t selected(std::size_t part) const {
    return is_left_out(part) ? 0 : rows_.part(part).count;
  }
  bool is_left_out(std::size_t part) const {
    return but_ != nullptr && part < but_->size() && (*but_)[part];
  }
  // Says whether rows of the part are read by themselves.
  bool reads_rows(std::size_t part) const { return !by_rows_.empty() && by_rows_[part]; }
  std::size_t bytes_read(std::size_t part) const {
    return reads_rows(part) ? selected(part) * request_.queries.stride()
                            : view_.part(part).vector_bytes(request_.column);
  }
  // Those with selected rows that are sealed, ascending.
  std::vector<std::uint32_t> sealed() const;

 private:
  // Count rows, and bytes of parts.
  void count_all();
  void count_some();
  std::size_t bytes_of(std::size_t first, std::size_t end) const;
  bool choose_rows();
  bool few(std::size_t part) const;

  const View& view_;
  const Selection& rows_;
  const SearchRequest& request_;
  const std::vector<bool>* const but_;
  const std::size_t limit_;
  std::uint64_t selected_rows_ = 0, live_rows_ = 0;
  bool everywhere_ = true;
  std::size_t bytes_ = 0;         // of parts with selected rows
  std::size_t column_bytes_ = 0;  // of all parts
  std::vector<bool> by_rows_;     // empty: none
  bool fits_ = false;
};

}  // namespace warplite::engine
