#include "gpu/edit/tiles.h"

#include <cstring>

#include "gpu/runtime/cuda_buffer.h"

namespace warplite::gpu {
namespace {

using compute::EditTile;

std::size_t live_bytes(const EditTile& tile) {
  return tile.live == nullptr ? 0 : (std::size_t{tile.rows} + 63) / 64 * sizeof(std::uint64_t);
}

EditTileView view_of(const EditTile& tile) {
  const std::byte* const bytes = CudaBuffer::of(tile.bytes).data();
  const auto at =
      compute::EditLayout::of(tile.alphabet, tile.texts, tile.positions, tile.width);
  EditTileView view{};
  if (tile.width != 4) view.alphabet = reinterpret_cast<const std::uint32_t*>(bytes + at.alphabet);
  view.rows = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  view.lengths = reinterpret_cast<const std::uint16_t*>(bytes + at.lengths);
  view.begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  view.symbols = bytes + at.symbols;
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
  const std::size_t views_at = plan.add(tiles.size() * sizeof(EditTileView));
  std::vector<std::size_t> live_at;
  for (const EditTile* tile : tiles) live_at.push_back(plan.add(live_bytes(*tile)));
  std::byte* const device = lane.table(plan.size());
  std::byte* const host = lane.outgoing_table(plan.size());
  auto* const views = reinterpret_cast<EditTileView*>(host + views_at);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const EditTile& tile = *tiles[t];
    views[t] = view_of(tile);
    table.texts += tile.texts;
    if (table.widths.empty() || table.widths.back().width != tile.width) {
      table.widths.push_back({static_cast<std::uint32_t>(t), 0, tile.width});
    }
    ++table.widths.back().count;
    if (tile.live == nullptr) continue;
    std::memcpy(host + live_at[t], tile.live, live_bytes(tile));
    views[t].live = reinterpret_cast<const std::uint64_t*>(device + live_at[t]);
  }
  check(cudaMemcpyAsync(device, host, plan.size(), cudaMemcpyHostToDevice, lane.stream()),
        "sending the tiles");
  table.views = reinterpret_cast<const EditTileView*>(device + views_at);
  return table;
}

}  // namespace warplite::gpu
