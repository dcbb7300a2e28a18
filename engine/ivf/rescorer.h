// Candidates that codes or signatures nominated, by their vectors. Where these do not fit into
// memory only those of candidates are read. Threads: as the view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/ops.h"
#include "engine/residency/common_cancellation.h"
#include "engine/search/search.h"
#include "engine/table/view.h"

namespace warplite::engine {

class Rescorer {
 public:
  // kWhole: vectors of a part come into memory together. kRows: those of candidates alone.
  enum class Read { kWhole, kRows };
  Rescorer(const View& view, const SearchRequest& request, Read read)
      : view_(view),
        request_(request),
        read_(read),
        cancellation_(request.cancellation),
        by_part_(view.parts()) {}

  // `hit` lacks its distance.
  void add(std::size_t query, const Hit& hit) { by_part_[hit.block].push_back({query, hit}); }
  // Adds all of them.
  void add(compute::HitTable& candidates);
  // Pushes what was added to the row of its query, and forgets it. Throws Error{kInterrupted}.
  void run(const MatrixView& queries, compute::HitTable& best);

 private:
  struct Candidate {
    std::size_t query;
    Hit hit;
    const std::byte* vector = nullptr;
  };

  void read_rows(const Part& part, std::size_t stride, std::vector<Candidate>& candidates);
  void score(const MatrixView& queries, std::vector<Candidate>& candidates);

  const View& view_;
  const SearchRequest& request_;
  const Read read_;
  CommonCancellation cancellation_;
  std::vector<std::vector<Candidate>> by_part_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::byte> vectors_;
};

}  // namespace warplite::engine
