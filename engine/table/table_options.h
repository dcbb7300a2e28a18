// TableOptions are what the engine needs to know of a table; sql/definition/definition.h makes it.
// Threads: never changed once a collection has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/distance.h"
#include "engine/table/content_source.h"
#include "index/index.h"
#include "storage/storage.h"

namespace warplite::engine {

struct TableOptions {
  Layout layout;
  struct VectorColumn {
    std::string name;
    Distance distance;
    index::Spec index;
    std::shared_ptr<const index::Index> made = nullptr;  // from it, by the collection
  };
  std::vector<VectorColumn> vectors;     // parallel to layout.vectors
  std::vector<std::string> plain_names;  // parallel to layout.plains, for messages
  std::string rowid_name = "rowid";      // for messages
  std::shared_ptr<ContentSource> content = nullptr;  // set exactly with layout.content
  // Rows that make the tail a segment (never more than layout.segment_rows), and pending
  // bytes that are flushed before the transaction ends.
  std::uint32_t tail_rows = 8192;
  // The same once an index has learnt: searches compare the tail row by row, beside lists that leave most
  // rows out. 0: by the size of the vectors.
  std::uint32_t trained_tail_rows = 0;
  std::size_t flush_bytes = std::size_t{8} << 20;
  // Bytes of texts and sparse vectors that a segment holds, and the tail, but for a single row's: a
  // value of the host's has to take a column of them, and memory what of them is read.
  std::size_t most_texts = std::size_t{64} << 20;
};

// Says whether small segments are merged by `optimize` alone: rows of content tables are read one by one, and
// partitions have segments of their own.
inline bool keeps_small_segments(const Layout& layout) {
  return layout.content || !layout.partitions.empty();
}

}  // namespace warplite::engine
