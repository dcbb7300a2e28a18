#include "engine/residency/uploader.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "core/process/process.h"
#include "core/system.h"

namespace warplite::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRefusalLasts{10};
// How long a process that ends waits for the upload of one block.
constexpr std::chrono::seconds kPatienceAtExit{5};

}  // namespace

Uploader& Uploader::instance() {
  static Uploader& uploader = *new Uploader;
  return uploader;
}

Uploader::Uploader() { lock_across_forks(mutex_); }

void Uploader::request(compute::Device& device, std::vector<Item> items) {
  if (items.empty()) return;
  const std::lock_guard lock(mutex_);
  if (stopping_ || refused(device)) return;
  const auto same_device = [&](const Job& job) { return job.device == &device; };
  const auto under_way = [&](const Item& item) {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
      return same_device(job) &&
             std::any_of(job.items.begin(), job.items.end(),
                         [&](const Item& other) { return other.key == item.key; });
    });
  };
  if (std::any_of(items.begin(), items.end(), under_way) || !start(device)) return;
  jobs_.push_back({&device, std::move(items)});
  wake_.notify_all();
}

// Says whether the device has a thread. REQUIRES: the lock. A forked child has none yet.
bool Uploader::start(compute::Device& device) {
  if (forks_ != forks()) {
    jobs_.clear();
    served_.clear();
    forks_ = forks();
  }
  if (std::find(served_.begin(), served_.end(), &device) != served_.end()) return true;
  const SignalsBlocked blocked;
  try {
    served_.reserve(served_.size() + 1);
    std::thread([this, &device] { work(device); }).detach();
  } catch (const std::exception&) {
    return false;
  }
  served_.push_back(&device);
  // Registered once a device is there, so that it runs before its driver ends.
  static const int registered = std::atexit([] { instance().stop(); });
  static_cast<void>(registered);
  return true;
}

// The one that is under way, or the next. REQUIRES: the lock.
std::list<Uploader::Job>::iterator Uploader::first_job(const compute::Device& device) {
  return std::find_if(jobs_.begin(), jobs_.end(),
                      [&](const Job& job) { return job.device == &device; });
}

void Uploader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (forks_ != forks() || !threads_reach_exit()) return;
  }
  wait_idle(kPatienceAtExit);
}

bool Uploader::wait_idle(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, patience, [this] { return jobs_.empty(); });
}

void Uploader::work(compute::Device& device) {
  os::lower_priority();  // searches on the CPU go first
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return first_job(device) != jobs_.end(); });
    const auto job = first_job(device);
    lock.unlock();
    const bool done = upload(*job);
    lock.lock();
    try {
      if (!done) refusals_.push_back({&device, Clock::now() + kRefusalLasts});
    } catch (const std::bad_alloc&) {
      // It is merely tried again sooner.
    }
    std::list<Job> finished;
    finished.splice(finished.begin(), jobs_, job);
    if (jobs_.empty()) idle_.notify_all();
    lock.unlock();
    finished.clear();  // may free the last hold on vectors
    lock.lock();
  }
}

// Everything copied is held to the end, so that a table that is too large for the device does not
// push out its own beginning.
bool Uploader::upload(const Job& job) {
  std::vector<std::shared_ptr<const compute::Buffer>> held;
  try {
    for (const Item& item : job.items) {
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return true;
      }
      std::shared_ptr<const compute::Buffer> buffer;
      const Status status = Residency::instance().buffer(*job.device, item.key, item.vectors,
                                                         &buffer, nullptr, item.extent);
      if (!status.ok()) return false;
      held.push_back(std::move(buffer));
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

// REQUIRES: the lock.
bool Uploader::refused(const compute::Device& device) {
  const auto now = Clock::now();
  refusals_.remove_if([&](const Refusal& refusal) { return refusal.until <= now; });
  return std::any_of(refusals_.begin(), refusals_.end(),
                     [&](const Refusal& refusal) { return refusal.device == &device; });
}

}  // namespace warplite::engine
