#include "cpu/scan/nearest_in_groups.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/process/interruption.h"
#include "cpu/scan/bounded_product.h"
#include "cpu/scan/query_set.h"
#include "cpu/scan/score_rows.h"

namespace warplite::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

compute::Workload workload_of(const compute::GroupedRows& work) {
  compute::Workload of;
  of.distance = work.distance;
  of.queries = work.queries;
  return of;
}

// Canonical distances of single rows.
class Scores {
 public:
  Scores(const compute::GroupedRows& work, const ScanKernels& kernels)
      : distance_(work.distance),
        score_(kernels.score(work.queries.type, work.distance)),
        queries_(workload_of(work), kernels) {}

  double operator()(std::size_t query, const std::byte* row) const {
    const std::uint32_t first = 0;
    double score = 0;
    score_(queries_[query], row, &first, 1, &score);
    return distance_of_score(distance_, score);
  }

 private:
  const Distance distance_;
  const ScoreRows score_;
  const QuerySet queries_;
};

void score_all(const compute::GroupedRows& work, const Scores& scores, double* out) {
  std::uint32_t row = 0;
  for (const std::uint32_t end : work.ends) {
    poll_interruption();
    for (; row < end; ++row) {
      for (std::size_t q = 0; q < work.queries.rows; ++q) {
        out[q] = std::min(out[q], scores(q, work.rows[row]));
      }
    }
    out += work.queries.rows;
  }
}

BoundedProduct::Vectors sample_of(std::span<const std::byte* const> rows) {
  BoundedProduct::Vectors sample;
  const std::size_t step = rows.size() / BoundedProduct::kSampleRows + 1;
  for (std::size_t i = 0; i < rows.size(); i += step) sample.push_back(rows[i]);
  return sample;
}

// Rows of some groups, or of a part of one, are packed together. Each group begins where the kernels
// can begin; what lies between is no row.
class GroupScan {
 public:
  GroupScan(const compute::GroupedRows& work, const ScanKernels& kernels, const Scores& scores,
            double* out)
      : work_(work),
        gemm_(kernels.gemm),
        scores_(scores),
        out_(out),
        product_(gemm_, gemm_.panel_by_row(work.queries.rows), work.distance, work.queries.type,
                 work.queries.dim, sample_of(work.rows), BoundedProduct::sample_of(work.queries)),
        width_(product_.panel_queries()),
        packed_(product_.make_rows(product_.block_rows())),
        dots_(product_.dots_bytes()),
        slacks_(product_.panels_of(work.queries.rows) * width_),
        offsets_(width_),
        nearest_(width_),
        found_(product_.block_rows() * width_) {
    product_.pack_queries(work.queries, &queries_);
    for (std::size_t q = 0; q < work.queries.rows; ++q) {
      const BoundedProduct::Query& query = queries_.bounds[q];
      slacks_[q] = query.usable ? query.slack : 0;  // an infinite one would bring near what is no row
    }
  }

  void run() {
    std::size_t group = 0;
    std::uint32_t row = 0;
    while (group < work_.ends.size()) {
      poll_interruption();
      while (group < work_.ends.size() && rows_.size() < product_.block_rows()) {
        row = take(group, row);
        if (row == work_.ends[group]) ++group;
      }
      pack();
      multiply(next_rows(row));
      pieces_.clear();
      rows_.clear();
    }
  }

 private:
  struct Piece {
    std::size_t group;
    std::size_t first, size;  // in rows_, with what is no row behind them
    bool usable = true;       // every row has bounds
  };

  // Takes rows of the group from `row` on, as many as there is room for; returns the next.
  std::uint32_t take(std::size_t group, std::uint32_t row) {
    const std::size_t room = product_.block_rows() - rows_.size();
    const std::size_t count = std::min<std::size_t>(room, work_.ends[group] - row);
    const std::size_t first = rows_.size();
    const auto rows = work_.rows.subspan(row, count);
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    rows_.resize(first + product_.padded_rows(count), nullptr);
    if (count != 0) pieces_.push_back({group, first, rows_.size() - first});
    return row + static_cast<std::uint32_t>(count);
  }

  void pack() {
    product_.pack_rows(rows_, &packed_);
    for (Piece& piece : pieces_) {
      for (std::size_t r = piece.first; r < piece.first + piece.size; ++r) {
        float& half = packed_.halves[r];
        if (rows_[r] == nullptr) {
          half = std::numeric_limits<float>::infinity();  // farther than every row
        } else if (half == -std::numeric_limits<float>::infinity()) {
          piece.usable = false;
        }
      }
    }
  }

  // What is packed next, as far as rows follow one another there, as those of a document do.
  std::span<const std::byte> next_rows(std::uint32_t row) const {
    const std::size_t left = std::min(work_.rows.size() - row, product_.block_rows());
    if (left == 0) return {};
    return {work_.rows[row], left * work_.queries.stride()};
  }

  void multiply(std::span<const std::byte> next) {
    const std::size_t panels = product_.panels_of(work_.queries.rows);
    float* const dots = reinterpret_cast<float*>(dots_.data());
    for (std::size_t panel = 0; panel < panels; panel += product_.panel_group()) {
      const std::size_t group = std::min(product_.panel_group(), panels - panel);
      product_.multiply(queries_, panel, group, packed_, rows_.size(), dots,
                        panel == 0 ? next : std::span<const std::byte>());
      for (std::size_t p = 0; p < group; ++p) {
        const float* const of_panel = dots + p * width_ * product_.block_rows();
        for (const Piece& piece : pieces_) {
          find_nearest((panel + p) * width_, of_panel + piece.first * width_, piece);
        }
      }
    }
  }

  // Of the queries of a panel, which begin with the first one.
  void find_nearest(std::size_t first, const float* dots, const Piece& piece) {
    const std::size_t queries = std::min(width_, work_.queries.rows - first);
    const float* const halves = packed_.halves.data() + piece.first;
    const float* const norms = packed_.norms.data() + piece.first;
    const float* const slacks = slacks_.data() + first;
    double* const leasts = out_ + piece.group * work_.queries.rows + first;
    if (piece.usable) {
      gemm_.nearest_rows(dots, halves, norms, piece.size, slacks, width_, nearest_.data());
    }
    for (std::size_t q = 0; q < width_; ++q) {
      offsets_[q] = std::numeric_limits<float>::infinity();  // nothing else is near
      if (q >= queries) continue;
      const BoundedProduct::Query& query = queries_.bounds[first + q];
      if (!query.usable || !piece.usable) {
        score_all(first + q, piece, leasts[q]);
      } else {
        score(first + q, piece, nearest_[q], leasts[q]);
        offsets_[q] = product_.offset(query, leasts[q]);
      }
    }
    if (!piece.usable) return;
    const std::size_t found = gemm_.near_rows(dots, halves, norms, piece.size, slacks,
                                              offsets_.data(), width_, found_.data());
    for (std::size_t i = 0; i < found; ++i) {
      const std::size_t q = found_[i] % width_, row = found_[i] / width_;
      if (row != nearest_[q]) score(first + q, piece, row, leasts[q]);
    }
  }

  void score(std::size_t query, const Piece& piece, std::size_t row, double& least) const {
    least = std::min(least, scores_(query, rows_[piece.first + row]));
  }
  void score_all(std::size_t query, const Piece& piece, double& least) const {
    for (std::size_t r = 0; r < piece.size && rows_[piece.first + r] != nullptr; ++r) {
      score(query, piece, r, least);
    }
  }

  const compute::GroupedRows& work_;
  const GemmKernels& gemm_;
  const Scores& scores_;
  double* const out_;
  const BoundedProduct product_;
  const std::size_t width_;  // queries of a panel
  BoundedProduct::Queries queries_;
  std::vector<const std::byte*> rows_;  // of the pieces; null: none
  std::vector<Piece> pieces_;
  BoundedProduct::Rows packed_;
  Bytes dots_;
  std::vector<float> slacks_;   // of all queries
  std::vector<float> offsets_;  // of those of a panel, as what follows
  std::vector<std::uint32_t> nearest_;
  std::vector<std::uint32_t> found_;
};

// Says whether canonical scores of all rows cost less than products, which take the rows of each group in tiles, and
// queries in panels. Measured on an Intel Xeon with AVX-512 in scores of a row and a query, 64 elements.
bool scores_cost_less(const compute::GroupedRows& work, const GemmKernels& gemm) {
  constexpr double kRow = 0.19, kGroup = 1.25;  // for each place of a panel
  std::size_t tiles = 0;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : work.ends) tiles += (end - std::exchange(begin, end) + gemm.rows - 1) / gemm.rows;
  const std::size_t queries = work.queries.rows, width = gemm.panel_by_row(queries).queries;
  const auto places = static_cast<double>((queries + width - 1) / width * width);
  return static_cast<double>(queries * work.rows.size()) <
         places * (kRow * static_cast<double>(tiles * gemm.rows) + kGroup * static_cast<double>(work.ends.size()));
}

}  // namespace

void nearest_in_groups(const compute::GroupedRows& work, double* out) {
  std::fill_n(out, work.ends.size() * work.queries.rows, kInfinity);
  if (work.queries.rows == 0 || work.rows.empty()) return;
  const ScanKernels& kernels = scan_kernels();
  const Scores scores(work, kernels);
  if (!BoundedProduct::suits(work.distance, work.queries.dim) ||
      scores_cost_less(work, kernels.gemm)) {
    return score_all(work, scores, out);
  }
  GroupScan(work, kernels, scores, out).run();
}

}  // namespace warplite::cpu
