// Searches that meet are run as one, and each gets its own answer.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <doctest/doctest.h>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "compute/devices/gatherer.h"
#include "tests/support/fakes/failing_allocator.h"

using namespace warplite;
using namespace warplite::compute;

namespace {

// A run that answers every query with one hit, whose distance is the query's first element, and
// that can be held up.
class Machine {
 public:
  Status operator()(const Workload& work, HitTable& best) {
    std::unique_lock lock(mutex_);
    sizes_.push_back(work.queries.rows);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    if (failures_ > 0) {
      --failures_;
      return {ErrorKind::kInterrupted, "interrupted"};
    }
    for (std::size_t q = 0; q < work.queries.rows; ++q) {
      float first = 0;
      std::memcpy(&first, work.queries.row(q), sizeof first);
      best.row(q).push({first, static_cast<RowId>(first), 0, 0});
    }
    return {};
  }

  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release(int failures = 0) {
    const std::lock_guard lock(mutex_);
    held_ = false;
    failures_ = failures;
    changed_.notify_all();
  }
  void wait_for_runs(std::size_t runs) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sizes_.size() >= runs; });
  }
  std::vector<std::size_t> sizes() {
    const std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int failures_ = 0;
  std::vector<std::size_t> sizes_;
};

class Flag : public Cancellation {
 public:
  bool requested() override {
    asked = true;
    return set;
  }
  std::atomic<bool> set{false}, asked{false};
};

// One caller's search.
struct Search {
  Search(Gatherer& gatherer, Machine& machine, float value, std::size_t k = 1)
      : query(value), best(1, k) {
    work.queries = {reinterpret_cast<const std::byte*>(&query), 1, 1, ElementType::kFloat32};
    work.blocks = {&block, 1};
    work.cancellation = &cancellation;
    block.rows = block.live_rows = 10;
    block.vectors = reinterpret_cast<const Buffer*>(&machine);
    thread = std::thread([this, &gatherer, &machine] {
      status = gatherer.nearest(work, best, [&](const Workload& all, HitTable& hits) {
        return machine(all, hits);
      });
      ended = true;
    });
  }
  ~Search() { join(); }
  void join() {
    if (thread.joinable()) thread.join();
  }
  // Once it waits, it asks whether to go on.
  void wait_until_waiting() {
    while (!cancellation.asked) std::this_thread::yield();
  }
  bool right() {
    join();
    return status.ok() && best.sorted(0).size() == 1 && best.sorted(0)[0].distance == query;
  }

  float query;
  Block block;
  Workload work;
  HitTable best;
  Flag cancellation;
  Status status;
  std::atomic<bool> ended{false};
  std::thread thread;
};

// A search that is held up while it runs, so that those after it wait.
struct Busy {
  Busy() { machine.wait_for_runs(1); }

  Gatherer gatherer;
  Machine machine;
  Search first{gatherer, held(machine), 1};

 private:
  static Machine& held(Machine& machine) {
    machine.hold();
    return machine;
  }
};

using Searches = std::initializer_list<Search*>;

void wait_until_waiting(Searches searches) {
  for (Search* search : searches) search->wait_until_waiting();
}

void join(Searches searches) {
  for (Search* search : searches) search->join();
}

using Sizes = std::vector<std::size_t>;

}  // namespace

TEST_CASE("gatherer: a lone search runs at once, as it is") {
  Gatherer gatherer;
  Machine machine;
  for (float value : {1.0f, 2.0f, 3.0f}) CHECK(Search(gatherer, machine, value).right());
  CHECK(machine.sizes() == Sizes{1, 1, 1});
  CHECK(gatherer.taken_along() == 0);
}

TEST_CASE("gatherer: searches that arrive meanwhile run together") {
  Busy busy;
  auto& [gatherer, machine, first] = busy;
  Search second(gatherer, machine, 2), third(gatherer, machine, 3), fourth(gatherer, machine, 4);
  Search other(gatherer, machine, 5, 2);  // asks for another k: not with them
  wait_until_waiting({&second, &third, &fourth, &other});
  machine.release();
  for (Search* search : {&first, &second, &third, &fourth, &other}) CHECK(search->right());
  const Sizes sizes = machine.sizes();
  CHECK(sizes.size() == 3);
  CHECK(sizes[1] + sizes[2] == 4);
  CHECK(std::max(sizes[1], sizes[2]) == 3);
  CHECK(gatherer.taken_along() == 2);
}

TEST_CASE("gatherer: who is interrupted leaves, and the others stay") {
  Busy busy;
  auto& [gatherer, machine, first] = busy;
  Search leaver(gatherer, machine, 2), stayer(gatherer, machine, 3);
  wait_until_waiting({&leaver, &stayer});
  leaver.cancellation.set = true;
  leaver.join();
  CHECK(leaver.status.kind == ErrorKind::kInterrupted);
  CHECK_FALSE(stayer.ended);
  machine.release();
  CHECK(first.right());
  CHECK(stayer.right());
}

TEST_CASE("gatherer: what stopped one search does not stop those it took along") {
  Busy busy;
  auto& [gatherer, machine, first] = busy;
  Search second(gatherer, machine, 2), third(gatherer, machine, 3);
  wait_until_waiting({&second, &third});
  machine.release();
  join({&first, &second, &third});
  // Again, and now the joint run fails: its leader hears so, the other runs by itself.
  machine.hold();
  Search fourth(gatherer, machine, 4);
  machine.wait_for_runs(machine.sizes().size() + 1);
  Search fifth(gatherer, machine, 5), sixth(gatherer, machine, 6);
  wait_until_waiting({&fifth, &sixth});
  const std::size_t before = machine.sizes().size();
  std::thread([&] { machine.release(2); }).join();
  join({&fourth, &fifth, &sixth});
  CHECK(fourth.status.kind == ErrorKind::kInterrupted);
  CHECK(int{fifth.status.ok()} + int{sixth.status.ok()} == 1);
  CHECK((fifth.right() || sixth.right()));
  CHECK(machine.sizes().size() == before + 2);
}

TEST_CASE("gatherer: whatever allocation fails, the next search has its turn") {
  for (long nth = 0; nth < 60; ++nth) {
    Busy busy;
    auto& [gatherer, machine, first] = busy;
    Search second(gatherer, machine, 2), third(gatherer, machine, 3);
    wait_until_waiting({&second, &third});
    {
      const testing::AllocationFault fault(testing::Allocator::kCpp, nth, false);
      machine.release();
      join({&first, &second, &third});
    }
    int failed = 0;
    for (Search* search : {&first, &second, &third}) {
      if (search->right()) continue;
      CHECK(search->status.kind == ErrorKind::kNoMemory);
      ++failed;
    }
    CHECK(failed <= 1);
    CHECK(Search(gatherer, machine, 4).right());
  }
}
