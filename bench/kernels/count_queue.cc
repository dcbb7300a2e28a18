#include "bench/kernels/count_queue.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "core/error.h"

namespace warplite::bench {

BitmapCounter::BitmapCounter(std::size_t rows, std::uint32_t most)
    : rows_(rows),
      most_(most),
      bits_(static_cast<unsigned>(std::bit_width(most))),
      per_word_(64 / std::max(bits_, 1u)),
      words_((rows + per_word_ - 1) / per_word_) {
  WARP_CHECK(most >= 1);
}

std::uint32_t BitmapCounter::operator[](std::size_t row) const {
  const std::uint64_t word = words_[row / per_word_] >> (row % per_word_ * bits_);
  return static_cast<std::uint32_t>(word & ((std::uint64_t{1} << bits_) - 1));
}

std::uint32_t BitmapCounter::increment(std::size_t row) {
  const std::uint32_t count = (*this)[row];
  if (count == most_) {
    throw Error(ErrorKind::kLimit,
                "a row matches more than " + std::to_string(most_) + " times");
  }
  words_[row / per_word_] += std::uint64_t{1} << (row % per_word_ * bits_);
  return count + 1;
}

// Twice as many slots as entries that may be live, so that probes stay short.
CandidateTable::CandidateTable(std::size_t k) : slots_(std::bit_ceil(4 * k)) {
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots_.size()));
}

std::size_t CandidateTable::home(std::uint32_t row) const {
  return static_cast<std::size_t>((row + std::uint64_t{1}) * 0x9e3779b97f4a7c15u >> shift_);
}

std::size_t CandidateTable::age(std::size_t slot, std::uint32_t row) const {
  return (slot - home(row)) & (slots_.size() - 1);
}

// A slot that was ever taken never becomes empty, so none lies between an entry and its home.
CandidateTable::Entry* CandidateTable::find(std::uint32_t row) {
  std::size_t slot = home(row);
  for (std::size_t age = 0; age <= longest_; ++age, slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].count == 0) return nullptr;
    if (slots_[slot].row == row) return &slots_[slot];
  }
  return nullptr;
}

void CandidateTable::put(std::uint32_t row, std::uint32_t count, std::uint32_t threshold) {
  if (Entry* known = find(row)) {
    known->count = count;
    return;
  }
  Entry entry{row, count};
  std::size_t slot = home(row);
  for (std::size_t own = 0;; ++own, slot = (slot + 1) & (slots_.size() - 1)) {
    Entry& there = slots_[slot];
    longest_ = std::max(longest_, own);
    if (there.count == 0 || there.count + 1 < threshold) {  // none, or expired
      there = entry;
      return;
    }
    const std::size_t other = age(slot, there.row);
    if (other < own) {  // it has come less far from its home: it moves on instead
      std::swap(entry, there);
      own = other;
    }
  }
}

CountQueue::CountQueue(std::size_t rows, std::size_t k, std::uint32_t most)
    : k_(k), counter_(rows, most), gate_(k, most), table_(std::min(k, rows + 1)) {
  WARP_CHECK(k >= 1);
}

void CountQueue::add(std::uint32_t row) {
  const std::uint32_t count = counter_.increment(row);
  if (count < gate_.threshold()) return;
  table_.put(row, count, gate_.threshold());
  gate_.pass(count);
}

std::vector<CandidateTable::Entry> CountQueue::best() const {
  // MC_k = AT − 1: what counts more is in the table, and there are fewer than k of those.
  const std::uint32_t least = gate_.threshold() - 1;
  std::vector<CandidateTable::Entry> best;
  for (const CandidateTable::Entry& entry : table_.entries()) {
    if (entry.count > least) best.push_back(entry);
  }
  std::sort(best.begin(), best.end(), [](const auto& a, const auto& b) {
    return a.count != b.count ? a.count > b.count : a.row < b.row;
  });
  // The paper breaks ties at random; here they come from the counters, by row.
  for (std::uint32_t row = 0; least > 0 && best.size() < k_ && row < counter_.rows(); ++row) {
    if (counter_[row] == least) best.push_back({row, least});
  }
  return best;
}

}  // namespace warplite::bench
