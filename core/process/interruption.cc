#include "core/process/interruption.h"

#include "core/error.h"

namespace warplite {
namespace {

thread_local const Interruptible* innermost = nullptr;

}  // namespace

Interruptible::Interruptible(void* asked, Ask ask) : asked_(asked), ask_(ask), outer_(innermost) {
  innermost = this;
}

Interruptible::~Interruptible() { innermost = outer_; }

bool interruption_requested() {
  return innermost != nullptr && innermost->asked_ != nullptr && innermost->ask_(innermost->asked_);
}

void poll_interruption() {
  if (interruption_requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
}

}  // namespace warplite
