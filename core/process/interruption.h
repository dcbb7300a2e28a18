// Whether what this thread works for is to end. Every loop of the host's that may take long asks,
// however deep it lies, and nobody has to hand it anything. (Devices, which may be plug-ins, are
// handed a compute::Cancellation.)
// Threads: what is said holds for one thread; compute/host/parallel.h takes it to its helpers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace warplite {

// Has poll_interruption() on this thread ask for as long as it lives; the innermost one counts.
class Interruptible {
 public:
  // `asked` has bool requested(), is asked on this thread alone and outlives this; null: nobody is.
  template <typename Asked>
  explicit Interruptible(Asked* asked)
      : Interruptible(asked, [](void* it) { return static_cast<Asked*>(it)->requested(); }) {}
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  friend bool interruption_requested();
  using Ask = bool (*)(void*);
  Interruptible(void* asked, Ask ask);

  void* const asked_;
  const Ask ask_;
  const Interruptible* const outer_;
};

bool interruption_requested();
// Throws Error{kInterrupted} when it is. Call it every few microseconds, or less often.
void poll_interruption();

// Asks once in `every` steps, for loops whose steps take nanoseconds.
class SparsePoll {
 public:
  explicit SparsePoll(std::uint32_t every = 16384) : every_(every), left_(every) {}
  void operator()() {
    if (--left_ != 0) return;
    left_ = every_;
    poll_interruption();
  }

 private:
  std::uint32_t every_;
  std::uint32_t left_;
};

// std::sort() that asks. Once it has thrown, values may be twice there, or not at all.
template <typename Iterator, typename Less = std::less<>>
void interruptible_sort(Iterator first, Iterator last, const Less& less = {}) {
  SparsePoll poll;
  std::sort(first, last, [&](const auto& a, const auto& b) {
    poll();
    return less(a, b);
  });
}

}  // namespace warplite
