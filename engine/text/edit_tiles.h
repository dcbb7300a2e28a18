// Tiles of the texts of a column (compute/edit.h), one for each part of a view. They follow from
// the texts, so that nothing of them is stored: those of a segment are made when they are first asked
// for and cached by a key that the texts' block gives them, and the way their characters are
// read; those of rows that are not sealed live as long as the view.
// Threads: as the view's connection; what was loaded may be used by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/residency/residency.h"
#include "engine/table/view.h"
#include "index/text/normalize.h"
#include "index/tiles/edit_tile.h"

namespace warplite::engine {

// A column, and the characters by which its texts are compared.
struct EditColumn {
  std::size_t column = 0;  // index into Layout::plains
  bool fold = false;
  index::Normalization normalization = index::Normalization::kNone;

  void read(std::string_view text, CodePoints& points) const {
    index::read_characters(text, fold, normalization, points);
  }
};

struct EditTextTile {
  std::uint32_t part = 0;
  CacheKey key;  // null: of rows that are not sealed
  std::shared_ptr<const ResidentVectors> bytes = nullptr;
  std::shared_ptr<const index::EditTexts> texts = nullptr;  // but for the bytes

  const Bytes& memory() const { return bytes->block.memory; }
};

// Says whether a part's tile should be made, if there is none yet, to compare some of its rows;
// else they are compared one by one. If rows are not sealed, this is asked once for each search.
bool worth_a_tile(const View& view, const EditColumn& column, std::uint32_t part,
                  std::size_t comparisons);

// Tiles of some parts; made on several threads where there are none yet. Parts whose texts are all
// NULL are left out. Throws Error{kCorrupt}, Error{kInterrupted}.
std::vector<EditTextTile> load_edit_tiles(const View& view, const EditColumn& column,
                                          std::span<const std::uint32_t> parts,
                                          compute::Cancellation* cancellation);

}  // namespace warplite::engine
