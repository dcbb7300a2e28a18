#include "gpu/batch/batch_search.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "gpu/runtime/cuda_buffer.h"
#include "gpu/select/candidates.h"

namespace warplite::gpu {
namespace {

// For fewer queries or rows, passes over the rows cost less than the phases of a batch: four queries
// share a pass, which takes 3.1 ms over 10M x 128 on an H200, and a batch of up to 64 takes 0.9.
constexpr std::size_t kLeastQueries = 5, kLeastOfMany = 2;
constexpr std::uint32_t kLeastRows = 256, kManyRows = std::uint32_t{1} << 19;
constexpr std::size_t kMostK = 2048;
// Multiply-adds that take about 10 ms: between launches of so many an interrupt is seen.
constexpr double kLaunchWork = 2e12;
// As many as are done while a sum of cuBLAS's is written and read.
constexpr std::uint32_t kSumWork = 512;
constexpr std::uint32_t kRoomForTies = 32;
constexpr std::size_t kPassingMemory = std::size_t{512} << 20;
// Results wait in pinned memory, which is scarcer than the GPU's own: a byte of it counts as so many.
constexpr std::size_t kPinnedWeight = 8;
// Live rows are copied together when they are at most one in this many: to gather rows costs
// little more than to read them once.
constexpr std::uint32_t kFewLive = 2;

// How the rows of a search are divided into phases. The first keeps every row it sees; each of the others ends
// when `growth` times the rows before it have been seen: a query then has about growth · k nominees, which are
// at most half of its room.
struct Phases {
  std::uint32_t first_rows, growth, capacity;
};

Phases phases_for(std::size_t k) {
  // The least of fewer rows leaves few for the next phase, and to keep a row takes longer than to multiply it.
  if (k == 1) return {256, 8, kCapacities[0]};
  if (k <= 64) return {2048, 8, kCapacities[0]};
  if (k <= 160) return {2048, 8, kCapacities[1]};
  if (k <= 512) return {2048, 8, kCapacities[2]};
  return k <= 1024 ? Phases{4096, 8, kCapacities[3]} : Phases{8192, 4, kCapacities[3]};
}

bool lives(const compute::Block& block, std::uint32_t begin, std::uint32_t end) {
  if (block.live == nullptr) return true;
  for (std::uint32_t at = begin; at < end; at += 64) {
    if (block.live[at / 64] != 0) return true;
  }
  return false;
}

// Visits tiles in an order in which any run of them is spread over the table: steps of about the
// golden section.
std::vector<RowTile> mixed(const std::vector<RowTile>& tiles) {
  const std::size_t n = tiles.size();
  std::size_t step = static_cast<std::size_t>(static_cast<double>(n) * 0.618) | 1;
  while (std::gcd(step, n) != 1) step += 2;
  std::vector<RowTile> out;
  out.reserve(n);
  for (std::size_t i = 0, at = 0; i < n; ++i, at = (at + step) % n) out.push_back(tiles[at]);
  return out;
}

// A half-precision copy, kept with the buffer of the rows and counted with the device's bytes.
// Whoever holds it waits for its own work before letting go.
class KeptShadow : public Shadow {
 public:
  KeptShadow(const CudaBuffer& of, Lane& lane, const MatrixView& queries, std::uint32_t count)
      : used_(of.used()) {
    make_shadow(of.data(), queries.type, queries.dim, count, of.gpu().pool(), lane.stream(),
                *this);
    used_ += memory.size();
  }
  KeptShadow(const KeptShadow&) = delete;
  KeptShadow& operator=(const KeptShadow&) = delete;
  ~KeptShadow() { used_ -= memory.size(); }

 private:
  std::atomic<std::size_t>& used_;
};

std::uint32_t round_up(std::size_t value, std::uint32_t unit) {
  return static_cast<std::uint32_t>((value + unit - 1) / unit * unit);
}

// Says what some queries have in scratch memory; `raw` comes from the host.
struct GroupPieces {
  std::size_t queries, tile_queries, stride, padded, padded_halves, capacity, extra_bytes,
      product_bytes;
  Plan plan{};
  Slot<std::byte> raw{plan, queries * stride};
  Plan sent = plan;
  Slot<double> real{plan, queries * padded};
  Slot<double> squares{plan, queries};
  Slot<std::uint16_t> halves{plan, tile_queries * padded_halves};
  Slot<float> norms{plan, queries};
  Slot<float> residuals{plan, queries};
  Slot<float> extremes{plan, 4};
  Slot<float> limits{plan, tile_queries};
  Slot<std::uint32_t> counts{plan, queries};
  Slot<float2> bounds{plan, queries * capacity};
  Slot<std::uint32_t> ordinals{plan, queries * capacity};
  Slot<std::byte> extra{plan, extra_bytes};
  Slot<std::byte> product{plan, product_bytes};
};

}  // namespace

bool BatchSearch::serves(const Gpu& gpu, const compute::Workload& work, std::size_t k) {
  return info(work.distance).product && k <= kMostK && !work.has_after && work.range.unbounded() &&
         product_for(gpu, work.queries.dim) != ProductKind::kNone;
}

bool BatchSearch::suits(const Gpu& gpu, const compute::Workload& work, std::size_t k,
                        std::uint32_t rows) {
  return rows >= kLeastRows && work.queries.rows >= (rows < kManyRows ? kLeastQueries : kLeastOfMany) &&
         serves(gpu, work, k) &&
         work.queries.rows >= least_queries(gpu, work.queries.type, work.queries.dim);
}

std::uint32_t BatchSearch::passing_rows(std::uint32_t dim) {
  return static_cast<std::uint32_t>(kPassingMemory / shadow_bytes(dim, kPanelRows) * kPanelRows);
}

std::optional<std::vector<std::uint32_t>> BatchSearch::nearest(compute::HitTable& best) {
  std::vector<std::uint32_t> lost;
  const bool done = nominate(best.k(), [&](const Nominate& work, std::size_t first) {
    rescore(work, first, best, lost);
  });
  if (!done) return std::nullopt;
  return lost;
}

bool BatchSearch::nearest_into(std::size_t k, std::uint32_t room, Candidate* out,
                               std::uint32_t* found) {
  return nominate(k, [&](const Nominate& work, std::size_t first) {
    launch_rescore({table_, work_.queries.type, work_.distance, work.prepared, work.nominees,
                    compact_.ordinals, room, out + first * room, found + first},
                   lane_.stream());
    lane_.wait(work_.cancellation);
  });
}

template <typename Finish>
bool BatchSearch::nominate(std::size_t k, const Finish& finish) {
  shape_ = tile_shape(gpu_, work_.queries.dim, static_cast<std::uint32_t>(work_.queries.rows));
  if (!make_tiles()) return false;
  const std::uint32_t capacity = phases_for(k).capacity;
  const std::size_t results = (k + kRoomForTies) * sizeof(Candidate) * kPinnedWeight;
  for_groups(capacity * std::size_t{12} + work_.queries.dim * std::size_t{16} + results,
             [&](std::size_t first, std::size_t count) {
               const Nominate work = start_group(first, count, k, capacity);
               run_phases(work);
               finish(work, first);
             });
  return true;
}

BatchSearch::~BatchSearch() {
  if (!shadows_.empty()) cudaStreamSynchronize(lane_.stream());
}

bool BatchSearch::make_passing_shadows() {
  try {
    for (const compute::Block* block : rows_.blocks()) {
      ask(work_.cancellation);
      const CudaBuffer& buffer = CudaBuffer::of(block->vectors);
      std::shared_ptr<const Shadow> shadow = buffer.derived().find<KeptShadow>();
      if (shadow == nullptr) {
        auto made = std::make_shared<Shadow>();
        make_shadow(buffer.data(), work_.queries.type, work_.queries.dim, block->rows, lane_.pool(),
                    lane_.stream(), *made);
        shadow = std::move(made);
      }
      shadows_.push_back(std::move(shadow));
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoMemory) throw;
  }
  shadows_.clear();
  return false;
}

bool BatchSearch::make_shadows() {
  if (copies_ == Copies::kPassing) return make_passing_shadows();
  std::vector<compute::MemoryBudget::Growth> lacking;
  const auto others = std::span(rows_.blocks()).subspan(shadows_.size());
  for (const compute::Block* block : others) {
    if (CudaBuffer::of(block->vectors).derived().find<KeptShadow>() != nullptr) continue;
    lacking.push_back({block->vectors, shadow_bytes(work_.queries.dim, block->rows)});
  }
  compute::MemoryBudget* const budget = lacking.empty() ? nullptr : work_.budget;
  if (budget != nullptr && !budget->reserve(lacking)) return false;
  try {
    for (const compute::Block* block : others) {
      ask(work_.cancellation);
      const CudaBuffer& buffer = CudaBuffer::of(block->vectors);
      shadows_.push_back(buffer.derived().get<KeptShadow>([&] {
        return std::make_shared<KeptShadow>(buffer, lane_, work_.queries, block->rows);
      }));
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoMemory) throw;
  }
  // Rows as they are take no more memory.
  shadows_.clear();
  for (const auto& growth : lacking) {
    CudaBuffer::of(growth.buffer).derived().drop<KeptShadow>();
  }
  if (budget != nullptr) budget->give_back(lacking);
  return false;
}

TileLists::Key BatchSearch::key_of_tiles(std::size_t blocks) const {
  TileLists::Key key{{}, shape_, work_.queries.type, work_.queries.dim};
  key.blocks.reserve(blocks);
  for (std::size_t i = 0; i < blocks; ++i) {
    key.blocks.emplace_back(rows_.blocks()[i]->vectors, rows_.blocks()[i]->rows);
  }
  return key;
}

bool BatchSearch::make_tiles() {
  if (rows_.all_live() && copies_ == Copies::kKept) return make_lasting_tiles();
  if (!make_shadows()) return false;
  tiles_ = send_list({}, mixed(list_tiles()));
  return true;
}

bool BatchSearch::make_lasting_tiles() {
  const std::size_t blocks = rows_.blocks().size();
  const bool has_tail = blocks > 1 && !rows_.blocks().back()->name.is_null();
  const std::size_t sealed = has_tail ? blocks - 1 : blocks;
  TileLists& lists = gpu_.derived().of<TileLists>();
  TileLists::Key key = key_of_tiles(sealed);
  tiles_ = lists.find(key, shadows_);
  if (!make_shadows()) return false;
  if (tiles_ == nullptr) {
    tiles_ = send_list({}, mixed(list_tiles(0, sealed)));
    // Searches on other streams are to find it there.
    check(cudaStreamSynchronize(lane_.stream()), "sending the list of tiles");
    const auto end = shadows_.begin() + static_cast<std::ptrdiff_t>(sealed);
    lists.add(std::move(key), {shadows_.begin(), end}, tiles_);
  }
  if (!has_tail) return true;
  sealed_tiles_ = tiles_;  // is being copied from
  tiles_ = send_list(*sealed_tiles_, list_tiles(sealed, blocks));
  return true;
}

std::shared_ptr<const TileList> BatchSearch::send_list(const TileList& first,
                                                       const std::vector<RowTile>& rest) const {
  const std::size_t before = first.count * sizeof(RowTile), after = rest.size() * sizeof(RowTile);
  auto list = std::make_shared<TileList>();
  list->memory = DeviceBytes(before + after, lane_.pool(), lane_.stream());
  list->count = first.count + static_cast<std::uint32_t>(rest.size());
  std::byte* const to = list->memory.data();
  if (before != 0) {
    check(cudaMemcpyAsync(to, first.memory.data(), before, cudaMemcpyDeviceToDevice, lane_.stream()),
          "copying the list of tiles");
  }
  check(cudaMemcpyAsync(to + before, rest.data(), after, cudaMemcpyHostToDevice, lane_.stream()),
        "sending the list of tiles");
  return list;
}

std::vector<RowTile> BatchSearch::list_tiles() {
  std::vector<RowTile> tiles;
  const bool few = rows_.live_rows() <= rows_.rows() / kFewLive;
  if (few && add_compact_tiles(tiles)) return tiles;
  return list_tiles(0, shadows_.size());
}

std::vector<RowTile> BatchSearch::list_tiles(std::size_t first_block, std::size_t end) const {
  std::vector<RowTile> tiles;
  for (std::size_t i = first_block; i < end; ++i) {
    add_tiles(*rows_.blocks()[i], *shadows_[i], rows_.live()[i], rows_.first_ordinal(i), tiles);
  }
  return tiles;
}

std::vector<CompactSource> BatchSearch::sources() const {
  std::vector<CompactSource> sources;
  std::uint32_t position = 0;
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    sources.push_back({shadows_[i]->rows, shadows_[i]->stats, position, 0});
    position += rows_.blocks()[i]->live_rows;
  }
  return sources;
}

DeviceBytes BatchSearch::send_tiles(const std::vector<RowTile>& tiles) const {
  DeviceBytes out(tiles.size() * sizeof(RowTile), lane_.pool(), lane_.stream());
  check(cudaMemcpyAsync(out.data(), tiles.data(), out.size(), cudaMemcpyHostToDevice,
                        lane_.stream()),
        "sending the list of tiles");
  return out;
}

void BatchSearch::add_tiles(const compute::Block& block, const Shadow& shadow,
                            const std::uint64_t* live, std::uint32_t first_ordinal,
                            std::vector<RowTile>& tiles) const {
  for (std::uint32_t at = 0; at < block.rows; at += shape_.rows) {
    const std::uint32_t end = std::min(block.rows, at + shape_.rows);
    if (!lives(block, at, end)) continue;
    tiles.push_back({shadow.rows + std::size_t{at} * padded_elements(work_.queries.dim),
                     shadow.stats + at, live == nullptr ? nullptr : live + at / 64,
                     first_ordinal + at, end - at});
  }
}

bool BatchSearch::add_compact_tiles(std::vector<RowTile>& tiles) {
  try {
    compact_ = compact(table_, sources(), rows_.live_rows(), lane_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoMemory) throw;
    return false;
  }
  add_tiles(compact_, tiles);
  return true;
}

void BatchSearch::add_tiles(const CompactRows& rows, std::vector<RowTile>& tiles) const {
  for (std::uint32_t at = 0; at < rows.count; at += shape_.rows) {
    tiles.push_back({rows.rows + std::size_t{at} * padded_elements(work_.queries.dim),
                     rows.stats + at, nullptr, at, std::min(rows.count - at, shape_.rows)});
  }
}

Nominate BatchSearch::start_group(std::size_t first, std::size_t count, std::size_t k,
                                  std::uint32_t capacity, const Plan& extra) {
  const MatrixView& all = work_.queries;
  const auto queries = static_cast<std::uint32_t>(count);
  const std::uint32_t tile_queries = round_up(count, shape_.queries);
  const ProductKind product = product_for(gpu_, all.dim);
  const bool by_blas = product == ProductKind::kBlas;
  const GroupPieces at{count, tile_queries, all.stride(), padded_query(all.type, all.dim),
                       padded_elements(all.dim), capacity, extra.size(),
                       by_blas ? blas_scratch_bytes(all.dim, tile_queries) : 0};
  const Arena arena = lane_.scratch(at.plan);
  extra_ = Arena(arena[at.extra]);

  Nominate work{};
  work.distance = work_.distance;
  work.dim = all.dim;
  work.shape = shape_;
  work.multiprocessors = gpu_.multiprocessors();
  work.product = product;
  work.blas = by_blas ? &lane_.blas() : nullptr;
  work.scratch = arena[at.product];
  work.prepared = {arena[at.real],   arena.bytes(at.real), arena[at.squares],  arena[at.halves],
                   arena[at.norms],  arena[at.residuals],  arena[at.extremes]};
  work.nominees = {queries,          static_cast<std::uint32_t>(k), capacity, arena[at.limits],
                   arena[at.counts], arena[at.bounds],              arena[at.ordinals]};

  if (load_queries_) {
    load_queries_(first, count, arena[at.raw]);
  } else {
    const Staging host = lane_.outgoing(at.sent);
    std::memcpy(host[at.raw].data(), all.row(first), at.raw.bytes());
    host.send(at.sent, arena, lane_.stream(), "sending queries");
  }
  launch_prepare({all.type, work_.distance, all.dim, queries, tile_queries, shape_.queries},
                 arena[at.raw], work.prepared, lane_.stream());
  return work;
}

void BatchSearch::rescore(const Nominate& work, std::size_t first, compute::HitTable& best,
                          std::vector<std::uint32_t>& lost) {
  const std::size_t count = work.nominees.queries;
  const std::uint32_t room = work.nominees.k + kRoomForTies;
  Plan results;
  const Slot<Candidate> candidate_slot(results, count * room);
  const Slot<std::uint32_t> found_slot(results, count);
  const Arena incoming = lane_.incoming(results);
  Candidate* const candidates = incoming[candidate_slot];
  std::uint32_t* const found = incoming[found_slot];
  launch_rescore({table_, work_.queries.type, work_.distance, work.prepared, work.nominees,
                  compact_.ordinals, room, candidates, found},
                 lane_.stream());
  lane_.wait(work_.cancellation);
  take_candidates(rows_, {candidates, found, count, room}, first, best, lost);
}

std::uint32_t BatchSearch::most_tiles(const Nominate& work) const {
  const std::uint32_t sum_work = padded_elements(work.dim) + (work.blas == nullptr ? 0 : kSumWork);
  const double tile_work = static_cast<double>(shape_.rows) * sum_work *
                           round_up(work.nominees.queries, shape_.queries);
  return static_cast<std::uint32_t>(std::clamp(kLaunchWork / tile_work, 1.0, 1e9));
}

void BatchSearch::run_phases(Nominate work) {
  const std::uint32_t total = tiles_->count;
  const RowTile* tiles = tiles_->memory.as<RowTile>();
  const std::uint32_t most = most_tiles(work);

  work.tiles = tiles;
  const Phases phases = phases_for(work.nominees.k);
  work.tile_count = std::min(total, phases.first_rows / shape_.rows);
  work.keep_all = true;
  launch_start(work.nominees, work.prepared.norms,
               round_up(work.nominees.queries, shape_.queries), work.tile_count * shape_.rows,
               lane_.stream());
  launch_nominate(work, lane_.stream());
  launch_tighten(work.nominees, lane_.stream());
  work.keep_all = false;
  for (std::uint32_t done = work.tile_count; done < total;) {
    const std::uint32_t end = std::min<std::uint64_t>(total, std::uint64_t{done} * phases.growth);
    while (done < end) {
      work.tiles = tiles + done;
      work.tile_count = std::min(end - done, most);
      launch_nominate(work, lane_.stream());
      done += work.tile_count;
      if (work.tile_count == most) lane_.wait(work_.cancellation);
    }
    launch_tighten(work.nominees, lane_.stream());
  }
}

}  // namespace warplite::gpu
