// What this machine can do at most, measured: the floor under a search's time
// (reading its bytes) and the ceiling over its arithmetic (fused multiply-adds).
// Both use the widest vectors the processor has and all the threads asked for.
// Errors: std::bad_alloc, std::system_error.
#pragma once

#include <cstddef>

namespace warplite::bench {

// The best of `runs` times, in seconds, for reading `bytes` of memory once, split
// evenly over `threads` threads that are already running. The memory is written
// first, on huge pages where the system has them.
double streaming_read_seconds(std::size_t bytes, int threads, int runs);

// Float32 operations a second (a fused multiply-add is two), best of `runs`.
double fma_flops(int threads, int runs);

}  // namespace warplite::bench
