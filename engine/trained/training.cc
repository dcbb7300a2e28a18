#include "engine/trained/training.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace warplite::engine {
namespace {

// A number that looks random, of `n` alone.
std::uint64_t scramble(std::uint64_t n) {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
  n = (n ^ n >> 27) * 0x94d049bb133111eb;
  return n ^ n >> 31;
}

// One of each `total / wanted` live rows, so that no part of the table is left out and no pattern
// in the order of rows is met.
class Strata {
 public:
  Strata(std::uint64_t total, std::uint64_t wanted)
      : total_(total), wanted_(std::min(total, wanted)) {
    choose();
  }
  std::uint64_t wanted() const { return wanted_; }
  // Live rows are numbered in the order of parts. Comes with ascending numbers.
  bool take(std::uint64_t number) {
    if (at_ == wanted_ || number != chosen_) return false;
    ++at_;
    choose();
    return true;
  }
  bool any_before(std::uint64_t end) const { return at_ != wanted_ && chosen_ < end; }

 private:
  std::uint64_t begin(std::uint64_t stratum) const {
    return static_cast<std::uint64_t>(static_cast<double>(total_) * static_cast<double>(stratum) /
                                      static_cast<double>(wanted_));
  }
  void choose() {
    if (at_ == wanted_) return;
    const std::uint64_t first = begin(at_);
    chosen_ = first + scramble(at_) % std::max<std::uint64_t>(begin(at_ + 1) - first, 1);
  }

  const std::uint64_t total_;
  const std::uint64_t wanted_;
  std::uint64_t at_ = 0;
  std::uint64_t chosen_ = 0;
};

class Sampler {
 public:
  Sampler(const Layout::Vector& shape, std::size_t column, Strata strata)
      : column_(column), stride_(shape.stride()), strata_(strata),
        bytes_(strata.wanted() * shape.stride(), Bytes::Fill::kGradual) {
    sample_.dim = shape.dim;
    sample_.type = shape.type;
  }

  void add(const Part& part) {
    const std::uint64_t end = next_ + part.live_rows();
    if (strata_.any_before(end)) copy(part);
    next_ = end;
  }

  MatrixView sample() {
    sample_.data = bytes_.data();
    return sample_;
  }

 private:
  void copy(const Part& part) {
    const Part::Vectors vectors = part.vectors(column_);
    std::uint64_t number = next_;
    for (std::uint32_t row = 0; row < part.rows(); ++row) {
      if (!is_alive(part, row) || !strata_.take(number++)) continue;
      if (vectors.all_null || (vectors.present != nullptr && !vectors.present->test(row))) continue;
      std::memcpy(bytes_.data() + sample_.rows++ * stride_, vectors.data.row(row), stride_);
    }
  }

  const std::size_t column_;
  const std::size_t stride_;
  Strata strata_;
  Bytes bytes_;
  MatrixView sample_;
  std::uint64_t next_ = 0;
};

bool has_vectors(const SegmentPart& segment, std::size_t column) {
  return !segment.info().vectors[column].is_null();
}

void check_cancelled(compute::Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

}  // namespace

std::uint64_t sealed_rows(const Snapshot& snapshot, std::size_t column) {
  std::uint64_t rows = 0;
  for (const auto& segment : snapshot.segments()) {
    if (has_vectors(*segment, column)) rows += segment->live_rows();
  }
  return rows;
}

std::shared_ptr<const index::Model> learn(const Snapshot& snapshot, const TableOptions& options,
                                          std::size_t column, const index::Trained& index,
                                          compute::Cancellation* cancellation,
                                          const index::Progress& progress) {
  const std::uint64_t rows = sealed_rows(snapshot, column) + snapshot.tail.live;
  Sampler sampler(options.layout.vectors[column], column,
                  Strata(rows, index.sample_rows(rows)));
  for (const auto& segment : snapshot.segments()) {
    check_cancelled(cancellation);
    if (has_vectors(*segment, column)) sampler.add(*segment);
  }
  if (snapshot.tail.part != nullptr) sampler.add(*snapshot.tail.part);
  const MatrixView sample = sampler.sample();
  std::shared_ptr<const index::Model> model;
  on_worker({{}, training_ability(), index.training_bytes(sample.rows), cancellation},
            [&](compute::Device& device) {
              model = index.train(device, sample, rows, cancellation, progress);
            });
  return model;
}

}  // namespace warplite::engine
