#include "cpu/ivf/rabitq_lists.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/ivf/pq_kernels.h"

namespace warplite::cpu {
namespace {

// Rows between looking at their sums and at their scores; a whole number of groups.
constexpr std::size_t kRows = 256;
constexpr std::uint32_t kGroupRows = compute::RabitqGroup::kRows;
static_assert(kRows % kGroupRows == 0 && kGroupRows == compute::kFastScanRows);

std::size_t round_up(std::size_t n) {
  return (n + 63) / 64 * 64;
}

void prefetch(const void* from, std::size_t bytes) {
  const char* at = static_cast<const char*>(from);
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i);
}

}  // namespace

IvfRunView IvfRunView::of(const compute::IvfShape& shape, const std::byte* bytes,
                          std::uint32_t positions) {
  const compute::IvfLayout at = compute::IvfLayout::of(shape, positions);
  return {reinterpret_cast<const std::uint32_t*>(bytes + at.begins),
          reinterpret_cast<const std::uint32_t*>(bytes + at.ordinals),
          reinterpret_cast<const float*>(bytes + at.bias),
          reinterpret_cast<const std::uint8_t*>(bytes + at.codes),
          reinterpret_cast<const std::uint8_t*>(bytes + at.records)};
}

RabitqLists::RabitqLists(const compute::IvfShape& shape, bool product)
    : shape_(shape),
      group_(shape.m),
      product_(product),
      kernels_(rabitq_kernels()),
      record_(compute::RabitqRecord::size(shape.dim, shape.planes)),
      signs_weight_(static_cast<float>(1u << (shape.planes - 1)) / 2),
      scratch_(round_up(shape.dim)),
      lows_(kRows),
      sums_(kRows),
      wide_(shape.m > kSummedSpaces ? kRows : 0),
      places_(kRows) {
  if (shape.planes < compute::kSignsAsElements) return;
  planes_.resize(std::size_t{shape.planes} * compute::plane_bytes(shape.dim) +
                 compute::kPlaneSlack);
}

void RabitqLists::begin(Query& query) {
  late_.clear();
  query.candidates.clear();
  query.survivors.clear();
}

void RabitqLists::enter(const float* y, const float* centroid, Query& query) {
  query.turn = 1 - query.turn;
  Tables& tables = query.tables[query.turn];
  if (tables.memory.size() == 0) {
    const std::size_t entries = round_up(std::size_t{shape_.m} * 16);
    tables.memory = Bytes(entries + round_up(shape_.dim));
    std::memset(tables.memory.data(), 0, tables.memory.size());
    tables.kernel.entries = reinterpret_cast<std::uint8_t*>(tables.memory.data());
    tables.kernel.elements = reinterpret_cast<std::int8_t*>(tables.memory.data() + entries);
  }
  kernels_.tables(y, centroid, shape_.dim, scratch_.data(), tables.kernel);
  tables.a = tables.kernel.square;
  if (product_) kernels_.distances(y, centroid, 1, shape_.dim, true, &tables.a);
  late_.swap(query.survivors);
  query.survivors.clear();
}

void RabitqLists::ask_for(const Span& span, const float* centroid, bool filtered) const {
  prefetch(centroid, shape_.dim * sizeof(float));
  const std::size_t first = span.begin / kGroupRows;
  const std::size_t count = (span.end - span.begin) / kGroupRows;
  prefetch(span.run->codes + first * group_.size, count * group_.size);
  if (filtered) prefetch(span.run->ordinals + span.begin, (span.end - span.begin) * 4);
}

void RabitqLists::scan(const Span& span, Query& query) {
  const Tables& tables = query.tables[query.turn];
  RabitqScores scores;
  scores.sums = sums_.data();
  scores.wide = wide_.empty() ? nullptr : wide_.data();
  scores.m = shape_.m;
  scores.unit = tables.kernel.unit;
  scores.norm = shape_.planes == 1 ? 0 : tables.kernel.norm;
  scores.a = tables.a;
  for (std::uint32_t at = span.begin; at < span.end;) {
    const auto n = std::min<std::uint32_t>(kRows, span.end - at);
    scores.groups = span.run->codes + std::size_t{at / kGroupRows} * group_.size;
    scores.count = n / kGroupRows;
    if (span.live != nullptr) scores.live = span.live + (at - span.begin) / kGroupRows;
    sum(scores, tables.kernel);
    const std::size_t found =
        kernels_.survivors(scores, query.candidates.limit(), lows_.data(), places_.data());
    keep(span, at, scores.groups, found, query);
    at += n;
  }
  look_closer(late_, query.tables[1 - query.turn], query.candidates);
  late_.clear();
}

void RabitqLists::end(Query& query) {
  look_closer(late_, query.tables[1 - query.turn], query.candidates);
  look_closer(query.survivors, query.tables[query.turn], query.candidates);
  late_.clear();
  query.survivors.clear();
}

// Adds the entries of groups with rows that count, those that follow one another at once.
void RabitqLists::sum(const RabitqScores& of, const RabitqTables& tables) {
  const auto counts = [&](std::size_t g) { return of.live == nullptr || of.live[g] != 0; };
  for (std::size_t first = 0; first < of.count; ++first) {
    if (!counts(first)) continue;
    std::size_t end = first + 1;
    while (end < of.count && counts(end)) ++end;
    sum_groups(of.groups + first * group_.size, end - first, first * kGroupRows, tables);
    first = end;
  }
}

// Adds the entries into sums_, or into wide_ when 16 bits do not hold them, from `first` on.
void RabitqLists::sum_groups(const std::uint8_t* groups, std::size_t count, std::size_t first,
                             const RabitqTables& tables) {
  std::uint16_t* const sums = sums_.data() + first;
  if (wide_.empty()) {
    return pq_kernels().sum_nibbles(tables.entries, groups, group_.size, shape_.m, count, sums);
  }
  std::uint32_t* const wide = wide_.data() + first;
  const std::size_t n = count * kGroupRows;
  std::fill_n(wide, n, 0u);
  for (std::uint32_t s = 0; s < shape_.m; s += kSummedSpaces) {
    pq_kernels().sum_nibbles(tables.entries + s * 16, groups + s * 16, group_.size,
                             std::min(kSummedSpaces, shape_.m - s), count, sums);
    for (std::size_t i = 0; i < n; ++i) wide[i] += sums[i];
  }
}

// Keeps the rows of the first `found` places for later.
void RabitqLists::keep(const Span& span, std::uint32_t position, const std::uint8_t* groups,
                       std::size_t found, Query& query) {
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t place = places_[i];
    Survivor row;
    row.record = span.run->records + (std::size_t{position} + place) * record_;
    row.group = groups + std::size_t{place / kGroupRows} * group_.size;
    row.low = lows_[place];
    row.sum = wide_.empty() ? sums_[place] : static_cast<std::int32_t>(wide_[place]);
    row.place = place % kGroupRows;
    row.first = span.first;
    prefetch(row.record, record_);
    query.survivors.push_back(row);
  }
}

void RabitqLists::look_closer(std::span<const Survivor> survivors, const Tables& tables,
                              Candidates& candidates) {
  for (const Survivor& row : survivors) {
    if (row.low > candidates.limit()) continue;
    std::uint32_t ordinal;
    std::memcpy(&ordinal, row.record, sizeof ordinal);
    if (ordinal == compute::kNoOrdinal) continue;
    float score = row.low;
    if (shape_.planes != 1) {
      const float all = fine_score(row, tables);
      if (!std::isnan(score) && !(score > all)) score = all;
    }
    candidates.push(score, row.first + ordinal);
  }
}

float RabitqLists::fine_score(const Survivor& row, const Tables& tables) {
  float factor, bias;
  std::memcpy(&factor, row.record + compute::RabitqRecord::kFine, sizeof factor);
  std::memcpy(&bias, row.record + compute::RabitqRecord::kBias, sizeof bias);
  return (tables.a + bias) + factor * product(row, tables.kernel);
}

// ū·x
float RabitqLists::product(const Survivor& row, const RabitqTables& tables) {
  const std::uint8_t* const planes = row.record + compute::RabitqRecord::kPlanes;
  const std::uint32_t others = shape_.planes - 1;
  if (shape_.planes >= compute::kSignsAsElements) {
    const std::size_t bytes = compute::plane_bytes(shape_.dim);
    copy_signs(row, planes_.data());
    std::memcpy(planes_.data() + bytes, planes, others * bytes);
    const std::int64_t dot =
        kernels_.dot(tables.elements, planes_.data(), shape_.planes, shape_.dim);
    const std::int64_t twice = 2 * dot - ((std::int64_t{2} << others) - 1) * tables.sum;
    return tables.fine * static_cast<float>(twice);
  }
  const std::int64_t dot = kernels_.dot(tables.elements, planes, others, shape_.dim);
  const std::int64_t twice = 2 * dot - ((std::int64_t{1} << others) - 1) * tables.sum;
  return signs_weight_ * signs_product(tables.unit, shape_.m, row.sum) +
         tables.fine * static_cast<float>(twice);
}

// The signs of one row, as the other planes are.
void RabitqLists::copy_signs(const Survivor& row, std::uint8_t* out) const {
  const int shift = row.place < 16 ? 0 : 4;
  const std::uint8_t* at = row.group + row.place % 16;
  for (std::uint32_t s = 0; s < shape_.m; s += 2) {
    const unsigned low = (at[s * 16] >> shift) & 15u;
    const unsigned high = s + 1 < shape_.m ? (at[(s + 1) * 16] >> shift) & 15u : 0;
    out[s / 2] = static_cast<std::uint8_t>(low | high << 4);
  }
}

}  // namespace warplite::cpu
