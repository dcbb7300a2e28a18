// Hits of a group of queries, sorted by query on the device: they are fetched, and taken by threads
// of the host while the GPU searches for the next group.
// Threads: belongs to one search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <system_error>
#include <vector>

#include "gpu/runtime/lane.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {

template <typename Hit>
class HitTaker {
 public:
  // Waits at its end for who takes hits, also when an error ends the search: what they take from
  // and give to must outlive it.
  struct Waiting {
    HitTaker& taker;
    ~Waiting() {
      if (taker.taking_.valid()) taker.taking_.wait();
    }
  };

  explicit HitTaker(Lane& lane) : lane_(lane) {}

  // Takes what the last run found: query i has the hits from sorted[begins[i]] up to
  // sorted[begins[i + 1]].
  void found(std::span<const std::uint32_t> begins, const Hit* sorted) {
    begins_.assign(begins.begin(), begins.end());
    sorted_ = sorted;
  }
  std::size_t queries() const { return begins_.size() - 1; }
  std::size_t total() const { return begins_.back(); }

  // Has take(i, hits of query i) called for all queries, mostly after it returns. What is fetched
  // lies in the lane's incoming memory until finish().
  template <typename Take>
  void take(compute::Cancellation* cancellation, const Take& take) {
    finish();
    const std::size_t total = this->total();
    if (total == 0) return;
    const Hit* const hits = fetch(0, total, cancellation).data();
    const auto take_all = [take, hits, begins = begins_, total] {
      in_parallel(begins.size() - 1, total / kHitsPerThread, [&](std::size_t i) {
        take(i, std::span<const Hit>(hits + begins[i], begins[i + 1] - begins[i]));
      });
    };
    if (total < kHitsPerThread) return take_all();
    try {
      taking_ = std::async(std::launch::async, take_all);
    } catch (const std::system_error&) {
      take_all();  // no more threads: this one does it
    }
  }

  // Fetches some of them. REQUIRES: nobody takes others.
  std::span<const Hit> fetch(std::size_t first, std::size_t count,
                             compute::Cancellation* cancellation) {
    Hit* const hits = lane_.incoming<Hit>(count);
    check(cudaMemcpyAsync(hits, sorted_ + first, count * sizeof(Hit), cudaMemcpyDeviceToHost,
                          lane_.stream()),
          "fetching hits");
    lane_.wait(cancellation);
    return {hits, count};
  }

  // Waits for who takes hits; throws what they threw.
  void finish() {
    if (taking_.valid()) taking_.get();
  }

 private:
  // Hits that are worth a thread of their own.
  static constexpr std::size_t kHitsPerThread = 24 << 10;

  Lane& lane_;
  std::vector<std::uint32_t> begins_;
  const Hit* sorted_ = nullptr;  // device memory
  std::future<void> taking_;
};

}  // namespace warplite::gpu
