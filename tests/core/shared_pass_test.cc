// Searches that differ in filter, range and k and share a pass find what each finds alone.
#include <doctest/doctest.h>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "compute/devices/gatherer.h"
#include "tests/reference/reference.h"

using namespace warplite;
using namespace warplite::compute;

namespace {

constexpr std::uint32_t kRows = 150;
constexpr std::size_t kSegments = 3, kTails = 2;

using Words = std::vector<std::uint64_t>;

std::vector<HostBlock> host_blocks(const Workload& work) {
  std::vector<HostBlock> blocks;
  for (const Block& block : work.blocks) {
    blocks.push_back({block, reinterpret_cast<const std::byte*>(block.vectors)});
  }
  return blocks;
}

// Runs by the reference, once it may.
class Machine {
 public:
  template <class Results>
  Status operator()(const Workload& work, Results& out) {
    {
      std::unique_lock lock(mutex_);
      sizes_.push_back(work.queries.rows);
      changed_.notify_all();
      const std::size_t number = sizes_.size();
      changed_.wait(lock, [&] { return number < held_from_; });
    }
    if constexpr (std::is_same_v<Results, HitTable>) {
      reference_nearest(work, host_blocks(work), out);
    } else {
      reference_within(work, host_blocks(work), out);
    }
    return {};
  }
  // The run of this number and those after it wait; the others go.
  void hold_from(std::size_t run) {
    const std::lock_guard lock(mutex_);
    held_from_ = run;
    changed_.notify_all();
  }
  void release() { hold_from(SIZE_MAX); }
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
  std::size_t held_from_ = 1;
  std::vector<std::size_t> sizes_;
};

// Vectors of one number.
struct Table {
  explicit Table(std::uint64_t seed) : random(seed), values((kSegments + kTails) * kRows) {
    for (float& value : values) value = static_cast<float>(random() % 1000);
  }
  Block block(std::size_t number) const {
    Block out;
    out.vectors = reinterpret_cast<const Buffer*>(&values[number * kRows]);
    out.rows = out.live_rows = kRows;
    out.id = static_cast<std::uint32_t>(number);
    out.rowids.first = static_cast<RowId>(number * 1000);
    if (number >= kSegments) out.name = {7, number};
    return out;
  }

  std::mt19937_64 random;
  std::vector<float> values;
};

class Flag : public Cancellation {
 public:
  bool requested() override {
    asked = true;
    return set;
  }
  std::atomic<bool> set{false}, asked{false};
};

struct Asked {
  bool within = false;
  std::size_t k = 5, queries = 1;
  DistanceRange range = {};
  unsigned passes = 100;  // of a hundred rows; of one segment none
  std::size_t tail = 0;   // 0: none
};

Asked any_of(std::mt19937_64& random) {
  Asked asked;
  asked.k = 1 + random() % 300;
  asked.queries = 1 + random() % 3;
  if (random() % 2 == 0) asked.range.high = static_cast<double>(random() % 500);
  asked.range.high_open = random() % 2 == 0;
  asked.passes = random() % 3 == 0 ? 100 : 40 + random() % 50;
  asked.tail = random() % (kTails + 1);
  return asked;
}

struct Search {
  Search(Gatherer& gatherer, Machine& machine, Table& table, const Asked& what)
      : asked(what), best(what.queries, what.k), lists(what.queries) {
    for (std::size_t q = 0; q < what.queries; ++q) {
      queries.push_back(static_cast<float>(table.random() % 1000));
    }
    const std::size_t none = table.random() % (kSegments + 3);
    for (std::size_t b = 0; b < kSegments; ++b) add(table, table.block(b), b == none);
    if (what.tail != 0) add(table, table.block(kSegments + what.tail - 1), false);
    work.blocks = blocks;
    work.range = what.range;
    work.queries = {reinterpret_cast<const std::byte*>(queries.data()), queries.size(), 1,
                    ElementType::kFloat32};
    work.cancellation = &cancellation;
    thread = std::thread([this, &gatherer, &machine] {
      const auto run = [&machine](const Workload& all, auto& out) { return machine(all, out); };
      status = asked.within ? gatherer.within(work, lists, run) : gatherer.nearest(work, best, run);
    });
  }
  ~Search() { join(); }
  void join() {
    if (thread.joinable()) thread.join();
  }
  void wait_until_waiting() {
    while (!cancellation.asked) std::this_thread::yield();
  }
  // As the reference finds it alone.
  bool right() {
    join();
    HitTable expected(queries.size(), asked.k);
    HitLists all(queries.size());
    reference_nearest(work, host_blocks(work), expected);
    reference_within(work, host_blocks(work), all);
    bool same = status.ok();
    for (std::size_t q = 0; q < queries.size(); ++q) {
      std::sort(all[q].begin(), all[q].end());
      std::sort(lists[q].begin(), lists[q].end());
      same = same && equal(asked.within ? all[q] : expected.list(q),
                           asked.within ? lists[q] : best.list(q));
    }
    return same;
  }

  const Asked asked;
  std::vector<float> queries;
  std::vector<std::unique_ptr<Words>> words;
  std::vector<Block> blocks;
  Workload work;
  HitTable best;
  HitLists lists;
  Flag cancellation;
  Status status;
  std::thread thread;

 private:
  void add(Table& table, Block block, bool none) {
    if (asked.passes < 100) {
      words.push_back(std::make_unique<Words>((kRows + 63) / 64));
      block.live = words.back()->data();
      block.live_rows = 0;
      for (std::uint32_t row = 0; row < kRows && !none; ++row) {
        const bool lives = table.random() % 100 < asked.passes;
        (*words.back())[row / 64] |= std::uint64_t{lives} << (row % 64);
        block.live_rows += lives;
      }
    }
    blocks.push_back(block);
  }
  static bool equal(std::span<const Hit> a, std::span<const Hit> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hit& x, const Hit& y) {
      return x.distance == y.distance && x.rowid == y.rowid && x.block == y.block && x.row == y.row;
    });
  }
};

// One search that is held up, and those that wait for it.
struct Crowd {
  explicit Crowd(std::uint64_t seed, bool within = false) : table(seed) {
    const Asked asked{.within = within, .range = {.high = 900}};
    first = std::make_unique<Search>(gatherer, machine, table, asked);
    machine.wait_for_runs(1);
  }
  ~Crowd() { machine.release(); }
  void add(const Asked& asked) {
    searches.push_back(std::make_unique<Search>(gatherer, machine, table, asked));
    searches.back()->wait_until_waiting();
  }

  Gatherer gatherer{{.own_terms = true}};
  Machine machine;
  Table table;
  std::unique_ptr<Search> first;
  std::vector<std::unique_ptr<Search>> searches;
};

using Sizes = std::vector<std::size_t>;

}  // namespace

TEST_CASE("shared pass: each search has its filter, its range, its k and its tail") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Crowd crowd(seed, seed % 2 == 0);
    for (int i = 0; i < 6; ++i) {
      Asked asked = any_of(crowd.table.random);
      asked.within = seed % 2 == 0;
      if (asked.within && asked.range.high > 1000) asked.range.high = 300;
      crowd.add(asked);
    }
    crowd.machine.release();
    INFO("seed ", seed);
    CHECK(crowd.first->right());
    for (const auto& search : crowd.searches) CHECK(search->right());
    CHECK(crowd.gatherer.taken_along() == 5);
  }
}

TEST_CASE("shared pass: who leaves takes nothing from those behind it") {
  Crowd crowd(99);
  for (int i = 0; i < 4; ++i) crowd.add({.k = 3, .queries = 2, .passes = 60});
  crowd.machine.hold_from(2);
  crowd.machine.wait_for_runs(2);
  Search& leaver = *crowd.searches[1];
  leaver.cancellation.set = true;
  leaver.join();
  CHECK(leaver.status.kind == ErrorKind::kInterrupted);
  for (const auto& words : leaver.words) std::fill(words->begin(), words->end(), 0);
  crowd.machine.release();
  for (const int i : {0, 2, 3}) CHECK(crowd.searches[static_cast<std::size_t>(i)]->right());
  CHECK(crowd.machine.sizes() == Sizes{1, 8});
}

TEST_CASE("shared pass: what would not gain goes alone") {
  Crowd crowd(5);
  auto& [gatherer, machine, table, first, searches] = crowd;
  std::size_t runs = 1;
  const auto alone = [&](const Asked& asked) {
    searches.push_back(std::make_unique<Search>(gatherer, machine, table, asked));
    machine.wait_for_runs(++runs);
  };
  alone({.passes = 5});                            // few rows: a pass over all takes longer
  alone({.k = PassMember::kManyNearest + 1});      // nominees of so many take much memory
  alone({.range = {.low = 5}});                    // a near row may not count
  alone({.within = true});                         // all rows: nothing is multiplied
  alone({.within = true, .range = {.high = 10}});  // the others want the nearest
  crowd.add({.k = PassMember::kManyNearest, .passes = 50});
  machine.release();
  CHECK(first->right());
  for (const auto& search : searches) CHECK(search->right());
  CHECK(gatherer.taken_along() == 0);
}

TEST_CASE("shared pass: a pass takes as many as make the greatest rate, the others come next") {
  Machine machine;
  Table table(3);
  const auto fours = [](std::size_t queries) { return std::max<std::size_t>(1, queries / 4 * 4); };
  Gatherer gatherer({.own_terms = true, .best_batch = fours});
  Search first(gatherer, machine, table, {});
  machine.wait_for_runs(1);
  std::vector<std::unique_ptr<Search>> searches;
  for (int i = 0; i < 5; ++i) {
    searches.push_back(std::make_unique<Search>(gatherer, machine, table, Asked{}));
    searches.back()->wait_until_waiting();
  }
  machine.release();
  CHECK(first.right());
  for (const auto& search : searches) CHECK(search->right());
  CHECK(machine.sizes() == Sizes{1, 4, 1});
}
