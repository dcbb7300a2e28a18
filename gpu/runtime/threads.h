// Work of the host's own next to a search, on the threads that the host has lent this plug-in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "compute/host/parallel.h"
#include "core/process/interruption.h"

namespace warplite::gpu {

// Calls body(0) … body(n − 1), on up to `useful` threads. What a body throws is thrown here. `poll`,
// if not empty, is called now and then by the caller's thread, also while it waits for the others;
// what it throws ends the work.
template <typename Body>
void in_parallel(std::size_t n, std::size_t useful, const Body& body,
                 const std::function<void()>& poll = {}) {
  struct Asked {
    const std::function<void()>& poll;
    bool requested() const {
      if (poll) poll();
      return false;
    }
  };
  // More gain little, since what they do is to read and write memory.
  constexpr std::size_t kMostThreads = 8, kRangesPerThread = 4;
  const std::size_t threads = std::clamp<std::size_t>(useful, 1, kMostThreads);
  const std::size_t grain = threads == 1 && !poll ? n : n / (threads * kRangesPerThread) + 1;
  Asked asked{poll};
  const Interruptible scope(&asked);
  compute::in_parallel(n, grain, threads, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) body(i);
  });
}

}  // namespace warplite::gpu
