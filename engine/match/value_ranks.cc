#include "engine/match/value_ranks.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace warplite::engine {
namespace {

constexpr std::uint32_t kNone = 0xffffffffu;

// Numbers the distinct values of rows as they come, by hashing; `get(row)` is a row's value.
template <class Get>
class Numbering {
 public:
  explicit Numbering(Get get) : get_(get), slots_(kFirstSlots, kNone) {}

  std::uint32_t number_of(std::uint32_t row) {
    const auto value = get_(row);
    std::size_t slot = home(value);
    for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
      if (get_(firsts_[slots_[slot]]) == value) return slots_[slot];
    }
    slots_[slot] = static_cast<std::uint32_t>(firsts_.size());
    firsts_.push_back(row);
    if (2 * firsts_.size() > slots_.size()) grow();
    return static_cast<std::uint32_t>(firsts_.size() - 1);
  }
  // The first row of each value.
  const std::vector<std::uint32_t>& firsts() const { return firsts_; }

 private:
  static constexpr std::size_t kFirstSlots = 1024;

  template <class Value>
  std::size_t home(const Value& value) const {
    // The library's hash of a number is the number; a product alone leaves some series together.
    std::uint64_t mixed = std::hash<Value>()(value);
    mixed = (mixed ^ mixed >> 32) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 29) * 0xd6e8feb86659fd93u;
    return static_cast<std::size_t>(mixed ^ mixed >> 32) & (slots_.size() - 1);
  }
  void grow() {
    slots_.assign(2 * slots_.size(), kNone);
    for (std::uint32_t number = 0; number < firsts_.size(); ++number) {
      std::size_t slot = home(get_(firsts_[number]));
      while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = number;
    }
  }

  Get get_;
  std::vector<std::uint32_t> slots_;  // numbers
  std::vector<std::uint32_t> firsts_;
};

template <class Get>
Column rank_by(const Column& column, const Get& get, std::uint16_t* ranks) {
  const auto rows = static_cast<std::uint32_t>(column.size());
  Numbering<Get> numbering(get);
  std::vector<std::uint32_t> numbers(rows, kNone);
  std::uint32_t null_row = kNone;
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (column.is_null(row)) {
      null_row = row;
    } else {
      numbers[row] = numbering.number_of(row);
    }
  }
  const std::vector<std::uint32_t>& firsts = numbering.firsts();
  std::vector<std::uint32_t> order(firsts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return get(firsts[a]) < get(firsts[b]);
  });
  std::vector<std::uint16_t> rank_of(order.size());
  std::vector<std::uint32_t> value_rows;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    rank_of[order[rank]] = static_cast<std::uint16_t>(rank);
    value_rows.push_back(firsts[order[rank]]);
  }
  const auto null_rank = static_cast<std::uint16_t>(order.size());
  if (null_row != kNone) value_rows.push_back(null_row);
  for (std::uint32_t row = 0; row < rows; ++row) {
    ranks[row] = numbers[row] == kNone ? null_rank : rank_of[numbers[row]];
  }
  Column values(column.type());
  values.gather(column, value_rows.data(), value_rows.size());
  return values;
}

}  // namespace

Column rank_values(const Column& column, std::uint16_t* ranks) {
  WARP_CHECK(column.size() <= 65536);
  switch (column.type()) {
    case PlainType::kReal:
      return rank_by(column, [&](std::uint32_t row) { return column.reals()[row]; }, ranks);
    case PlainType::kText:
      return rank_by(column, [&](std::uint32_t row) { return column.text(row); }, ranks);
    default:
      return rank_by(column, [&](std::uint32_t row) { return column.integers()[row]; }, ranks);
  }
}

}  // namespace warplite::engine
