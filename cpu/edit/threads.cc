#include "cpu/edit/threads.h"

#include <algorithm>

#include "compute/device.h"
#include "compute/metric.h"

namespace warplite::cpu {

EditThreads::EditThreads(const compute::EditWork& work, EditResults& results)
    : work_(work), results_(results), loop_(work.cancellation) {}

void EditThreads::count() const {
  if (work_.counters == nullptr) return;
  for (const auto& comparer : comparers_) {
    if (comparer != nullptr) work_.counters->distances += comparer->evaluated();
  }
}

void EditThreads::run(std::size_t items, std::size_t columns, const Body& body) {
  // So many columns are worth waking a thread; a column takes some 15 ns.
  constexpr std::size_t kThreadColumns = std::size_t{1} << 15;
  const unsigned threads = loop_.begin_with_meanwhile(static_cast<unsigned>(
      std::min<std::size_t>(compute::thread_count(), columns / kThreadColumns + 1)));
  if (comparers_.size() < threads) comparers_.resize(threads);
  loop_.run(threads, items, [&](unsigned thread, std::size_t item) {
    std::unique_ptr<EditComparer>& comparer = comparers_[thread];
    if (!comparer) comparer = std::make_unique<EditComparer>(work_, results_, loop_, thread);
    body(*comparer, item);
  });
}

}  // namespace warplite::cpu
