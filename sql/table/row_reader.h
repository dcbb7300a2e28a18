// Reads columns of a view's rows one row after another. Keeps the blocks of the part it
// read last, so that rows in storage order cost no look-up and no copy.
// Threads: as the connection. What is returned is valid until the next call.
#pragma once

#include <memory>
#include <vector>

#include "engine/table/view.h"

namespace warplite::sql {

class RowReader {
 public:
  void reset(std::shared_ptr<const engine::View> view);
  const engine::View& view() const { return *view_; }

  Cell plain(engine::Location at, std::size_t column);
  Cell vector(engine::Location at, std::size_t column);  // the stored bytes, or NULL
  Cell aux(engine::Location at, std::size_t column);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kFewRows = 8;
  struct PlainBlock {
    std::uint32_t part = kNone;
    std::shared_ptr<const Column> column;
  };
  struct VectorBlock {
    std::uint32_t part = kNone;
    engine::Part::Vectors vectors;
    // The first rows of a part whose vectors are decoded are decoded alone: there may be no others.
    std::uint32_t decoded_part = kNone, decoded_row = kNone, decoded_rows = 0;
    Value decoded;
  };

  std::shared_ptr<const engine::View> view_;
  std::vector<PlainBlock> plains_;
  std::vector<VectorBlock> vectors_;
  Value aux_;
};

}  // namespace warplite::sql
