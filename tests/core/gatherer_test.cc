// Searches that meet are run as one, and each gets its own answer.
#include <doctest/doctest.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "compute/devices/gatherer.h"
#include "tests/support/fakes/failing_allocator.h"

using namespace warplite;
using namespace warplite::compute;

namespace {

// A run that answers every query with one hit, whose distance is the query's first element, and
// that can be held up.
class Machine {
 public:
  explicit Machine(std::chrono::milliseconds each = {}) : each_(each) {}

  Status operator()(const Workload& work, HitTable& best) {
    std::unique_lock lock(mutex_);
    sizes_.push_back(work.queries.rows);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    changed_.wait_for(lock, each_, [] { return false; });
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
  const std::chrono::milliseconds each_;  // what a run takes
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
  struct Asked {
    float value;
    std::size_t k = 1, queries = 1;
    CacheKey name = {};  // of rows in a buffer of its own; null: those of everyone
    CacheKey tail = {};  // of rows behind those; null: there are none
  };
  Search(Gatherer& gatherer, Machine& machine, float value)
      : Search(gatherer, machine, Asked{value}) {}
  Search(Gatherer& gatherer, Machine& machine, const Asked& asked)
      : query(asked.value), queries(asked.queries, query),
        best(asked.queries, asked.tail.is_null() ? asked.k : 2) {
    work.queries = {reinterpret_cast<const std::byte*>(queries.data()), asked.queries, 1,
                    ElementType::kFloat32};
    tail.rows = tail.live_rows = 5;
    tail.name = asked.tail;
    work.cancellation = &cancellation;
    block.rows = block.live_rows = 10;
    block.name = asked.name;
    block.vectors = asked.name.is_null() ? reinterpret_cast<const Buffer*>(&machine)
                                         : reinterpret_cast<const Buffer*>(this);
    blocks = {block, tail};
    work.blocks = std::span(blocks).first(asked.tail.is_null() ? 1 : 2);
    thread = std::thread([this, &gatherer, &machine] {
      status = gatherer.nearest(
          work, best, [&](const Workload& all, HitTable& hits) { return machine(all, hits); });
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
  // All of them right.
  std::size_t hits() {
    join();
    const std::span<const Hit> found = best.sorted(0);
    const bool all = std::all_of(found.begin(), found.end(),
                                 [this](const Hit& hit) { return hit.distance == query; });
    return status.ok() && all ? found.size() : 0;
  }
  bool right() {
    join();
    const auto one = [this](std::size_t i) {
      return best.sorted(i).size() == 1 && best.sorted(i)[0].distance == query;
    };
    bool all = status.ok();
    for (std::size_t i = 0; i < queries.size(); ++i) all = all && one(i);
    return all;
  }

  float query;
  std::vector<float> queries;
  Block block, tail;
  std::vector<Block> blocks;
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

// Connections that ask one search after the other, each pass taking its time; all have ended when
// it is made.
struct Crowd {
  Crowd(int connections, int asked, std::chrono::milliseconds pass,
        const std::function<void(int connection, int asked)>& before) {
    block.rows = block.live_rows = 10;
    std::vector<std::thread> threads;
    for (int connection = 0; connection < connections; ++connection) {
      threads.emplace_back([&, connection] {
        for (int i = 0; i < asked; ++i) {
          before(connection, i);
          ask(static_cast<float>(connection * asked + i), pass);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void ask(float query, std::chrono::milliseconds pass) {
    Workload work;
    work.queries = {reinterpret_cast<const std::byte*>(&query), 1, 1, ElementType::kFloat32};
    work.blocks = {&block, 1};
    HitTable best(1, 1);
    const Status status = gatherer.nearest(work, best, [&](const Workload& all, HitTable& hits) {
      ++passes;
      std::this_thread::sleep_for(pass);
      for (std::size_t q = 0; q < all.queries.rows; ++q) {
        float value = 0;
        std::memcpy(&value, all.queries.row(q), sizeof value);
        hits.row(q).push({value, 1, 0, 0});
      }
      return Status{};
    });
    if (!status.ok() || best.sorted(0)[0].distance != query) ++wrong;
  }

  Gatherer gatherer;
  Block block;
  std::atomic<int> passes{0}, wrong{0};
};

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
  Search more(gatherer, machine, {5, PassMember::kFewNearest});
  wait_until_waiting({&second, &third, &fourth, &more});
  machine.release();
  for (Search* search : {&first, &second, &third, &fourth, &more}) CHECK(search->right());
  CHECK(machine.sizes() == Sizes{1, 4});
  CHECK(gatherer.taken_along() == 3);
}

TEST_CASE("gatherer: what cannot join does not wait") {
  Busy busy;
  auto& [gatherer, machine, first] = busy;
  Search many(gatherer, machine, {2, PassMember::kFewNearest + 1});
  machine.wait_for_runs(2);
  Search other_rows(gatherer, machine, {.value = 3, .name = {1, 1}});
  machine.wait_for_runs(3);
  Search batch(gatherer, machine, {.value = 4, .queries = Gatherer::kMostQueries + 1});
  machine.wait_for_runs(4);
  // Each has a queue of its own.
  Search same_rows(gatherer, machine, {.value = 5, .name = {1, 1}});
  Search changed_rows(gatherer, machine, {.value = 6, .name = {1, 2}});
  machine.wait_for_runs(5);
  wait_until_waiting({&same_rows});
  machine.release();
  for (Search* search : {&first, &many, &other_rows, &batch, &same_rows, &changed_rows}) {
    CHECK(search->right());
  }
  CHECK(gatherer.taken_along() == 0);
  CHECK(machine.sizes() == Sizes{1, 1, 1, Gatherer::kMostQueries + 1, 1, 1});
}

TEST_CASE("gatherer: beside a writer each searches its own tail") {
  Gatherer gatherer;
  Machine machine;
  machine.hold();
  const Search::Asked none{1}, newer{.value = 2, .tail = {1, 2}}, older{.value = 3, .tail = {1, 1}};
  Search first(gatherer, machine, none);
  machine.wait_for_runs(1);
  Search second(gatherer, machine, newer), third(gatherer, machine, older);
  Search fourth(gatherer, machine, {.value = 4, .tail = {1, 1}}), fifth(gatherer, machine, none);
  wait_until_waiting({&second, &third, &fourth, &fifth});
  machine.release();
  // The machine answers each call with a hit: the segments with one, the tail with another.
  for (Search* search : {&second, &third, &fourth}) CHECK(search->hits() == 2);
  for (Search* search : {&first, &fifth}) CHECK(search->hits() == 1);
  Sizes sizes = machine.sizes();
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes == Sizes{1, 1, 1, 1, 4});

  // One tail is part of the pass.
  machine.hold();
  Search before(gatherer, machine, none);
  machine.wait_for_runs(6);
  Search sixth(gatherer, machine, older), seventh(gatherer, machine, older);
  wait_until_waiting({&sixth, &seventh});
  machine.release();
  for (Search* search : {&before, &sixth, &seventh}) CHECK(search->hits() == 1);
  CHECK(machine.sizes().back() == 2);
}

TEST_CASE("gatherer: a pass over little memory is not waited for") {
  Gatherer gatherer({.least_bytes = 10 * sizeof(float) + 1});
  Machine machine;
  machine.hold();
  Search first(gatherer, machine, 1), second(gatherer, machine, 2);
  machine.wait_for_runs(2);
  machine.release();
  CHECK(first.right());
  CHECK(second.right());
}

TEST_CASE("gatherer: first come, first served") {
  Busy busy;
  auto& [gatherer, machine, first] = busy;
  // More than one pass takes: each arrives when those before it wait.
  std::vector<std::unique_ptr<Search>> searches;
  for (int i = 0; i < 6; ++i) {
    const std::size_t queries = Gatherer::kMostQueries - static_cast<std::size_t>(i);
    searches.push_back(std::make_unique<Search>(
        gatherer, machine, Search::Asked{.value = static_cast<float>(i + 2), .queries = queries}));
    searches.back()->wait_until_waiting();
  }
  machine.release();
  CHECK(first.right());
  for (const auto& search : searches) CHECK(search->right());
  constexpr std::size_t kEach = Gatherer::kMostQueries;
  CHECK(machine.sizes() == Sizes{1, 4 * kEach - 6, 2 * kEach - 9});
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
  // Again, and now the joint run is interrupted: its leader hears so, the others run together.
  machine.hold();
  Search fourth(gatherer, machine, 4);
  machine.wait_for_runs(machine.sizes().size() + 1);
  Search fifth(gatherer, machine, 5);
  fifth.wait_until_waiting();
  Search sixth(gatherer, machine, 6), seventh(gatherer, machine, 7);
  wait_until_waiting({&sixth, &seventh});
  Sizes expected = machine.sizes();
  for (const std::size_t size : {3, 2}) expected.push_back(size);
  std::thread([&] { machine.release(2); }).join();
  join({&fourth, &fifth, &sixth, &seventh});
  CHECK(fourth.status.kind == ErrorKind::kInterrupted);
  CHECK(fifth.status.kind == ErrorKind::kInterrupted);
  CHECK(sixth.right());
  CHECK(seventh.right());
  CHECK(machine.sizes() == expected);
}

TEST_CASE("gatherer: connections that ask again and again are answered, mostly together") {
  const Crowd crowd(6, 40, std::chrono::milliseconds(1), [](int, int) {});
  CHECK(crowd.wrong == 0);
  CHECK(crowd.passes < 6 * 40 / 2);
  CHECK(crowd.gatherer.taken_along() + static_cast<std::size_t>(crowd.passes) == 6 * 40);
}

TEST_CASE("gatherer: what held up half of the connections once does not keep the halves apart") {
  constexpr int kAsked = 24;
  constexpr std::chrono::milliseconds kPass{20};
  const Crowd crowd(6, kAsked, kPass, [&](int connection, int asked) {
    const bool late = asked == 3 && connection % 2 == 1;
    std::this_thread::sleep_for(late ? kPass / 2 : kPass / 20);
  });
  INFO(crowd.passes.load(), " passes");
  CHECK(crowd.wrong == 0);
  CHECK(crowd.passes < kAsked + kAsked / 2);  // halves that take turns need twice kAsked
}

// All of them were answered at once, so that none waits when the first of them asks again.
TEST_CASE("gatherer: who asks again waits a moment for those it was answered with") {
  Gatherer gatherer;
  Machine machine(std::chrono::milliseconds(400));
  {
    Search first(gatherer, machine, 1);
    machine.wait_for_runs(1);
    Search second(gatherer, machine, 2), third(gatherer, machine, 3);
    first.join();
    Search fourth(gatherer, machine, 4);
  }
  std::vector<std::unique_ptr<Search>> again;
  for (float value : {5.0f, 6.0f, 7.0f}) {
    again.push_back(std::make_unique<Search>(gatherer, machine, value));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const auto& search : again) CHECK(search->right());
  CHECK(machine.sizes() == Sizes{1, 3, 3});
}

#if !defined(_WIN32)
// The child has the memory of the search that runs and of the one that waits, but not their threads.
TEST_CASE("gatherer: a forked child waits for nobody") {
  auto& gatherer = *new Gatherer;  // for good, as those that expect forks are
  gatherer.expect_forks();
  Machine machine;
  machine.hold();
  Search first(gatherer, machine, 1);
  machine.wait_for_runs(1);
  Search second(gatherer, machine, 2);
  second.wait_until_waiting();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    const float query = 3;
    HitTable best(1, 1);
    Workload work = first.work;
    work.cancellation = nullptr;
    work.queries.data = reinterpret_cast<const std::byte*>(&query);
    const Status status = gatherer.nearest(work, best, [](const Workload&, HitTable& hits) {
      hits.row(0).push({3, 3, 0, 0});
      return Status{};
    });
    _exit(status.ok() && best.sorted(0).size() == 1 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  machine.release();
  CHECK(first.right());
  CHECK(second.right());
}
#endif

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
