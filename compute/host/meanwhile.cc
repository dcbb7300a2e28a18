#include "compute/host/meanwhile.h"

#include <utility>

namespace warplite::compute {
namespace {

thread_local Meanwhile* innermost = nullptr;

}  // namespace

Meanwhile::Meanwhile(std::function<void()> work)
    : work_(std::move(work)), outer_(std::exchange(innermost, this)) {}

Meanwhile::~Meanwhile() { innermost = outer_; }

void Meanwhile::finish() {
  if (failure_) std::rethrow_exception(failure_);
  if (std::exchange(begun_, true)) return;
  try {
    work_();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

bool Meanwhile::is_pending() { return innermost != nullptr && !innermost->begun_; }

void Meanwhile::run_pending() {
  if (is_pending()) innermost->finish();
}

}  // namespace warplite::compute
