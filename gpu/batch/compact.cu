#include "gpu/batch/compact.h"

#include <utility>

#include "gpu/rows/row_score.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/block_sum.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kChunkElements = 8;  // 16 bytes

__device__ std::uint64_t live_word(const RowBlock& block, std::uint32_t word) {
  if (std::uint64_t{word} * 64 >= block.rows) return 0;
  const std::uint64_t bits = block.live == nullptr ? ~std::uint64_t{0} : block.live[word];
  const std::uint32_t left = block.rows - word * 64;
  return left >= 64 ? bits : bits & ((std::uint64_t{1} << left) - 1);
}

// One thread block per block of rows: the ordinals of those that live.
__global__ void __launch_bounds__(kThreads)
    list_kernel(RowTable table, const CompactSource* sources, std::uint32_t* ordinals) {
  __shared__ BlockSums<kThreads> sums;
  const RowBlock block = table.blocks[blockIdx.x];
  std::uint32_t first = sources[blockIdx.x].first_position;
  for (std::uint32_t base = 0; std::uint64_t{base} * 64 < block.rows; base += kThreads) {
    const std::uint32_t word = base + threadIdx.x;
    std::uint64_t bits = live_word(block, word);
    unsigned total = 0;
    std::uint32_t at = first + exclusive_sum<kThreads>(
                                   static_cast<unsigned>(__popcll(bits)), sums, total);
    for (; bits != 0; bits &= bits - 1) {
      ordinals[at++] = block.first_ordinal + word * 64 +
                       static_cast<std::uint32_t>(__ffsll(static_cast<long long>(bits)) - 1);
    }
    first += total;
  }
}

// A thread copies 16 bytes of a row; the first one of a row its numbers, too.
__global__ void __launch_bounds__(kThreads)
    gather_kernel(RowTable table, const CompactSource* sources, const std::uint32_t* ordinals,
                  std::uint32_t count, std::uint16_t* rows, RowStats* stats) {
  const std::uint32_t chunks = padded_elements(table.dim) / kChunkElements;
  const std::uint64_t at = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const auto position = static_cast<std::uint32_t>(at / chunks);
  if (position >= count) return;
  const std::uint32_t element = static_cast<std::uint32_t>(at % chunks) * kChunkElements;
  const std::uint32_t ordinal = ordinals[position];
  const std::uint32_t block = block_of_row(table, ordinal);
  const std::uint32_t row = ordinal - table.blocks[block].first_ordinal;
  const CompactSource& source = sources[block];
  *reinterpret_cast<uint4*>(rows + panel_offset(position, element, table.dim, kPanelRows)) =
      *reinterpret_cast<const uint4*>(source.rows +
                                      panel_offset(row, element, table.dim, kPanelRows));
  if (element == 0) stats[position] = source.stats[row];
}

}  // namespace

namespace {

// Room for copies of `count` rows, and their sources on the device.
struct Room {
  CompactRows out;
  std::uint16_t* rows;
  RowStats* stats;
  std::uint32_t* ordinals;
  CompactSource* sources;
};

Room make_room(const RowTable& table, std::span<const CompactSource> sources, std::uint32_t count,
               Lane& lane) {
  const std::size_t panels = (std::size_t{count} + kPanelRows - 1) / kPanelRows;
  const std::size_t panel = std::size_t{padded_elements(table.dim)} * kPanelRows;
  Plan plan;
  const Slot<std::uint16_t> rows(plan, panels * panel);
  const Slot<RowStats> stats(plan, count);
  const Slot<std::uint32_t> ordinals(plan, count);
  const Slot<CompactSource> device_sources(plan, sources.size());

  Room room{};
  const cudaStream_t stream = lane.stream();
  room.out.memory = DeviceBytes(plan.size(), lane.pool(), stream);
  const Arena arena(room.out.memory.data());
  room.out.rows = room.rows = arena[rows];
  room.out.stats = room.stats = arena[stats];
  room.out.ordinals = room.ordinals = arena[ordinals];
  room.out.count = count;
  room.sources = arena[device_sources];
  // Pageable memory: the call returns when it has been read.
  check(cudaMemcpyAsync(room.sources, sources.data(), sources.size_bytes(),
                        cudaMemcpyHostToDevice, stream),
        "copying rows together");
  check(cudaMemsetAsync(room.rows + (panels - 1) * panel, 0, panel * sizeof *room.rows, stream),
        "copying rows together");
  return room;
}

CompactRows fill(const RowTable& table, Room room, cudaStream_t stream) {
  const std::uint32_t count = room.out.count;
  const std::uint64_t chunks = std::uint64_t{count} * padded_elements(table.dim) / kChunkElements;
  gather_kernel<<<static_cast<unsigned>((chunks + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      table, room.sources, room.ordinals, count, room.rows, room.stats);
  check_launch("copying rows together");
  return std::move(room.out);
}

}  // namespace

CompactRows compact(const RowTable& table, std::span<const CompactSource> sources,
                    std::uint32_t count, Lane& lane) {
  Room room = make_room(table, sources, count, lane);
  list_kernel<<<table.block_count, kThreads, 0, lane.stream()>>>(table, room.sources,
                                                                 room.ordinals);
  return fill(table, std::move(room), lane.stream());
}

CompactRows gather(const RowTable& table, std::span<const CompactSource> sources,
                   std::span<const std::uint32_t> chosen, Lane& lane) {
  Room room = make_room(table, sources, static_cast<std::uint32_t>(chosen.size()), lane);
  // Pageable, too.
  check(cudaMemcpyAsync(room.ordinals, chosen.data(), chosen.size_bytes(), cudaMemcpyHostToDevice,
                        lane.stream()),
        "copying rows together");
  return fill(table, std::move(room), lane.stream());
}

}  // namespace warplite::gpu
