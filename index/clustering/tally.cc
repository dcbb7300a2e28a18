#include "index/clustering/tally.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "compute/host/parallel.h"
#include "index/clustering/model_space.h"

namespace warplite::index {
namespace {

constexpr std::size_t kBytesAtOnce = std::size_t{64} << 20;  // of rows in model space
constexpr std::uint32_t kPieceRows = 4096;

// Consecutive rows of a block.
struct Piece {
  const compute::Block* block;
  std::uint32_t first, end;
  std::size_t at;  // of its first row that lives, among all that are gathered

  bool lives(std::uint32_t row) const {
    return block->live == nullptr || (block->live[row / 64] >> (row % 64) & 1) != 0;
  }
  std::size_t live_rows() const {
    std::size_t rows = 0;
    for (std::uint32_t row = first; row < end; ++row) rows += lives(row) ? 1 : 0;
    return rows;
  }
};

std::vector<Piece> pieces_of(std::span<const compute::Block> blocks) {
  std::vector<Piece> pieces;
  for (const compute::Block& block : blocks) {
    for (std::uint32_t first = 0; first < block.rows; first += kPieceRows) {
      pieces.push_back({&block, first, std::min(block.rows, first + kPieceRows), 0});
    }
  }
  return pieces;
}

// Rows that live, in model space, and where they come from.
class Gathered {
 public:
  Gathered(const TrainingTask& task, const compute::TallyWork& work)
      : task_(task), work_(work), distance_(work.normalised ? Distance::kCosine : Distance::kL2) {}

  void load(std::span<Piece> pieces) {
    std::size_t rows = 0;
    for (Piece& piece : pieces) {
      piece.at = rows;
      rows += piece.live_rows();
    }
    origins_.resize(rows);
    vectors_.resize(rows * work_.dim);
    compute::in_parallel(pieces.size(), 1, pieces.size(), [&](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i) {
        task_.poll()();
        load_piece(pieces[i]);
      }
    });
  }

  struct Origin {
    std::uint32_t block, row;
  };
  std::size_t rows() const { return origins_.size(); }
  const Origin& origin(std::size_t i) const { return origins_[i]; }
  const float* row(std::size_t i) const { return vectors_.data() + i * work_.dim; }
  const float* data() const { return vectors_.data(); }

 private:
  void load_piece(const Piece& piece) {
    const std::size_t stride = bytes_per_vector(work_.type, work_.dim);
    std::vector<std::byte> bytes;
    bytes.reserve((piece.end - piece.first) * stride);
    std::size_t at = piece.at;
    for (std::uint32_t row = piece.first; row < piece.end; ++row) {
      if (!piece.lives(row)) continue;
      const std::byte* const from = piece.block->host + row * stride;
      bytes.insert(bytes.end(), from, from + stride);
      origins_[at++] = {piece.block->id, row};
    }
    if (bytes.empty()) return;
    to_model_space({bytes.data(), at - piece.at, work_.dim, work_.type}, distance_, {},
                   vectors_.data() + piece.at * work_.dim);
  }

  const TrainingTask& task_;
  const compute::TallyWork& work_;
  const Distance distance_;
  std::vector<Origin> origins_;
  std::vector<float> vectors_;
};

void add_row(const Gathered& rows, std::size_t i, const Nearest& nearest, std::uint32_t dim,
             compute::ListTallies& out) {
  const std::size_t list = nearest.list;
  ++out.counts[list];
  double* const sum = out.sums.data() + list * dim;
  const float* const row = rows.row(i);
  for (std::uint32_t d = 0; d < dim; ++d) sum[d] += static_cast<double>(row[d]);
  out.squares[list] += nearest.distance * nearest.distance;
  if (!(nearest.distance > out.farthest[list].distance)) return;
  out.farthest[list] = {nearest.distance, rows.origin(i).block, rows.origin(i).row};
}

// Each thread looks at every row, and adds those of its own lists, in their order.
void add_rows(const TrainingTask& task, const Gathered& rows, const std::vector<Nearest>& nearest,
              std::uint32_t dim, compute::ListTallies& out) {
  constexpr std::size_t kThreads = 16, kPoll = 4096;
  const std::size_t lists = out.counts.size();
  compute::in_parallel(lists, (lists + kThreads - 1) / kThreads, (rows.rows() * dim) >> 16,
                       [&](std::size_t first, std::size_t end) {
                         for (std::size_t i = 0; i < rows.rows(); ++i) {
                           if (i % kPoll == 0) task.poll()();
                           if (nearest[i].list >= first && nearest[i].list < end)
                             add_row(rows, i, nearest[i], dim, out);
                         }
                       });
}

}  // namespace

TallyPass::TallyPass(const TrainingTask& task, const float* centroids, std::uint32_t lists,
                     std::uint32_t dim)
    : task_(task), lists_(task.device(), centroids, lists, dim), count_(lists), dim_(dim) {}

void TallyPass::add(compute::TallyWork work, bool resident, compute::ListTallies& out) const {
  work.dim = dim_;
  work.lists = count_;
  if (resident && add_on_device(work, out)) return;
  std::vector<Piece> pieces = pieces_of(work.blocks);
  const std::size_t together =
      std::max<std::size_t>(1, kBytesAtOnce / (kPieceRows * sizeof(float) * dim_));
  Gathered rows(task_, work);
  std::vector<Nearest> nearest;
  for (std::size_t first = 0; first < pieces.size(); first += together) {
    task_.poll()();
    rows.load(std::span(pieces).subspan(first, std::min(together, pieces.size() - first)));
    nearest.resize(rows.rows());
    lists_.find(rows.data(), rows.rows(), task_.cancellation(), nearest.data());
    if (work.turn != nullptr && !work.turn->await(count_)) {
      throw Error(ErrorKind::kInterrupted, "interrupted");
    }
    add_rows(task_, rows, nearest, dim_, out);
  }
}

// False: it does not do so with these, and nothing was added.
bool TallyPass::add_on_device(compute::TallyWork work, compute::ListTallies& out) const {
  work.centroids = lists_.centroids();
  work.cancellation = task_.cancellation();
  const Status status = task_.device().tally(work, out);
  if (status.kind == ErrorKind::kUnsupported || status.kind == ErrorKind::kNoMemory) return false;
  status.raise();
  return true;
}

}  // namespace warplite::index
