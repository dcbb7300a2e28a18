// The count priority queue, c-PQ, of papers/genie-2018 §III-C, for one query: rows are counted one
// match at a time in counters of as few bits as a count may need, and only those that may be among
// the k best enter a hash table. When all matches are counted, the k-th largest count is one less
// than the threshold (Theorem III.1), and nobody has sorted or even looked through all counters.
// The CPU's search counts otherwise (cpu/match/match.h); this is the paper's way, to compare.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warplite::bench {

// One counter per row, `bits` wide, packed into words; none straddles two.
class BitmapCounter {
 public:
  // Counts to `most`, in as many bits as that has. REQUIRES: 1 ≤ most < 2³²
  BitmapCounter(std::size_t rows, std::uint32_t most);

  std::size_t rows() const { return rows_; }
  unsigned bits() const { return bits_; }
  std::uint32_t operator[](std::size_t row) const;
  // Adds one, and returns the count. Throws Error{kLimit} rather than count beyond `most`.
  std::uint32_t increment(std::size_t row);

 private:
  std::size_t rows_;
  std::uint32_t most_;
  unsigned bits_;
  std::size_t per_word_;
  std::vector<std::uint64_t> words_;
};

// Decides which counts are of interest: ZipperArray and AuditThreshold.
class Gate {
 public:
  // REQUIRES: k ≥ 1
  Gate(std::size_t k, std::uint32_t most) : k_(k), reached_(std::size_t{most} + 2) {}

  // AT: the least count that fewer than k rows have reached.
  std::uint32_t threshold() const { return threshold_; }
  // ZA[count], 1 … most: how many rows have reached it, but no more than k.
  std::size_t reached(std::uint32_t count) const { return reached_[count]; }

  // A row reaches `count`. REQUIRES: count ≥ threshold()
  void pass(std::uint32_t count) {
    if (reached_[count] < k_) ++reached_[count];
    while (reached_[threshold_] >= k_) ++threshold_;
  }

 private:
  std::size_t k_;
  std::vector<std::size_t> reached_;  // reached_[most + 1] stays 0, where the threshold stops
  std::uint32_t threshold_ = 1;
};

// Rows and their counts, by Robin Hood hashing, in which entries that count less than AT − 1 have
// expired and give way to any other (§III-C2). Fewer than 2k entries have not.
class CandidateTable {
 public:
  struct Entry {
    std::uint32_t row;
    std::uint32_t count;  // 0: none was ever here
  };

  explicit CandidateTable(std::size_t k);

  // Enters the row, or its new count. REQUIRES: as many live entries as Algorithm 1 makes.
  void put(std::uint32_t row, std::uint32_t count, std::uint32_t threshold);
  const std::vector<Entry>& entries() const { return slots_; }

 private:
  std::size_t home(std::uint32_t row) const;
  std::size_t age(std::size_t slot, std::uint32_t row) const;
  Entry* find(std::uint32_t row);

  std::vector<Entry> slots_;
  unsigned shift_;
  std::size_t longest_ = 0;  // age that an entry ever had
};

class CountQueue {
 public:
  // No row matches more than `most` times. REQUIRES: k ≥ 1, 1 ≤ most < 2³², rows < 2³²
  CountQueue(std::size_t rows, std::size_t k, std::uint32_t most);

  // A match (Algorithm 1).
  void add(std::uint32_t row);

  // Rows with the largest counts, largest first, ties by row; at most k, none that matched nothing.
  std::vector<CandidateTable::Entry> best() const;

  const BitmapCounter& counter() const { return counter_; }
  const Gate& gate() const { return gate_; }
  const CandidateTable& table() const { return table_; }

 private:
  std::size_t k_;
  BitmapCounter counter_;
  Gate gate_;
  CandidateTable table_;
};

}  // namespace warplite::bench
