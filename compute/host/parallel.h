// Work of the host's own, next to searches, on the threads that searches on the CPU share.
// Threads: may be called from any. Errors: what a body throws is thrown here, and
// Error{kInterrupted}: between ranges, and while this thread waits for the others, it is asked for
// (core/process/interruption.h). A body whose ranges take long asks as well, on whichever thread it runs.
#pragma once

#include <cstddef>
#include <functional>

namespace warplite::compute {

// Calls body(first, last) for ranges of `grain` that make up 0 … n, on up to `threads` threads
// (and thread_count()), this one included.
void in_parallel(std::size_t n, std::size_t grain, std::size_t threads,
                 const std::function<void(std::size_t, std::size_t)>& body);

// Calls body(0) on this thread and body(1) … body(n − 1) on others as they become free, which is
// not waited for; and `waiting` every few milliseconds while it waits for those that have begun.
// Neither throws.
using RunOnWorkers = void (*)(unsigned n, const std::function<void(unsigned)>& body,
                              const std::function<void()>& waiting);
// Sets whose threads do the work; without any, all is done on the caller's.
void set_workers(RunOnWorkers run);
RunOnWorkers workers();  // null: none were set

}  // namespace warplite::compute
