#include "compute/devices/startup.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "core/process/process.h"

namespace warplite::compute {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A process that ends waits this long for a start under way: what a driver does meanwhile must not
// meet the end of the process, which crashed then; nor may a driver that hangs hold it up for ever.
// Nine processes that started at once took seven seconds.
constexpr milliseconds kPatienceAtExit{30000};
// A wait notices within this time that the query was interrupted.
constexpr milliseconds kPollInterval{20};

const std::vector<Startup::Found> kNone;

// The start that the end of the process waits for.
std::atomic<Startup*> running{nullptr};

void await_running() {
  Startup* startup = running;
  if (startup != nullptr && threads_reach_exit()) startup->wait(kPatienceAtExit, nullptr);
}

// When it ends, a process runs what libraries have registered, the last one first: a driver that is
// being loaded loses what it stands on before anything registered here is called. Even before all
// that end the variables of the thread that ends the process, and that is the main one, mostly.
struct MainThread {
  ~MainThread() {
    if (on_main_thread()) await_running();
  }
};

void await_running_when_this_thread_ends() {
  thread_local const MainThread main;
  static_cast<void>(&main);
}

}  // namespace

Startup& Startup::create(Open open) { return *new Startup(std::move(open)); }

Startup::Startup(Open open) : open_(std::move(open)) {
  lock_across_forks(mutex_);
  await_running_when_this_thread_ends();
}

bool Startup::forked() const { return stage_ != Stage::kIdle && forks() != forks_; }

void Startup::begin() {
  if (stage_ == Stage::kEnded) return;
  await_running_when_this_thread_ends();
  if (stage_ != Stage::kIdle) return;
  const std::lock_guard lock(mutex_);
  if (stage_ != Stage::kIdle) return;
  forks_ = forks();
  stage_ = Stage::kStarting;
  const SignalsBlocked blocked;
  try {
    std::thread([this] { run(); }).detach();
    running = this;
    static const int registered = std::atexit(await_running);
    static_cast<void>(registered);
  } catch (const std::exception& error) {
    stage_ = Stage::kEnded;
    reason_ = std::string("no thread to start it: ") + error.what();
  }
}

void Startup::run() {
  std::vector<Found> found;
  std::string reason = find(found);
  const std::lock_guard lock(mutex_);
  reason_ = std::move(reason);
  found_ = std::move(found);
  stage_ = Stage::kEnded;
  ended_.notify_all();
}

std::string Startup::find(std::vector<Found>& found) const {
  try {
    std::string reason =
        open_([&](Device* device) { found.push_back({device, device->describe().name}); });
    if (!found.empty() || !reason.empty()) return reason;
    return "no device was found";
  } catch (const std::exception& error) {
    found.clear();
    return error.what();
  }
}

bool Startup::wait(milliseconds patience, Cancellation* cancellation) {
  const Clock::time_point end = Clock::now() + patience;
  std::unique_lock lock(mutex_);
  while (stage_ == Stage::kStarting && !forked()) {
    const Clock::time_point now = Clock::now();
    if (now >= end) return false;
    const auto step = cancellation != nullptr ? Clock::duration(kPollInterval) : patience;
    ended_.wait_until(lock, std::min(end, now + step));
    if (cancellation == nullptr) continue;
    lock.unlock();
    if (cancellation->requested()) return false;
    lock.lock();
  }
  return stage_ != Stage::kIdle;
}

const std::vector<Startup::Found>& Startup::devices() const {
  return stage_ == Stage::kEnded && !forked() ? found_ : kNone;
}

std::string Startup::state() const {
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::kEnded && found_.empty()) return reason_;
  if (forked()) return "the process was forked after the start";
  if (stage_ == Stage::kEnded) return "ready";
  return stage_ == Stage::kIdle ? "not started" : "starting";
}

}  // namespace warplite::compute
