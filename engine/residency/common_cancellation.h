// Lets the thread that made it ask for the others, which may not ask the host's cancellation.
// Threads: any.
#pragma once

#include <atomic>
#include <thread>

#include "compute/ops.h"
#include "core/error.h"
#include "core/process/interruption.h"

namespace warplite::engine {

// Searches call this between their steps. Throws Error{kInterrupted}.
inline void ask(compute::Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

class CommonCancellation : public compute::Cancellation {
 public:
  // `real` may be null, and is asked on this thread alone.
  explicit CommonCancellation(compute::Cancellation* real) : real_(real) {}

  bool requested() override {
    const bool asks_itself = std::this_thread::get_id() == caller_ && real_ != nullptr;
    if (asks_itself ? real_->requested() : interruption_requested()) cancelled_ = true;
    return cancelled_;
  }
  void cancel() { cancelled_ = true; }

 private:
  compute::Cancellation* const real_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> cancelled_{false};
};

}  // namespace warplite::engine
