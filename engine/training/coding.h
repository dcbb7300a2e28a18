// Codes of segments: made by the column's model when a segment is sealed, and for all segments
// when the column gets a model.
// Threads: as the store. Errors: Error{kCorrupt} when a model or vectors are damaged;
// Error{kInterrupted}.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/table/write_context.h"
#include "engine/training/encoding.h"

namespace warplite::engine {

// Codes segments as they are sealed, with the models of one state.
class Coder {
 public:
  // REQUIRES: everything outlives this.
  Coder(const WriteContext& context, const storage::State& state)
      : context_(context), state_(state), models_(state.models.size()) {}

  // Says whether the column has a model, by which its vectors are to be coded.
  bool codes(std::size_t column) const {
    return column < models_.size() && !state_.models[column].is_null() &&
           context_.options.vectors[column].made->trained() != nullptr;
  }
  // Says whether a Collector takes codes of the column.
  bool gathers(std::size_t column) const {
    return codes(column) && context_.options.vectors[column].made->trained()->inverted() != nullptr;
  }
  // Models of all columns that codes().
  const ColumnModels& models();
  // Codes the rows that the segment was sealed from. The entry is left to the caller.
  void code(storage::SegmentInfo& segment, std::span<const storage::RowRef> rows);
  // The same for codes that were made by models() of those rows.
  void write(storage::SegmentInfo& segment, const SegmentCodes& codes);

  // Codes of some rows of other parts, as they are where there are some: to make them again takes time, and
  // to decode and code again those of which there are codes only would lose a little each time.
  class Collector {
   public:
    // REQUIRES: coder.gathers(column)
    Collector(Coder& coder, std::size_t column) : coder_(coder), column_(column) {}
    void add(const Part& part, std::uint32_t row);
    // Writes them as the segment's, rows in the order of `order`: numbers of calls of add().
    void write(storage::SegmentInfo& segment, std::span<const std::uint32_t> order);

   private:
    struct Source {
      std::shared_ptr<const void> owner;
      index::CodedBlock block;
    };
    std::shared_ptr<const storage::OpaqueBlock> codes_of(const Part& part) const;
    const Source& source(const Part& part);

    Coder& coder_;
    const std::size_t column_;
    std::map<const Part*, Source> sources_;
    std::vector<index::CodedRow> rows_;
  };

 private:
  const ColumnModel& known(std::size_t column);
  const index::Model& model(std::size_t column) { return *known(column).model; }
  Bytes encode(std::size_t column, const MatrixView& vectors, const Bitmap* present);

  const WriteContext& context_;
  const storage::State& state_;
  ColumnModels models_;  // as needed
};

// A model that a column is to get.
struct NewModel {
  std::size_t column;
  std::shared_ptr<const index::Model> model;
  bool same_codes = false;  // it says of rows what the model before it said: codes stay
  storage::ModelOrigin origin = storage::ModelOrigin::kLearnt;
};

// Says what an interrupt, or too little memory, does to coding: it fails, or leaves the rest
// without codes, for code_missing() to go on with; and a segment that is damaged: coding fails, or
// leaves out that one. Searches compare such segments exactly.
enum class OnInterrupt { kFail, kWait };

struct CodingResult {
  std::shared_ptr<const Snapshot> snapshot;
  bool complete;  // nothing waits
};

// Writes the models and codes all segments with them. With Layout::codes_only the segments' vectors
// go. Views in use lose their models. On an exception the tables may be half-written.
CodingResult install_models(const WriteContext& context, std::span<const NewModel> models,
                            OnInterrupt on_interrupt, const index::Progress& progress);

// Says whether an inverted file of the table has learnt.
bool is_trained(const TableOptions& options, const storage::State& state);
// Says whether no segment lacks codes of a model there is.
bool all_coded(const Snapshot& snapshot, const TableOptions& options);
// Codes those that do. The snapshot is the base when none was coded.
CodingResult code_missing(const WriteContext& context, OnInterrupt on_interrupt,
                          const index::Progress& progress);

}  // namespace warplite::engine
