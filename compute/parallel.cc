#include "compute/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "compute/device.h"

namespace warplite::compute {
namespace {

std::atomic<RunOnWorkers> workers{nullptr};

}  // namespace

void set_workers(RunOnWorkers run) { workers = run; }

void in_parallel(std::size_t n, std::size_t grain, std::size_t threads,
                 const std::function<void(std::size_t, std::size_t)>& body) {
  if (n == 0) return;
  const std::size_t ranges = (n + grain - 1) / grain;
  threads = std::min(threads, ranges);
  if (threads > 1) threads = std::min<std::size_t>(threads, thread_count());
  const RunOnWorkers run = workers;
  if (threads <= 1 || run == nullptr) return body(0, n);

  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  run(static_cast<unsigned>(threads), [&](unsigned) {
    for (std::size_t i = next++; i < ranges; i = next++) {
      try {
        body(i * grain, std::min(n, (i + 1) * grain));
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        failure = std::current_exception();
        next = ranges;
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace warplite::compute
