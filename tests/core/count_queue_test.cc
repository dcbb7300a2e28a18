#include "bench/kernels/count_queue.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <vector>

#include "core/error.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

using Random = std::mt19937_64;
using Entries = std::map<std::uint32_t, std::uint32_t>;

Entries entries(const CountQueue& queue) {
  Entries all;
  for (const CandidateTable::Entry& entry : queue.table().entries()) {
    if (entry.count == 0) continue;
    CHECK(all.emplace(entry.row, entry.count).second);  // each row once
  }
  return all;
}

std::vector<std::uint32_t> zipper(const CountQueue& queue, std::uint32_t most) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 1; i <= most; ++i) {
    all.push_back(static_cast<std::uint32_t>(queue.gate().reached(i)));
  }
  return all;
}

struct Counted {
  std::uint32_t row, count;
  friend bool operator==(const Counted&, const Counted&) = default;
};

std::vector<Counted> best_of(const std::vector<std::uint32_t>& counts, std::size_t k) {
  std::vector<Counted> all;
  for (std::uint32_t row = 0; row < counts.size(); ++row) {
    if (counts[row] > 0) all.push_back({row, counts[row]});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Counted& a, const Counted& b) { return a.count > b.count; });
  if (all.size() > k) all.resize(k);
  return all;
}

std::vector<Counted> best_of(const CountQueue& queue) {
  std::vector<Counted> all;
  for (const CandidateTable::Entry& entry : queue.best()) all.push_back({entry.row, entry.count});
  return all;
}

// What must hold after every match, and after the last (Lemma III.1, Theorem III.1).
void check(const CountQueue& queue, const std::vector<std::uint32_t>& counts, std::size_t k,
           std::uint32_t most) {
  for (std::uint32_t row = 0; row < counts.size(); ++row) {
    CHECK(queue.counter()[row] == counts[row]);
  }
  const std::uint32_t threshold = queue.gate().threshold();
  const auto reached = [&](std::uint32_t count) {
    return static_cast<std::size_t>(
        std::count_if(counts.begin(), counts.end(),
                      [&](std::uint32_t other) { return other >= count; }));
  };
  for (std::uint32_t count = 1; count <= most; ++count) {
    // Nobody counts any more who reaches what k have reached.
    CHECK(queue.gate().reached(count) == (count < threshold ? k : reached(count)));
  }
  CHECK(reached(threshold) < k);
  if (threshold > 1) CHECK(reached(threshold - 1) >= k);
  const std::vector<Counted> expected = best_of(counts, k);
  CHECK(best_of(queue) == expected);
  if (expected.size() == k) CHECK(expected.back().count == threshold - 1);
  entries(queue);
}

}  // namespace

TEST_CASE("count queue: Example III.1 of the paper, step by step") {
  constexpr std::uint32_t kO1 = 0, kO2 = 1, kO3 = 2;
  CountQueue queue(3, 1, 3);
  CHECK(queue.counter().bits() == 2);
  const auto expect = [&](std::uint32_t threshold, const std::vector<std::uint32_t>& za,
                          const std::vector<std::uint32_t>& counts, const Entries& table) {
    CHECK(queue.gate().threshold() == threshold);
    CHECK(zipper(queue, 3) == za);
    for (std::uint32_t row = 0; row < 3; ++row) CHECK(queue.counter()[row] == counts[row]);
    CHECK(entries(queue) == table);
  };
  expect(1, {0, 0, 0}, {0, 0, 0}, {});
  // (A, [1, 2])
  queue.add(kO1);
  expect(2, {1, 0, 0}, {1, 0, 0}, {{kO1, 1}});
  queue.add(kO2);
  queue.add(kO3);
  expect(2, {1, 0, 0}, {1, 1, 1}, {{kO1, 1}});
  // (B, [1, 1])
  queue.add(kO2);
  expect(3, {1, 1, 0}, {1, 2, 1}, {{kO1, 1}, {kO2, 2}});
  // (C, [2, 3])
  queue.add(kO2);
  expect(4, {1, 1, 1}, {1, 3, 1}, {{kO1, 1}, {kO2, 3}});
  queue.add(kO3);
  expect(4, {1, 1, 1}, {1, 3, 2}, {{kO1, 1}, {kO2, 3}});
  CHECK(best_of(queue) == std::vector<Counted>{{kO2, 3}});
}

TEST_CASE("count queue: counts of any order, against a sort") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const std::size_t rows = 1 + random() % 60;
    const std::size_t k = 1 + random() % (seed % 5 == 0 ? 90 : 8);
    const std::uint32_t most = 1 + static_cast<std::uint32_t>(random() % 40);
    CountQueue queue(rows, k, most);
    std::vector<std::uint32_t> counts(rows);
    const std::uint64_t matches = random() % (rows * most / 2 + 2);
    for (std::uint64_t i = 0; i < matches; ++i) {
      // Some rows match more than others.
      const auto row = static_cast<std::uint32_t>(
          random() % 3 == 0 ? random() % rows : random() % rows * (random() % rows) / rows);
      if (counts[row] == most) continue;
      ++counts[row];
      queue.add(row);
      if (i % 16 == 0) check(queue, counts, k, most);
    }
    check(queue, counts, k, most);
  }
}

TEST_CASE("count queue: many rows that pass the gate one after another") {
  // Each row overtakes the one before: entries expire all the time.
  constexpr std::size_t kRows = 3000, kK = 5;
  constexpr std::uint32_t kMost = 3000;
  CountQueue queue(kRows, kK, kMost);
  std::vector<std::uint32_t> counts(kRows);
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t i = 0; i <= row / 2; ++i) {
      ++counts[row];
      queue.add(row);
    }
  }
  check(queue, counts, kK, kMost);
  CHECK(queue.table().entries().size() == 32);
}

TEST_CASE("count queue: counters of every width") {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    const auto most = static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
    constexpr std::size_t kRows = 131;
    BitmapCounter counter(kRows, most);
    CHECK(counter.bits() == bits);
    CHECK(BitmapCounter(kRows, most - (bits > 1 ? most / 2 - 1 : 0)).bits() == bits);
    Random random(bits);
    std::vector<std::uint32_t> counts(kRows);
    for (int i = 0; i < 20000; ++i) {
      const std::size_t row = random() % 4 == 0 ? 7 : random() % kRows;
      if (counts[row] == most) {
        CHECK_THROWS_AS(counter.increment(row), Error);
      } else {
        CHECK(counter.increment(row) == ++counts[row]);
      }
    }
    for (std::size_t row = 0; row < kRows; ++row) CHECK(counter[row] == counts[row]);
  }
}
