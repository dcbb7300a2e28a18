#include "core/process/background.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/process/interruption.h"
#include "core/process/process.h"

namespace warplite {
namespace {

// How long a process that ends waits for work that was told to end.
constexpr std::chrono::seconds kPatienceAtExit{5};

// What all threads of this kind share. It lives as long as the process.
struct Common {
  std::mutex mutex;  // of everything that is not atomic here and in states
  std::condition_variable all_ended;  // for the end of the process alone
  std::size_t under_way = 0;
  unsigned forked = forks();  // when those were begun
  std::atomic<bool> ending{false};

  Common() { lock_across_forks(mutex); }

  static Common& instance() {
    static Common& common = *new Common;
    return common;
  }

  // REQUIRES: the lock. A child has none of its parent's threads.
  void leave_parent() {
    if (forked == forks()) return;
    forked = forks();
    under_way = 0;
  }
};

// What is registered for the end of the process, perhaps twice.
void end_all() {
  Common& common = Common::instance();
  common.ending = true;
  if (!threads_reach_exit()) return;
  std::unique_lock lock(common.mutex);
  common.leave_parent();
  common.all_ended.wait_for(lock, kPatienceAtExit, [&] { return common.under_way == 0; });
}

}  // namespace

struct Background::State {
  explicit State(std::function<void()> given) : work(std::move(given)) {}

  bool requested() const { return told || Common::instance().ending; }

  void run() {
    const Interruptible scope(this);
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // what it holds goes while its owner still waits
    Common& common = Common::instance();
    const std::lock_guard lock(common.mutex);
    ended = true;
    --common.under_way;
    done.notify_all();
    if (common.ending) common.all_ended.notify_all();
  }

  std::function<void()> work;
  std::exception_ptr failure;
  std::atomic<bool> told{false};
  bool ended = false;
  // Its own: a condition that a thread of the parent waits for when it forks is of no use to a
  // child.
  std::condition_variable done;
  const unsigned forked = forks();
};

Background::Background(std::function<void()> work)
    : state_(std::make_shared<State>(std::move(work))) {
  static const int registered = std::atexit(end_all);
  static_cast<void>(registered);
  Common& common = Common::instance();
  const std::lock_guard lock(common.mutex);
  common.leave_parent();
  const SignalsBlocked blocked;
  std::thread([state = state_] { state->run(); }).detach();
  ++common.under_way;
}

Background::~Background() {
  state_->told = true;
  while (is_here() && !wait(std::chrono::hours(1))) {
  }
}

bool Background::is_here() const { return state_->forked == forks(); }

bool Background::wait(std::chrono::milliseconds patience) {
  if (!is_here()) return false;
  Common& common = Common::instance();
  std::unique_lock lock(common.mutex);
  return state_->done.wait_for(lock, patience, [&] { return state_->ended; });
}

void Background::rethrow() const {
  if (state_->failure) std::rethrow_exception(state_->failure);
}

void Background::end_before_drivers() {
  static const int registered = std::atexit(end_all);
  static_cast<void>(registered);
}

}  // namespace warplite
