// search_shares(): each share on its device, in groups when not all of it fits at once.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "compute/devices/guarded.h"
#include "core/process/process.h"
#include "engine/residency/common_cancellation.h"
#include "engine/search/device_set.h"
#include "engine/search/multi_device.h"

namespace warplite::engine {
namespace {

// Everything that the shares of a search have in common.
struct Task {
  const Selection& rows;
  compute::Workload work;  // lacks its blocks
};

// The blocks of one share, as far as the device has room, then the next ones.
class ShareSearch {
 public:
  ShareSearch(const Share& share, const Task& task, Outcome& outcome)
      : share_(share), device_(*share.device), rows_(task.rows), work_(task.work),
        outcome_(outcome) {
    work_.queries.data += share.first_query * work_.queries.stride();
    work_.queries.rows = share.queries;
  }

  Status run() {
    for (const SearchBlock* block : share_.blocks) {
      ask(work_.cancellation);
      std::shared_ptr<const compute::Buffer> buffer;
      Status status = place_block(device_, *block, buffer);
      if (status.kind == ErrorKind::kNoMemory && !held_.empty()) {
        // Blocks already searched may go, and then there is room.
        if (Status searched = search(); !searched.ok()) return searched;
        status = place_block(device_, *block, buffer);
      }
      if (!status.ok()) return status;
      workset_.add(*block, rows_, buffer.get());
      held_.push_back(std::move(buffer));
    }
    return search();
  }

 private:
  Status search() {
    Status status;
    if (!workset_.blocks().empty()) {
      work_.blocks = workset_.blocks();
      status = outcome_.add(device_, work_);
    }
    workset_.clear();
    held_.clear();
    return status;
  }

  const Share& share_;
  compute::Device& device_;
  const Selection& rows_;
  compute::Workload work_;
  Outcome& outcome_;
  Workset workset_;
  std::vector<std::shared_ptr<const compute::Buffer>> held_;
};

Status run_share(const Share& share, const Task& task, Outcome& outcome) {
  return compute::guarded([&] { return ShareSearch(share, task, outcome).run(); });
}

// The other shares, each on a thread. Joins them, whatever happens.
class Others {
 public:
  Others(const SharePlan& plan, CommonCancellation& cancellation)
      : plan_(plan), cancellation_(cancellation), results_(plan.shares.size() - 1) {}
  ~Others() {
    if (threads_.empty()) return;
    cancellation_.cancel();
    join();
  }
  Others(const Others&) = delete;
  Others& operator=(const Others&) = delete;

  // REQUIRES: the task outlives this.
  void start(const Task& task, const Outcome& outcome) {
    const SignalsBlocked blocked;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const Share& share = plan_.shares[i + 1];
      results_[i].outcome = outcome.share(share.queries);
      threads_.emplace_back([this, &share, &task, &result = results_[i]] {
        result.status = run_share(share, task, *result.outcome);
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

  Status merge_into(Outcome& outcome, compute::Device*& failed) {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      failed = plan_.shares[i + 1].device;
      if (!results_[i].status.ok()) return results_[i].status;
      outcome.merge(*results_[i].outcome, plan_.shares[i + 1].first_query);
    }
    return {};
  }

 private:
  struct Result {
    Status status;
    std::unique_ptr<Outcome> outcome;
  };

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const SharePlan& plan_;
  CommonCancellation& cancellation_;
  std::vector<Result> results_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::size_t ended_ = 0;
};

}  // namespace

Status search_shares(const SharePlan& plan, const Selection& rows, const compute::Workload& work,
                     Outcome& outcome, compute::Device*& failed) {
  const Share& first = plan.shares.front();
  failed = first.device;
  Task task{rows, work};
  if (plan.shares.size() == 1) return run_share(first, task, outcome);
  CommonCancellation cancellation(work.cancellation);
  task.work.cancellation = &cancellation;
  Others others(plan, cancellation);
  others.start(task, outcome);
  const std::unique_ptr<Outcome> mine = outcome.share(first.queries);
  Status status = run_share(first, task, *mine);
  if (!status.ok()) return status;
  others.finish();
  if (status = others.merge_into(outcome, failed); status.ok()) outcome.merge(*mine, first.first_query);
  return status;
}

}  // namespace warplite::engine
