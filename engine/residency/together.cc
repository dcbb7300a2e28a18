#include "engine/residency/together.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "compute/devices/guarded.h"
#include "core/process/process.h"
#include "engine/residency/common_cancellation.h"

namespace warplite::engine {
namespace {

// All parts but the first. Joins their threads, whatever happens.
class Others {
 public:
  Others(std::size_t count, CommonCancellation& cancellation)
      : cancellation_(cancellation), results_(count) {}
  ~Others() {
    if (threads_.empty()) return;
    cancellation_.cancel();
    join();
  }
  Others(const Others&) = delete;
  Others& operator=(const Others&) = delete;

  // REQUIRES: the body outlives this.
  void start(const PartOfSearch& body) {
    const SignalsBlocked blocked;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      threads_.emplace_back([this, &body, i] {
        results_[i] = compute::guarded([&] { return body(i + 1, &cancellation_); });
        const std::lock_guard lock(mutex_);
        ++ended_;
        one_ended_.notify_one();
      });
    }
  }

  // Waits for them, and goes on asking whether the query is to be given up.
  void finish() {
    constexpr std::chrono::milliseconds kPollInterval{10};
    std::unique_lock lock(mutex_);
    const auto all_ended = [this] { return ended_ == results_.size(); };
    while (!one_ended_.wait_for(lock, kPollInterval, all_ended)) {
      lock.unlock();
      cancellation_.requested();
      lock.lock();
    }
    lock.unlock();
    join();
  }

  const std::vector<Status>& results() const { return results_; }

 private:
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  CommonCancellation& cancellation_;
  std::vector<Status> results_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::size_t ended_ = 0;
};

}  // namespace

std::size_t devices_sharing(std::size_t queries, std::size_t devices, std::size_t least) {
  return std::clamp<std::size_t>(queries / least, 1, std::max<std::size_t>(devices, 1));
}

Status run_together(std::size_t n, compute::Cancellation* cancellation, const PartOfSearch& body,
                    std::size_t& failed) {
  failed = 0;
  const auto first = [&](compute::Cancellation* asked) {
    return n == 0 ? Status{} : compute::guarded([&] { return body(0, asked); });
  };
  if (n < 2) return first(cancellation);
  CommonCancellation common(cancellation);
  Others others(n - 1, common);
  others.start(body);
  if (Status status = first(&common); !status.ok()) return status;
  others.finish();
  for (std::size_t i = 0; i + 1 < n; ++i) {
    failed = i + 1;
    if (!others.results()[i].ok()) return others.results()[i];
  }
  return {};
}

}  // namespace warplite::engine
