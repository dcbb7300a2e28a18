// Which parts of a view a search reads that compares every selected row, whether memory has room for them, and of which
// the rows alone are read.
// Threads: as the view. Ownership: borrows what it is made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/filter/filter.h"
#include "engine/search/search.h"
#include "engine/table/view.h"

namespace warplite::engine {

class ExactParts {
 public:
  // `only`: the parts that are searched, ascending; null: all. Of the others nothing is asked, as there may be thousands.
  ExactParts(const View& view, const Selection& rows, const SearchRequest& request,
             const std::vector<std::uint32_t>* only);

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
  // Calls visit(part) for those from `first` to end − 1 that are searched, ascending.
  template <class Visit>
  void for_each(std::size_t first, std::size_t end, const Visit& visit) const {
    if (only_ == nullptr) {
      for (; first < end; ++first) visit(static_cast<std::uint32_t>(first));
      return;
    }
    auto part = std::lower_bound(only_->begin(), only_->end(), first);
    for (; part != only_->end() && *part < end; ++part) visit(*part);
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
  bool is_left_out(std::size_t part) const {
    return only_ != nullptr && !std::binary_search(only_->begin(), only_->end(), part);
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for_each(0, view_.parts(), visit);
  }
  // Of parts with live rows.
  std::size_t bytes_of_column() const;
  // Counts selected rows, and bytes of their parts.
  void count_some();
  bool choose_rows();
  bool few(std::size_t part) const;

  const View& view_;
  const Selection& rows_;
  const SearchRequest& request_;
  const std::vector<std::uint32_t>* const only_;
  const std::size_t limit_;
  const std::size_t column_bytes_;
  std::uint64_t selected_rows_ = 0, live_rows_ = 0;
  bool everywhere_ = true;
  std::size_t bytes_ = 0;         // of parts with selected rows
  std::vector<bool> by_rows_;     // empty: none
  bool fits_ = false;
};

}  // namespace warplite::engine
