#include "gpu/edit/tiles.h"

#include <algorithm>

#include "gpu/rows/row_set.h"
#include "gpu/runtime/cuda_buffer.h"

namespace warplite::gpu {
namespace {

using compute::EditTile;

EditTileView view_of(const EditTile& tile) {
  const CudaBuffer& buffer = CudaBuffer::of(tile.bytes);
  const auto at =
      compute::EditLayout::of(tile.alphabet, tile.texts, tile.positions, tile.width);
  EditTileView view{};
  if (tile.width != 4) view.alphabet = buffer.at<std::uint32_t>(at.alphabet);
  view.rows = buffer.at<std::uint16_t>(at.rows);
  view.lengths = buffer.at<std::uint16_t>(at.lengths);
  view.begins = buffer.at<std::uint32_t>(at.begins);
  view.symbols = buffer.data() + at.symbols;
  view.alphabet_size = tile.alphabet;
  view.texts = tile.texts;
  view.groups = (tile.texts + compute::kEditGroup - 1) / compute::kEditGroup;
  view.width = tile.width;
  return view;
}

}  // namespace

EditTable send_edit_tiles(std::span<const EditTile* const> tiles, Lane& lane) {
  EditTable table{};
  Plan plan;
  const Slot<EditTileView> descriptors(plan, tiles.size());
  std::vector<Slot<std::uint64_t>> live;
  for (const EditTile* tile : tiles) live.emplace_back(plan, live_words(tile->live, tile->rows));
  const Arena device = lane.table(plan);
  const Staging host = lane.outgoing_table(plan);
  const std::span<EditTileView> views = host[descriptors];
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const EditTile& tile = *tiles[t];
    views[t] = view_of(tile);
    table.texts += tile.texts;
    if (table.widths.empty() || table.widths.back().width != tile.width) {
      table.widths.push_back({static_cast<std::uint32_t>(t), 0, tile.width});
    }
    ++table.widths.back().count;
    if (tile.live == nullptr) continue;
    std::copy_n(tile.live, live[t].count(), host[live[t]].begin());
    views[t].live = device[live[t]];
  }
  host.send(plan, device, lane.stream(), "sending the tiles");
  table.views = device[descriptors];
  return table;
}

}  // namespace warplite::gpu
