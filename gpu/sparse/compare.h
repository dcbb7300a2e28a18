// Compares stored values, which decide what is found, on threads of the host.
// Threads: one search's, which shares its work out. Errors: Error{kInterrupted}.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "compute/sparse.h"
#include "compute/sparse/results.h"

namespace warplite::gpu {

class SparseCompare {
 public:
  SparseCompare(const compute::SparseWork& work, compute::SparseResults& results)
      : work_(work), results_(results), caller_(std::this_thread::get_id()) {}

  // Some of a tile's rows, and what is known of them.
  struct Rows {
    const compute::SparseTile& tile;
    std::uint32_t begin, end;
  };
  // Which rows have an entry in common with the query, a bit for each from `begin` on; and those that
  // are not to be looked at, in order.
  struct Known {
    const std::uint32_t* marks;
    std::span<const std::uint32_t> done;
  };
  struct Nominee {
    const compute::SparseTile* tile;
    std::uint32_t row;
    double most;  // its S is at most this
  };

  // Calls body(i) for all i < n on threads, as many as comparing so many values is worth.
  void for_each(std::size_t n, std::size_t values, const std::function<void(std::size_t)>& body);

  // Each of these is for one body. Rows by what is known of them, best first where the k nearest are
  // looked for.
  void nominees(std::uint32_t query, std::span<const Nominee> nominees);
  void all(std::uint32_t query, const Rows& rows);
  // Those that have nothing in common are at distance 0.
  void others(std::uint32_t query, const Rows& rows, const Known& known);

 private:
  void check();
  void compare(std::uint32_t query, const compute::SparseTile& tile, std::uint32_t row,
               std::vector<Hit>& hits) const;
  void add(std::uint32_t query, std::vector<Hit>& hits, std::size_t compared);

  const compute::SparseWork& work_;
  compute::SparseResults& results_;
  const std::thread::id caller_;
  std::atomic<bool> stop_{false};
};

}  // namespace warplite::gpu
