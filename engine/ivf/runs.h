// Runs: codes of consecutive segments, by list, as devices search them. Which segments share a run
// is a matter of their numbers alone, so that a new segment changes the last runs only; a run is
// named by a key made from its segments', so that the cache keeps it for every view that has it.
// Threads: loading reads through the connection; what was loaded may be searched by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/ivf.h"
#include "engine/residency/residency.h"
#include "engine/table/block_reader.h"
#include "engine/table/models.h"
#include "engine/table/view.h"
#include "index/trained.h"

namespace warplite::engine {

// Says which parts of a view are searched by codes.
struct CodedParts {
  struct Run {
    CacheKey key;
    std::size_t first;  // of `parts`
    std::size_t count;
    std::uint64_t rows;  // dead ones included
  };
  Stamp model;
  std::vector<std::uint32_t> parts;  // ascending
  std::vector<CacheKey> keys;        // of their codes
  std::vector<std::size_t> bytes;    // of their vectors
  // The other parts of a view, ascending, and where those end that it had when these were found: it, or the next ones
  // of the same segments, may have more.
  std::vector<std::uint32_t> not_coded;
  std::uint32_t end = 0;
  std::vector<std::uint32_t> others(const View& view) const;
  std::vector<Run> runs;
  std::size_t vector_bytes = 0;  // of all
  std::uint64_t rows = 0;        // dead ones included
  std::uint64_t live_rows = 0;
};

// REQUIRES: view.model(column) is not null.
CodedParts find_coded_parts(const View& view, std::size_t column);

// A part's codes, once Model::check_codes() has seen them. Any thread. Throws Error{kCorrupt} that
// says whose they are.
index::CodedBlock checked_block(const View& view, const Part& part, std::size_t column,
                                const index::Model& model, const storage::OpaqueBlock& codes);

// Bytes, and what a device wants to know of them.
struct LoadedRun {
  std::shared_ptr<const ResidentVectors> bytes;   // null: left out, or handed over
  std::shared_ptr<const compute::Buffer> buffer;  // of the device that it was handed over to
  std::shared_ptr<const Bytes> head;  // with it: the bytes before IvfLayout::ordinals
  std::uint32_t positions = 0;
  std::uint32_t longest = 0;

  // Where lists begin and end; null: left out.
  const std::byte* lists() const {
    return head != nullptr ? head->data() : bytes != nullptr ? bytes->block.vectors.data : nullptr;
  }
};
// Reads a run through the cache. `onto`: the device that is to have it in its own memory, so that
// the host's can be used for the next one; null: the host. Throws Error{kCorrupt}, and NotTaken.
LoadedRun load_run(const View& view, std::size_t column, const CodedParts& coded,
                   const CodedParts::Run& run, const index::InvertedModel& model,
                   BlockReader& reader, compute::Device* onto);
// The same, under the keys that it returns: bytes of the model.
struct LoadedModel {
  std::shared_ptr<const index::InvertedModel> model;
  SharedCentroids centroids;
  CacheKey codebooks_key, coarse_key;
  std::shared_ptr<const ResidentVectors> codebooks, coarse;  // null without
};
LoadedModel load_model_bytes(const View& view, std::size_t column, const index::Trained& index);

// Bytes of a run that a device is to hold, before it was made: of PQ codes of 4 bits roughly.
std::size_t run_bytes(const compute::IvfShape& shape, std::uint64_t rows,
                      Extent extent = Extent::kAll);
// Those that a device has of the model.
std::size_t model_bytes(const index::InvertedModel& model);

// The parts of a search that a device has, by coded part.
struct RunShare {
  compute::Device* device;
  std::vector<bool> parts;
};
// Spreads runs over devices of which the first has no room for all: each to the one with the most
// room. `bytes`: what each run takes there; 0: it is left out. `parts`: those of runs that are
// wanted. `each`: what every device needs besides. Always the same for the same devices. Empty: the
// first has room, or all of them have not.
std::vector<RunShare> spread_runs(const CodedParts& coded, std::span<const std::size_t> bytes,
                                  const std::vector<bool>& parts, std::size_t each,
                                  std::span<compute::Device* const> devices);

}  // namespace warplite::engine
