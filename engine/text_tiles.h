// Postings of the texts of a column (index/text_index.h), a tile for each part of a view. They
// follow from the texts, so that nothing of them is stored: those of a segment are made when they
// are first asked for and cached by a stamp that the texts' block gives them; those of rows that
// are not sealed live as long as the view.
// Threads: as the view's connection; what was loaded may be used by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/residency.h"
#include "engine/view.h"
#include "index/postings.h"
#include "index/text_index.h"

namespace warplite::engine {

struct TextTile {
  std::uint32_t part = 0;
  Stamp stamp;  // null: of rows that are not sealed
  std::shared_ptr<const ResidentVectors> bytes = nullptr;
  std::uint32_t keywords = 0, postings = 0;

  const Bytes& memory() const { return bytes->block.memory; }
};

// Tiles of some parts; made on several threads where there are none yet. Parts whose texts are all
// NULL are left out. Throws Error{kCorrupt}, Error{kInterrupted}.
std::vector<TextTile> load_text_tiles(const View& view, std::size_t column,
                                      const index::TextIndex& index,
                                      std::span<const std::uint32_t> parts,
                                      compute::Cancellation* cancellation);

}  // namespace warplite::engine
