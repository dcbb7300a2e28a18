// Signatures of a column's rows (index/lsh/lsh.h) as devices search them: postings, or for simhash,
// whose match counts are Hamming distances, vectors of bits. They follow from the segments' codes
// and are cached by keys that the codes give them.
// Threads: as the view's connection; postings are made on any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engine/ivf/runs.h"
#include "engine/match/tiles.h"
#include "engine/table/view.h"
#include "index/lsh/lsh.h"

namespace warplite::engine {

// Makes tiles of the signatures of parts that are coded.
class SignatureTileMaker : public TileMaker {
 public:
  // REQUIRES: all outlive this; the model is the view's and no simhash.
  SignatureTileMaker(const View& view, std::size_t column, const index::LshModel& model)
      : view_(view), column_(column), model_(model), stamp_(view.model(column)) {}

  std::size_t column() const override { return column_; }
  CacheKey key(const Part& part) const override;
  std::string name() const override {
    return "signatures of vector column " + std::to_string(column_);
  }
  std::size_t bytes(const Part& part) const override;
  Make read(const Part& part) const override;

 private:
  const View& view_;
  const std::size_t column_;
  const index::LshModel& model_;
  const Stamp stamp_;
};

// The rows of a view whose coded parts have the bits of their signatures in place of the column's
// vectors, and whose other parts have none. For simhash. REQUIRES: the view outlives it, as the
// index does.
std::shared_ptr<const View> view_of_bits(const View& view, std::size_t column,
                                         const index::Trained& index);

}  // namespace warplite::engine
