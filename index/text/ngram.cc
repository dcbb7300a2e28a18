#include "index/text/ngram.h"

#include <algorithm>
#include <bit>
#include <span>

#include "core/error.h"
#include "core/interruption.h"
#include "index/text/keyword_hash.h"

namespace warplite::index {
namespace {

using compute::Keyword;

constexpr std::uint32_t kGramBits = 56, kPointBits = 21;

using Gram = std::span<const std::uint32_t>;

std::vector<Gram> sorted_grams(const CodePoints& points, std::uint32_t n) {
  std::vector<Gram> grams;
  for (std::size_t i = 0; i + n <= points.size(); ++i) grams.emplace_back(&points[i], n);
  interruptible_sort(grams.begin(), grams.end(), [](const Gram& a, const Gram& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  });
  return grams;
}

// Many new ones: memory that comes anew takes its time.
template <typename Slot>
void clear(std::vector<Slot>& slots, std::size_t count) {
  constexpr std::size_t kStep = std::size_t{1} << 18;
  slots.clear();
  slots.reserve(count);
  while (slots.size() < count) {
    poll_interruption();
    slots.resize(std::min(count, slots.size() + kStep));
  }
}

}  // namespace

NgramEncoder::NgramEncoder(const NgramOptions& options)
    : options_(options), bits_(std::min(kGramBits / options.n, kPointBits)) {
  WARP_CHECK(options.n >= 1);
}

void NgramEncoder::encode(std::string_view text, std::vector<Keyword>& out) {
  read_characters(text, options_.fold, options_.normalization, points_);
  collect_grams();
  clear(occurrences_, std::bit_ceil(2 * grams_.size() + 1));
  const unsigned number_bits = 63 - options_.n * bits_;
  out.clear();
  out.reserve(grams_.size());
  SparsePoll poll;
  for (const std::uint64_t gram : grams_) {
    poll();
    const std::uint64_t number = number_of(gram);
    if (!is_hashed(gram) && number >> number_bits == 0) {
      out.push_back(gram << number_bits | number);
      continue;
    }
    KeywordHash hash;
    hash.add(gram);
    hash.add(number);
    out.push_back(hash.keyword());
  }
}

// How many like it came before.
std::uint64_t NgramEncoder::number_of(std::uint64_t gram) {
  const std::size_t mask = occurrences_.size() - 1;
  std::size_t slot = (gram * 0x9e3779b97f4a7c15u >> 32) & mask;
  while (occurrences_[slot].count != 0 && occurrences_[slot].gram != gram) slot = (slot + 1) & mask;
  occurrences_[slot].gram = gram;
  return occurrences_[slot].count++;
}

// Packed, or hashed where a character has more than bits_.
void NgramEncoder::collect_grams() {
  const std::size_t n = options_.n;
  const std::uint64_t mask = (std::uint64_t{1} << (n * bits_)) - 1;
  grams_.clear();
  std::uint64_t packed = 0;
  std::size_t fitting = 0;  // characters that fit, up to this one
  SparsePoll poll;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    poll();
    packed = (packed << bits_ | points_[i]) & mask;
    fitting = points_[i] >> bits_ == 0 ? fitting + 1 : 0;
    if (i + 1 >= n) grams_.push_back(fitting >= n ? packed : hash_of(i + 1 - n));
  }
}

std::uint64_t NgramEncoder::hash_of(std::size_t first) const {
  KeywordHash hash;
  for (std::size_t i = first; i < first + options_.n; ++i) hash.add(points_[i]);
  return hash.keyword();
}

std::uint32_t common_ngrams(std::string_view a, std::string_view b, const NgramOptions& options) {
  CodePoints points_a, points_b;
  read_characters(a, options.fold, options.normalization, points_a);
  read_characters(b, options.fold, options.normalization, points_b);
  const std::vector<Gram> x = sorted_grams(points_a, options.n);
  const std::vector<Gram> y = sorted_grams(points_b, options.n);
  std::uint32_t common = 0;
  SparsePoll poll;
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    poll();
    const auto order = std::lexicographical_compare_three_way(x[i].begin(), x[i].end(),
                                                              y[j].begin(), y[j].end());
    common += order == 0 ? 1 : 0;
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
  return common;
}

bool certifies(std::uint32_t outside, std::size_t length, std::uint32_t n, std::size_t distance) {
  // outside < length − n + 1 − distance · n, without going below zero.
  return std::uint64_t{outside} + n + std::uint64_t{distance} * n < std::uint64_t{length} + 1;
}

}  // namespace warplite::index
