// Gathers searches that meet: while one runs, those that arrive for the same rows wait together, and
// the first of them then takes the others along, as one batch (metric-range-gpu §V-B asks for queries
// in batches; where every row is read for a query, the others then cost next to nothing). A lone search
// never waits, nor does one for other rows. First come, first served; who comes while others wait is
// taken along with them, or goes after them. Beside a writer every connection may see another tail: they
// share the pass over the segments, and each searches its own tail. Where the device takes terms of
// queries' own, searches with different filters, ranges and k share a pass, too. Connections that just
// had an answer mostly ask again: the next pass gives them a moment, as long as that is of use, since one
// pass for all takes far less time than two that have half of them each in turn.
// Who has something else to do meanwhile (compute/host/meanwhile.h) goes alone: others do not wait for that.
// Threads: nearest() may be called from several threads at once; that is its purpose.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "compute/devices/shared_pass.h"
#include "compute/ops.h"
#include "core/error.h"
#include "core/process/process.h"

namespace warplite::compute {

class Gatherer {
 public:
  // Searches with more queries than this are batches already and run at once.
  static constexpr std::size_t kMostQueries = 64;
  // Queries of one pass.
  static constexpr std::size_t kMostGathered = 256;
  struct Options {
    // To wait for others pays where a pass reads so many bytes of vectors at least.
    std::size_t least_bytes = 0;
    // The device takes terms of queries' own (OwnTerms).
    bool own_terms = false;
    // Says of how many queries that wait a pass takes most a second; null: of all.
    std::size_t (*best_batch)(std::size_t queries) = nullptr;
  };

  Gatherer() : Gatherer(Options{}) {}
  explicit Gatherer(const Options& options) : options_(options) {}

  // Call this for one that lives as long as the process, which others may fork at any time.
  void expect_forks();

  using Run = std::function<Status(const Workload& work, HitTable& best)>;
  using RunWithin = std::function<Status(const Workload& work, HitLists& out)>;

  // Does what Device::nearest() does, by calling `run` for this search, or for it together with
  // others. An exception becomes a Status; the next search has its turn all the same.
  Status nearest(const Workload& work, HitTable& best, const Run& run);
  // The same for Device::within().
  Status within(const Workload& work, HitLists& out, const RunWithin& run);

  // Searches that others took along, for statistics and tests.
  std::size_t taken_along() const;

 private:
  enum class State {
    kWaiting,
    kLeads,  // it is the next to run
    kTaken,  // its answer comes with another's
    kDone,
    kAlone,      // the search it was part of failed: it runs by itself
    kFailed,     // its part of the answer found no memory
    kAbandoned,  // interrupted; `work` and `best` are gone
  };
  struct Request : PassMember {
    using PassMember::PassMember;

    // Sets the state, under the gatherer's lock; notify after that was let go.
    void become(State next);
    // Waits a moment for the state to be one that ends the waiting. Says whether it is; needs no lock of
    // the gatherer's, for which those who were answered together would queue.
    bool is_over();

    State state = State::kWaiting;   // changed under the gatherer's lock and this one
    bool has_segments_only = false;  // its tail is left to it
    std::mutex mutex;
    std::condition_variable changed;  // of who waits, or leads and waits for others
  };
  using Requests = std::list<std::shared_ptr<Request>>;
  using Clock = std::chrono::steady_clock;
  // Says whether the next pass is to wait for others.
  struct Habit {
    Clock::duration took = {};  // the last pass
    std::size_t asked = 0;      // searches that were in it, or waited when it ended
    unsigned in_a_hurry = 0;    // passes that wait for nobody, since it was of no use
    unsigned in_vain = 0;       // how many those were after the last wait
  };
  // Searches for the same rows: one runs, the others wait.
  struct Group {
    std::shared_ptr<Request> leader;
    Requests waiting = {};  // in the order in which they came
    Habit habit = {};
  };
  using Groups = std::list<Group>;
  // What is left of a group all of whose searches were answered at once, for when they ask again.
  struct Past {
    PassMember::Fingerprint vectors;
    Habit habit;
    Clock::time_point ended;
  };
  struct Turn;
  using Pass = std::function<Status(const Workload& work, const Answers& to)>;

  Status search(const Workload& work, const Answers& to, const Pass& run);
  bool gathers(const Workload& work, const Answers& to) const;
  Status gather(const Workload& work, const Answers& to, const Pass& run);
  Groups::iterator find(const Request& request);
  Habit recall(const Request& request);
  void remember(const Group& group);
  bool wait_for_turn(Group& group, const std::shared_ptr<Request>& request,
                     std::unique_lock<std::mutex>& lock, Status& status);
  std::size_t wanted(const Group& group) const;
  void wait_for_others(Group& group, std::unique_lock<std::mutex>& lock);
  static Status finish(const Request& request, const Pass& run);
  Status lead(Group& group, Requests& members, std::unique_lock<std::mutex>& lock, const Pass& run);
  void take_along(Group& group, Requests& members);
  Status run_together(Group& group, Requests& members, std::unique_lock<std::mutex>& lock,
                      const Pass& run);
  static void hand_out(Requests& members, SharedPass& pass);
  static void send_back(Group& group, Requests& members);

  void forget_other_processes();

  const Options options_;
  mutable std::mutex mutex_;
  unsigned forks_ = forks();
  Groups groups_;          // that run
  std::vector<Past> past_;  // the latest last
  std::size_t taken_along_ = 0;
};

}  // namespace warplite::compute
