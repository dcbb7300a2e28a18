// Codes of vectors by a column's model, made on this thread or meanwhile on another one.
// Threads: any, unless it says otherwise. Errors: Error{kCorrupt} when vectors are damaged,
// Error{kInterrupted}, and what devices say.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/process/background.h"
#include "engine/table/models.h"

namespace warplite::engine {

// A column's model, and what devices know its centroids by.
struct ColumnModel {
  std::shared_ptr<const index::Model> model;
  CacheKey key;      // model_key()
  std::string name;  // of the centroids
};
ColumnModel column_model(const storage::Store& store, std::size_t column, const Stamp& stamp,
                         const index::Index& index, std::shared_ptr<const index::Model> model);

// By vector column; null models: the column's rows are not coded.
using ColumnModels = std::vector<ColumnModel>;
// Codes of a segment's rows by vector column; those of no bytes: there are none.
using SegmentCodes = std::vector<Bytes>;

// `turn`: a number for each piece of work, where several devices are to have their share.
Bytes encode(const ColumnModel& by, const MatrixView& vectors, const Bitmap* present,
             std::size_t turn, compute::Cancellation* cancellation);
// All columns of rows that nobody changes.
SegmentCodes encode_rows(const Layout& layout, const ColumnModels& models,
                         std::span<const storage::RowRef> rows, std::size_t turn,
                         compute::Cancellation* cancellation);

// Codes that another thread makes; where there is none, take() does.
// Threads: belongs to one.
class Encoding {
 public:
  using Make = std::function<SegmentCodes(compute::Cancellation*)>;
  // Begins. What `make` refers to outlives this.
  explicit Encoding(Make make);
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  // Waits for them. Throws what making them threw, or Error{kInterrupted}.
  SegmentCodes take(compute::Cancellation* cancellation);

 private:
  const Make make_;
  SegmentCodes codes_;
  std::optional<Background> work_;  // last: it ends before what it uses
};

// Says whether there are threads to make codes meanwhile.
bool encodes_meanwhile();

}  // namespace warplite::engine
