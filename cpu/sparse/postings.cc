#include "cpu/sparse/postings.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/metric.h"
#include "cpu/runtime/ask_for.h"
#include "cpu/runtime/cpu_buffer.h"

namespace warplite::cpu {
namespace {

using compute::kMostSparseUnits;
using compute::kSparseRange;
using compute::SparseResults;
using compute::SparseTile;

// Columns that are added between looks at whether a range can still hold a hit.
constexpr std::size_t kColumnsAtOnce = 3;
// Candidates that are worth a look at which of them can be dropped.
constexpr std::size_t kLeastCut = 128;

std::size_t words(std::uint32_t rows) { return (std::size_t{rows} + 63) / 64; }
bool test(const std::vector<std::uint64_t>& bits, std::uint32_t row) {
  return (bits[row / 64] >> row % 64 & 1) != 0;
}
void set(std::vector<std::uint64_t>& bits, std::uint32_t row) {
  bits[row / 64] |= std::uint64_t{1} << row % 64;
}

}  // namespace

PostingSearch::Postings PostingSearch::postings_of(const SparseTile& tile) {
  return Postings(CpuBuffer::of(tile.postings).data());
}

PostingSearch::PostingSearch(const compute::SparseWork& work, SparseResults& results,
                             ItemLoop& loop, unsigned thread)
    : work_(work), results_(results), loop_(loop), thread_(thread), kernels_(sparse_kernels()),
      places_(kSparseRange) {}

bool PostingSearch::search(const SparseTile& tile, std::size_t q,
                           std::span<const Upcoming> upcoming) {
  loop_.check(thread_);
  query_ = q;
  const Postings postings = postings_of(tile);
  std::swap(plan_, next_);
  if (plan_.tile != &tile || plan_.query != q) find_lists(tile, q, plan_);
  look_ahead(upcoming);
  if (!set_scale(postings.shape().widest)) return false;
  compared_.assign(words(tile.rows), 0);
  hits_.clear();
  const double floor = std::max(1.0, floor_of(results_.limit(q)));
  if (floor <= kMostSparseUnits) {
    floor_ = static_cast<std::int16_t>(floor);
    candidates_.clear();
    cut_at_ = 2 * results_.k() + kLeastCut;
    add_lists(postings);
    bound_ranges(postings.shape().padded_ranges());
    search_ranges(tile, postings);
    compare_candidates(tile);
  }
  if (!is_done()) compare_others(tile, postings);
  add_hits();
  if (work_.counters != nullptr) work_.counters->indexed += tile.live_rows;
  return true;
}

void PostingSearch::find_lists(const SparseTile& tile, std::size_t q, Plan& plan) const {
  plan.tile = &tile;
  plan.query = q;
  plan.columns.clear();
  plan.lists.clear();
  const Postings postings = postings_of(tile);
  for (const SparseEntry& entry : work_.queries[q].entries()) {
    if (entry.value == 0) continue;
    const double weight = std::abs(static_cast<double>(entry.value));
    const bool negative = entry.value < 0;
    find_list(postings, 2 * entry.index, weight, negative, plan);
    if (postings.shape().negative != 0) {
      find_list(postings, 2 * entry.index + 1, weight, !negative, plan);
    }
  }
  std::sort(plan.columns.begin(), plan.columns.end(), [](const List& a, const List& b) {
    return a.taken_off != b.taken_off ? b.taken_off : a.each > b.each;
  });
}

// What a search reads is all over its tile: where to look for lists, what is there, and then they.
void PostingSearch::look_ahead(std::span<const Upcoming> upcoming) {
  const auto bucket_of = [](const Postings& postings, const SparseEntry& entry) {
    const std::uint32_t bucket = 2 * entry.index >> postings.shape().shift;
    return postings.buckets() + std::min(bucket, compute::kSparseBuckets - 1);
  };
  if (upcoming.size() > 2) {
    const Postings postings = postings_of(*upcoming[2].tile);
    for (const SparseEntry& entry : work_.queries[upcoming[2].query].entries()) {
      __builtin_prefetch(bucket_of(postings, entry));
    }
  }
  if (upcoming.size() > 1) {
    const Postings postings = postings_of(*upcoming[1].tile);
    for (const SparseEntry& entry : work_.queries[upcoming[1].query].entries()) {
      const std::uint32_t* const bucket = bucket_of(postings, entry);
      for (const std::uint32_t list : {bucket[0], bucket[1]}) {  // many lie in two lines
        __builtin_prefetch(postings.list_keys().data() + list);
        __builtin_prefetch(postings.list_steps() + list);
        __builtin_prefetch(postings.begins() + list);
      }
    }
  }
  if (!upcoming.empty()) {
    find_lists(*upcoming[0].tile, upcoming[0].query, next_);
    const Postings postings = postings_of(*next_.tile);
    for (const List& list : next_.lists) {
      ask_for_lines(postings.places() + list.begin, postings.places() + list.end);
      ask_for_lines(postings.impacts() + list.begin, postings.impacts() + list.end);
    }
    for (const List& list : next_.columns) {
      ask_for_lines(postings.column(list.begin), postings.column(list.begin) + kSparseRange);
    }
  }
}

void PostingSearch::find_list(const Postings& postings, std::uint32_t key, double weight,
                              bool taken_off, Plan& plan) {
  const auto columns = postings.column_keys(), lists = postings.list_keys();
  const auto column = std::lower_bound(columns.begin(), columns.end(), key);
  if (column != columns.end() && *column == key) {
    const auto i = static_cast<std::uint32_t>(column - columns.begin());
    const double each = weight * static_cast<double>(postings.column_steps()[i]);
    plan.columns.push_back({i, 0, each, 0, taken_off});
    return;
  }
  const std::uint32_t bucket = key >> postings.shape().shift;
  if (bucket >= compute::kSparseBuckets) return;
  const auto begin = lists.begin() + postings.buckets()[bucket];
  const auto end = lists.begin() + postings.buckets()[bucket + 1];
  const auto list = std::lower_bound(begin, end, key);
  if (list == end || *list != key) return;
  const auto i = static_cast<std::size_t>(list - lists.begin());
  const double each = weight * static_cast<double>(postings.list_steps()[i]);
  plan.lists.push_back({postings.begins()[i], postings.begins()[i + 1], each, 0, taken_off});
}

// Says whether counters can tell rows apart.
bool PostingSearch::set_scale(std::uint32_t widest) {
  double most = 0, least = 0;
  std::uint32_t added = 0;
  const auto each_list = [this](const auto& visit) {
    for (List& list : plan_.columns) visit(list);
    for (List& list : plan_.lists) visit(list);
  };
  each_list([&](const List& list) {
    (list.taken_off ? least : most) += compute::kMostSparseImpact * list.each;
    added += list.taken_off ? 0 : 1;
  });
  const auto lists = static_cast<std::uint32_t>(plan_.lists.size() + plan_.columns.size());
  if (std::min(lists, widest) > compute::kMostSparseLists) return false;
  scale_ = compute::sparse_scale(most, least, added, lists, widest);
  if (scale_.unit == 0) return true;
  each_list([&](List& list) { list.weight = scale_.weight(list.each, list.taken_off); });
  return scale_.serves();
}

// Returns the counter below which a row is farther than `distance`.
double PostingSearch::floor_of(double distance) const {
  if (scale_.unit == 0) return distance >= 0 ? 0 : kMostSparseUnits + 1;
  return std::floor(-distance / scale_.unit - scale_.margin);
}

void PostingSearch::add_lists(const Postings& postings) {
  counters_.assign(postings.shape().padded_rows(), 0);
  std::int16_t* const counters = counters_.data();
  const std::uint16_t* const places = postings.places();
  const std::uint8_t* const impacts = postings.impacts();
  for (const List& list : plan_.lists) {
    const std::uint32_t weight = list.weight;
    if (!list.taken_off) {
      for (std::uint32_t i = list.begin; i < list.end; ++i) {
        const std::uint32_t added = impacts[i] * weight >> 8;
        counters[places[i]] = static_cast<std::int16_t>(
            static_cast<std::uint32_t>(counters[places[i]]) + added);
      }
    } else {
      for (std::uint32_t i = list.begin; i < list.end; ++i) {
        const std::int32_t taken = static_cast<std::int32_t>((impacts[i] - 1u) * weight >> 8);
        counters[places[i]] =
            static_cast<std::int16_t>(std::max(counters[places[i]] - taken, -32768));
      }
    }
  }
  columns_.clear();
  maxima_.clear();
  for (const List& list : plan_.columns) {
    columns_.push_back({postings.column(list.begin), list.weight, list.taken_off});
    if (!list.taken_off) maxima_.push_back({postings.maxima(list.begin), list.weight, false});
  }
}

// What columns can add to a counter of each range, from each group of them on.
void PostingSearch::bound_ranges(std::size_t ranges) {
  const std::size_t groups = (maxima_.size() + kColumnsAtOnce - 1) / kColumnsAtOnce;
  bounds_.assign((groups + 1) * ranges, 0);
  for (std::size_t g = groups; g-- > 0;) {
    std::int16_t* const bounds = bounds_.data() + g * ranges;
    std::copy_n(bounds + ranges, ranges, bounds);
    const std::size_t first = g * kColumnsAtOnce;
    kernels_.add_columns(maxima_.data() + first, std::min(kColumnsAtOnce, maxima_.size() - first), 0,
                         ranges, bounds);
  }
}

// Adds columns to the counters of a range for as long as one of them can reach the floor; says
// whether that is so in the end.
bool PostingSearch::add_columns(std::uint32_t range) {
  const std::size_t ranges = bounds_.size() / ((maxima_.size() + kColumnsAtOnce - 1) / kColumnsAtOnce + 1);
  const std::size_t first = std::size_t{range} * kSparseRange;
  const std::int16_t* bound = bounds_.data() + compute::sparse_place(range);
  for (std::size_t c = 0;; c += kColumnsAtOnce, bound += ranges) {
    const bool adds = c < maxima_.size();  // the others take off
    if (!kernels_.reaches(counters_.data() + first, kSparseRange, floor_ - (adds ? *bound : 0))) {
      return false;
    }
    if (c >= columns_.size()) return true;
    kernels_.add_columns(columns_.data() + c, std::min(kColumnsAtOnce, columns_.size() - c), first,
                         kSparseRange, counters_.data());
  }
}

void PostingSearch::search_ranges(const SparseTile& tile, const Postings& postings) {
  const std::size_t rows = postings.shape().padded_rows();
  for (std::size_t first = 0; first < rows; first += kSparseRange) {
    const auto range = static_cast<std::uint32_t>(first / kSparseRange);
    if (range % 16 == 0) loop_.check(thread_);
    if (!add_columns(range)) continue;
    const std::size_t n =
        kernels_.collect(counters_.data() + first, kSparseRange, floor_, places_.data());
    if (n != 0) take(tile, places_.data(), n, first);
  }
}

void PostingSearch::take(const SparseTile& tile, const std::uint32_t* places, std::size_t n,
                         std::size_t first) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::uint32_t>(first) + compute::sparse_row(places[i]);
    if (row >= tile.rows || !tile.takes_part(row)) continue;
    candidates_.push_back({row, counters_[first + places[i]]});
  }
  // Where the nearest rows may be out of the range, the others' counters say nothing of the k-th.
  const bool counts = results_.k() != 0 && std::isinf(work_.range.low);
  if (counts && candidates_.size() >= cut_at_) raise_floor();
}

// Rules out candidates by the k-th largest counter.
void PostingSearch::raise_floor() {
  const auto kth = candidates_.begin() + static_cast<std::ptrdiff_t>(results_.k() - 1);
  std::nth_element(candidates_.begin(), kth, candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.counter > b.counter; });
  // k rows have at least such an S, in units.
  const double reached = static_cast<double>(kth->counter) - scale_.spread;
  const double floor = std::floor(reached - scale_.margin);
  if (floor > floor_) {
    floor_ = static_cast<std::int16_t>(floor);
    std::erase_if(candidates_, [&](const Candidate& some) { return some.counter < floor_; });
  }
  cut_at_ = 2 * candidates_.size() + kLeastCut;
}

void PostingSearch::compare(const SparseTile& tile, std::uint32_t row) {
  const double distance = work_.queries[query_].distance(tile.values->text(row).data());
  if (distance <= results_.limit(query_)) {
    hits_.push_back({distance, tile.rowids[row], tile.id, row});
  }
  if (work_.counters != nullptr) ++work_.counters->distances;
}

void PostingSearch::add_hits() {
  results_.add(query_, hits_);
  hits_.clear();
}

// Those that count most come first, so that the others are soon ruled out.
void PostingSearch::compare_candidates(const SparseTile& tile) {
  constexpr std::size_t kAtOnce = 64;
  if (results_.k() != 0) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.counter != b.counter ? a.counter > b.counter : a.row < b.row;
    });
  }
  const std::size_t group = std::clamp<std::size_t>(results_.k() / 2, 1, kAtOnce);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i % group == 0) {
      add_hits();
      loop_.check(thread_);
      if (results_.k() != 0 && candidates_[i].counter < floor_of(results_.limit(query_))) break;
    }
    if (i + 1 < candidates_.size()) {  // values are far apart
      constexpr std::size_t kMost = 1024;
      const std::string_view next = tile.values->text(candidates_[i + 1].row);
      ask_for_lines(next.data(), next.data() + std::min(next.size(), kMost));
    }
    compare(tile, candidates_[i].row);
    set(compared_, candidates_[i].row);
  }
  add_hits();
}

// Says whether no row whose counter is not above 0 can be a hit.
bool PostingSearch::is_done() const {
  const double limit = results_.limit(query_);
  return scale_.unit == 0 ? limit < 0 : limit < -(scale_.margin + 1) * scale_.unit;
}

// Rows that have nothing in common with the query are at distance 0, the rest of the others is
// compared.
void PostingSearch::compare_others(const SparseTile& tile, const Postings& postings) {
  constexpr std::uint32_t kChecked = 64;
  constexpr std::size_t kAtOnce = 4096;
  mark_rows(postings);
  for (std::uint32_t row = 0; row < tile.rows; ++row) {
    if (row % kChecked == 0) loop_.check(thread_);
    if (hits_.size() >= kAtOnce) add_hits();
    if (test(compared_, row) || !tile.takes_part(row)) continue;
    if (test(marked_, row)) {
      compare(tile, row);
    } else if (results_.limit(query_) >= 0) {
      hits_.push_back({0, tile.rowids[row], tile.id, row});
    }
  }
}

void PostingSearch::mark_rows(const Postings& postings) {
  marked_.assign(words(postings.shape().rows), 0);
  for (const List& list : plan_.columns) {
    const std::uint8_t* const impacts = postings.column(list.begin);
    for (std::uint32_t row = 0; row < postings.shape().rows; ++row) {
      if (impacts[row] != 0) set(marked_, row);
    }
  }
  for (const List& list : plan_.lists) {
    for (std::uint32_t i = list.begin; i < list.end; ++i) {
      set(marked_, compute::sparse_row(postings.places()[i]));
    }
  }
}

}  // namespace warplite::cpu
