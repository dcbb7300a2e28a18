#include "index/text/ngram.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "core/process/interruption.h"
#include "index/text/keyword_hash.h"

namespace warplite::index {
namespace {

using compute::Keyword;

constexpr std::uint32_t kGramBits = 56, kPointBits = 21;

using Gram = std::span<const std::uint32_t>;

bool is_before(const Gram& a, const Gram& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

// The different grams of a text in order, and how often each occurs.
struct GramCounts {
  std::vector<Gram> grams;
  std::vector<std::uint32_t> counts;

  GramCounts(const CodePoints& points, std::uint32_t n) {
    for (std::size_t i = 0; i + n <= points.size(); ++i) grams.emplace_back(&points[i], n);
    interruptible_sort(grams.begin(), grams.end(), is_before);
    std::size_t different = 0;
    for (const Gram& gram : grams) {
      if (different == 0 || is_before(grams[different - 1], gram)) {
        grams[different++] = gram;
        counts.push_back(0);
      }
      ++counts.back();
    }
    grams.resize(different);
  }
};

}  // namespace

NgramEncoder::NgramEncoder(const NgramOptions& options)
    : options_(options), bits_(std::min(kGramBits / options.n, kPointBits)) {
  WARP_CHECK(options.n >= 1);
}

// Grams become keywords where they are: a query may be long.
void NgramEncoder::encode(std::string_view text, std::vector<Keyword>& out) {
  read_characters(text, options_.fold, options_.normalization, points_);
  collect_grams(out);
  interruptible_sort(out.begin(), out.end());
  const unsigned number_bits = 63 - options_.n * bits_;
  std::uint64_t last = 0, number = 0;  // of those like it that came before
  SparsePoll poll;
  for (std::size_t i = 0; i < out.size(); ++i) {
    poll();
    const std::uint64_t gram = out[i];
    number = i != 0 && gram == last ? number + 1 : 0;
    last = gram;
    if (!is_hashed(gram) && number >> number_bits == 0) {
      out[i] = gram << number_bits | number;
      continue;
    }
    KeywordHash hash;
    hash.add(gram);
    hash.add(number);
    out[i] = hash.keyword();
  }
}

// Packed, or hashed where a character has more than bits_.
void NgramEncoder::collect_grams(std::vector<std::uint64_t>& grams) const {
  const std::size_t n = options_.n;
  const std::uint64_t mask = (std::uint64_t{1} << (n * bits_)) - 1;
  grams.clear();
  if (points_.size() >= n) grams.reserve(points_.size() - n + 1);
  std::uint64_t packed = 0;
  std::size_t fitting = 0;  // characters that fit, up to this one
  SparsePoll poll;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    poll();
    packed = (packed << bits_ | points_[i]) & mask;
    fitting = points_[i] >> bits_ == 0 ? fitting + 1 : 0;
    if (i + 1 >= n) grams.push_back(fitting >= n ? packed : hash_of(i + 1 - n));
  }
}

std::uint64_t NgramEncoder::hash_of(std::size_t first) const {
  KeywordHash hash;
  for (std::size_t i = first; i < first + options_.n; ++i) hash.add(points_[i]);
  return hash.keyword();
}

std::uint32_t common_ngrams(std::string_view a, std::string_view b, const NgramOptions& options) {
  CodePoints shorter, longer;
  read_characters(a, options.fold, options.normalization, shorter);
  read_characters(b, options.fold, options.normalization, longer);
  if (shorter.size() > longer.size()) shorter.swap(longer);
  GramCounts left(shorter, options.n);
  std::uint32_t common = 0;
  SparsePoll poll(1024);
  for (std::size_t i = 0; i + options.n <= longer.size(); ++i) {
    poll();
    const Gram gram(&longer[i], options.n);
    const auto at = std::lower_bound(left.grams.begin(), left.grams.end(), gram, is_before);
    if (at == left.grams.end() || is_before(gram, *at)) continue;
    std::uint32_t& count = left.counts[static_cast<std::size_t>(at - left.grams.begin())];
    if (count == 0) continue;
    --count;
    ++common;
  }
  return common;
}

bool certifies(std::uint32_t outside, std::size_t length, std::uint32_t n, std::size_t distance) {
  // outside < length − n + 1 − distance · n, without going below zero.
  return std::uint64_t{outside} + n + std::uint64_t{distance} * n < std::uint64_t{length} + 1;
}

}  // namespace warplite::index
