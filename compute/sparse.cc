#include "compute/sparse.h"

#include <algorithm>
#include <bit>

namespace warplite::compute {
namespace {

constexpr std::uint32_t kFree = 0xffffffff;

}  // namespace

SparseQuery::SparseQuery(const char* bytes) {
  SparseReader reader(bytes);
  entries_.reserve(reader.left());
  while (reader.left() != 0) entries_.push_back(reader.next());
  end_ = reader.end();
  // An entry has two to four pairs, so that few that are not there are looked for in a second one.
  const std::size_t pairs = std::bit_ceil(std::max<std::size_t>(2 * entries_.size(), 2));
  shift_ = 32 - static_cast<unsigned>(std::countr_zero(pairs));
  pairs_.assign(pairs, {{kFree, kFree}, {0, 0}});
  for (const SparseEntry& entry : entries_) {
    std::size_t at = home(entry.index);
    while (pairs_[at].index[1] != kFree) at = (at + 1) & (pairs - 1);
    const std::size_t place = pairs_[at].index[0] == kFree ? 0 : 1;
    pairs_[at].index[place] = entry.index;
    pairs_[at].value[place] = entry.value;
  }
}

// Whether a row's index is the query's, too, nobody can foresee; so both places of its pair are looked at
// without a branch, and what is not there counts as 0, which changes no sum.
double SparseQuery::distance(const char* bytes) const {
  double sum = 0;
  for (SparseReader reader(bytes); reader.left() != 0;) {
    const SparseEntry entry = reader.next();
    const auto bits_where = [&](const Pair& pair, std::size_t place) {
      const std::uint32_t mask = pair.index[place] == entry.index ? ~std::uint32_t{0} : 0;
      return std::bit_cast<std::uint32_t>(pair.value[place]) & mask;
    };
    std::size_t at = home(entry.index);
    const Pair* pair = &pairs_[at];
    std::uint32_t bits = bits_where(*pair, 0) | bits_where(*pair, 1);
    while (pair->index[1] != kFree && bits == 0) [[unlikely]] {
      at = (at + 1) & (pairs_.size() - 1);
      pair = &pairs_[at];
      bits = bits_where(*pair, 0) | bits_where(*pair, 1);
    }
    sum += static_cast<double>(std::bit_cast<float>(bits)) * static_cast<double>(entry.value);
  }
  return sum == 0 ? 0.0 : -sum;
}

}  // namespace warplite::compute
