// Postings of the texts of a column (index/text/text_index.h).
// Threads: as the view's connection; what was loaded may be used by any.
#pragma once

#include <cstddef>
#include <string>

#include "engine/match/tiles.h"
#include "index/text/text_index.h"

namespace warplite::engine {

class TextTileMaker : public TileMaker {
 public:
  // REQUIRES: the view and `index` outlive this, and the index is the column's.
  TextTileMaker(const View& view, std::size_t column, const index::TextIndex& index)
      : view_(view), column_(column), index_(index) {}

  std::size_t column() const override { return column_; }
  CacheKey key(const Part& part) const override;
  std::string name() const override { return "postings of column " + std::to_string(column_); }
  Make read(const Part& part) const override;

 private:
  const View& view_;
  const std::size_t column_;
  const index::TextIndex& index_;
};

}  // namespace warplite::engine
