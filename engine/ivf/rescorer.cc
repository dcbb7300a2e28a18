#include "engine/ivf/rescorer.h"

#include <algorithm>

#include "compute/host/parallel.h"
#include "compute/reference.h"

namespace warplite::engine {

void Rescorer::add(compute::HitTable& candidates) {
  for (std::size_t q = 0; q < candidates.queries(); ++q) {
    for (const Hit& hit : candidates.sorted(q)) add(q, hit);
  }
}

// Part by part, so that the vectors of one of them are in use at a time.
void Rescorer::run(const MatrixView& queries, compute::HitTable& best) {
  for (std::size_t i = 0; i < by_part_.size(); ++i) {
    std::vector<Candidate>& candidates = by_part_[i];
    if (candidates.empty()) continue;
    if (cancellation_.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
    const Part& part = view_.part(i);
    Part::Vectors whole;
    if (read_ == Read::kWhole) {
      whole = part.vectors(request_.column);
      for (Candidate& one : candidates) one.vector = whole.data.row(one.hit.row);
    } else {
      read_rows(part, queries.stride(), candidates);
    }
    score(queries, candidates);
    for (const Candidate& one : candidates) best.row(one.query).push(one.hit);
    candidates.clear();
  }
}

void Rescorer::read_rows(const Part& part, std::size_t stride, std::vector<Candidate>& candidates) {
  rows_.clear();
  for (const Candidate& one : candidates) rows_.push_back(one.hit.row);
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  if (vectors_.size() < rows_.size() * stride) vectors_.resize(rows_.size() * stride);
  part.read_vectors(request_.column, rows_, vectors_.data());
  for (Candidate& one : candidates) {
    const auto place = std::lower_bound(rows_.begin(), rows_.end(), one.hit.row) - rows_.begin();
    one.vector = vectors_.data() + static_cast<std::size_t>(place) * stride;
  }
}

void Rescorer::score(const MatrixView& queries, std::vector<Candidate>& candidates) {
  constexpr std::size_t kGrainBytes = std::size_t{1} << 16;
  constexpr std::size_t kThreadBytes = std::size_t{1} << 20;
  const std::size_t stride = queries.stride();
  compute::in_parallel(
      candidates.size(), std::max<std::size_t>(1, kGrainBytes / stride),
      candidates.size() * stride / kThreadBytes + 1, [&](std::size_t first, std::size_t last) {
        if (cancellation_.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
        for (std::size_t i = first; i < last; ++i) {
          Candidate& one = candidates[i];
          one.hit.distance = compute::canonical_distance(
              request_.distance, queries.type, queries.dim, queries.row(one.query), one.vector);
        }
      });
}

}  // namespace warplite::engine
