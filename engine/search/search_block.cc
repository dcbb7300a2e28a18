#include "engine/search/search_block.h"

#include <utility>

namespace warplite::engine {

bool load_block(const View& view, std::size_t column, std::uint32_t i, SearchBlock& out) {
  const Part& part = view.part(i);
  out.part_live_rows = part.live_rows();
  if (out.part_live_rows == 0) return false;
  out.vectors = part.vectors(column);
  if (out.vectors.all_null) return false;
  compute::Block& block = out.block;
  block.rows = part.rows();
  block.id = i;
  block.host = out.vectors.data.data;
  block.name = out.vectors.name;
  block.rowids = part.rowids();
  block.live_rows = out.part_live_rows;
  const Bitmap* alive = part.alive();
  if (out.vectors.present != nullptr) {
    out.live = *out.vectors.present;
    if (alive != nullptr) out.live &= *alive;
    block.live_rows = static_cast<std::uint32_t>(out.live.count());
    block.live = out.live.words();
  } else if (alive != nullptr && out.part_live_rows != block.rows) {
    block.live = alive->words();
  }
  return block.live_rows != 0;
}

void Workset::add(const SearchBlock& from, const Selection& rows, const compute::Buffer* buffer) {
  const Selection::Rows& selected = rows.part(from.block.id);
  if (selected.count == 0 && !whole_) return;
  compute::Block block = from.block;
  block.vectors = buffer;
  if (selected.count == 0) {
    live_.emplace_back(block.rows);
    block.live = live_.back().words();
    block.live_rows = 0;
  } else if (selected.count != from.part_live_rows) {
    block.live = selected.bits.words();
    block.live_rows = selected.count;
    if (from.vectors.present != nullptr) {
      Bitmap live = *from.vectors.present;
      live &= selected.bits;
      block.live = live.words();
      block.live_rows = static_cast<std::uint32_t>(live.count());
      if (block.live_rows == 0 && !whole_) return;
      live_.push_back(std::move(live));
    }
  }
  blocks_.push_back(block);
}

void Workset::clear() {
  blocks_.clear();
  live_.clear();
}

}  // namespace warplite::engine
