// Codes of segments: made by the column's model when a segment is sealed, and for all segments
// when the column gets a model.
// Threads: as the store. Errors: Error{kCorrupt} when a model or vectors are damaged;
// Error{kInterrupted}.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/flush.h"
#include "engine/models.h"

namespace warplite::engine {

// Codes segments as they are sealed, with the models of one state.
class Coder {
 public:
  // REQUIRES: everything outlives this.
  Coder(const WriteContext& context, const storage::State& state)
      : context_(context), state_(state), models_(state.models.size()) {}

  // Codes every column that has a model. The entry is left to the caller.
  void code(storage::SegmentInfo& segment);

 private:
  const index::Model& model(std::size_t column);

  const WriteContext& context_;
  const storage::State& state_;
  std::vector<std::shared_ptr<const index::Model>> models_;  // as needed
};

// A model that a column is to get.
struct NewModel {
  std::size_t column;
  std::shared_ptr<const index::Model> model;
};

// Writes the models, codes all segments with them and writes the state record last. Views in use
// lose their models. On an exception the tables may be half-written.
std::shared_ptr<const Snapshot> install_models(const WriteContext& context,
                                               std::span<const NewModel> models,
                                               const index::Progress& progress);

// Codes the segments that lack codes of a model there is. Returns the base when none does.
std::shared_ptr<const Snapshot> code_missing(const WriteContext& context);

}  // namespace warplite::engine
