// Gathers searches that meet: while one runs, those that arrive wait together, and whoever goes
// next takes along all that ask the same rows, as one batch (metric-range-gpu §V-B asks for
// queries in batches; on a device that reads every row for a query, the others then cost next
// to nothing). A lone search never waits.
// Threads: nearest() may be called from several threads at once; that is its purpose.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "compute/ops.h"
#include "core/error.h"

namespace warplite::compute {

class Gatherer {
 public:
  // Searches with more queries than this are batches already and run at once.
  static constexpr std::size_t kMostQueries = 64;
  // Queries taken along.
  static constexpr std::size_t kMostGathered = 256;

  using Run = std::function<Status(const Workload& work, HitTable& best)>;

  // Does what Device::nearest() does, by calling `run` for this search, or for it together with
  // others. An exception becomes a Status; the next search has its turn all the same.
  Status nearest(const Workload& work, HitTable& best, const Run& run);

  // Searches that others took along, for statistics and tests.
  std::size_t taken_along() const;

 private:
  enum class State {
    kWaiting,
    kTaken,      // its answer comes with another's
    kDone,
    kAlone,      // the search it was part of failed: it runs by itself
    kFailed,     // its part of the answer found no memory
    kAbandoned,  // interrupted; `work` and `best` are gone
  };
  struct Request {
    const Workload* work;
    HitTable* best;
    std::size_t queries;
    State state = State::kWaiting;
  };
  using Requests = std::vector<std::shared_ptr<Request>>;
  struct Batch;
  struct Turn;

  Status gather(const Workload& work, HitTable& best, const Run& run);
  bool wait_for_turn(const std::shared_ptr<Request>& request, std::unique_lock<std::mutex>& lock,
                     Status& status);
  Requests take_along(const std::shared_ptr<Request>& leader);
  Status run_together(const Requests& members, std::unique_lock<std::mutex>& lock,
                      const Run& run);
  static bool together(const Request& a, const Request& b);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Request>> waiting_;
  bool running_ = false;
  std::size_t taken_along_ = 0;
};

}  // namespace warplite::compute
