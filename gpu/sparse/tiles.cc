#include "gpu/sparse/tiles.h"

#include <algorithm>
#include <memory>

#include "compute/sparse/postings.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/cuda_buffer.h"

namespace warplite::gpu {
namespace {

// A tile's postings begin with their shape, which is fetched once.
compute::SparseShape shape_of(const CudaBuffer& buffer, Lane& lane) {
  return *buffer.derived().get<const compute::SparseShape>([&] {
    const auto shape = std::make_shared<compute::SparseShape>();
    check(cudaMemcpyAsync(shape.get(), buffer.data(), sizeof *shape, cudaMemcpyDefault,
                          lane.stream()),
          "fetching a tile's shape");
    check(cudaStreamSynchronize(lane.stream()), "fetching a tile's shape");
    return std::shared_ptr<const compute::SparseShape>(shape);
  });
}

SparseTileView view_of(const compute::SparseTile& tile, Lane& lane) {
  const CudaBuffer& buffer = CudaBuffer::of(tile.postings);
  const compute::SparseShape shape = shape_of(buffer, lane);
  const compute::SparsePostings<const std::byte> postings(shape, buffer.data());
  SparseTileView view{};
  view.column_keys = postings.column_keys().data();
  view.column_steps = postings.column_steps();
  view.columns = postings.column(0);
  view.buckets = postings.buckets();
  view.list_keys = postings.list_keys().data();
  view.list_steps = postings.list_steps();
  view.begins = postings.begins();
  view.places = postings.places();
  view.impacts = postings.impacts();
  view.rows = tile.rows;
  view.padded_rows = static_cast<std::uint32_t>(shape.padded_rows());
  view.column_count = shape.columns;
  view.shift = shape.shift;
  view.negative = shape.negative;
  view.widest = shape.widest;
  return view;
}

}  // namespace

SparseTiles::SparseTiles(Lane& lane, std::span<const compute::SparseTile* const> tiles)
    : tiles_(tiles) {
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    rows_ += tiles[t]->rows;
    live_rows_ += tiles[t]->live_rows;
    for (std::uint32_t first = 0; first < tiles[t]->rows; first += kSparseStrip) {
      strips_.push_back({static_cast<std::uint32_t>(t), first});
    }
  }
  Plan plan;
  const Slot<SparseTileView> views(plan, tiles.size());
  const Slot<SparseStrip> strips(plan, strips_.size());
  std::vector<Slot<std::uint64_t>> live;
  for (const compute::SparseTile* tile : tiles) {
    live.emplace_back(plan, live_words(tile->live, tile->rows));
  }
  const Arena device = lane.table(plan);
  const Staging host = lane.outgoing_table(plan);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    SparseTileView& view = host[views][t] = view_of(*tiles[t], lane);
    if (tiles[t]->live == nullptr) continue;
    std::copy_n(tiles[t]->live, live[t].count(), host[live[t]].begin());
    view.live = device[live[t]];
  }
  std::copy(strips_.begin(), strips_.end(), host[strips].begin());
  host.send(plan, device, lane.stream(), "sending the tiles");
  views_ = device[views];
  placed_ = device[strips];
}

}  // namespace warplite::gpu
