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
// Rows whose planes are asked for before they are read.
constexpr std::size_t kAhead = 24;

std::size_t round_up(std::size_t n) { return (n + 63) / 64 * 64; }

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

// A Part is up to kRows positions of a span.
struct RabitqLists::Part {
  const Span& span;
  std::uint32_t position;
  std::size_t n;
  const std::uint8_t* groups;
  const std::uint8_t* records;  // from the first position on

  const std::uint8_t* record(std::uint32_t place, std::uint32_t bytes) const {
    return records + std::size_t{place} * bytes;
  }
};

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

void RabitqLists::prepare(const float* y, const float* centroid, Tables& tables) {
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
}

void RabitqLists::ask_for(const Span& span, const float* centroid) const {
  prefetch(centroid, shape_.dim * sizeof(float));
  const std::size_t first = span.begin / kGroupRows;
  const std::size_t count = (span.end - span.begin) / kGroupRows;
  prefetch(span.run->codes + first * group_.size, count * group_.size);
}

void RabitqLists::scan(const Span& span, const Tables& tables, Candidates& candidates) {
  RabitqScores scores;
  scores.sums = sums_.data();
  scores.wide = wide_.empty() ? nullptr : wide_.data();
  scores.m = shape_.m;
  scores.unit = tables.kernel.unit;
  scores.norm = shape_.planes == 1 ? 0 : tables.kernel.norm;
  scores.a = tables.a;
  for (std::uint32_t at = span.begin; at < span.end;) {
    const Part part{span, at, std::min<std::size_t>(kRows, span.end - at),
                    span.run->codes + std::size_t{at / kGroupRows} * group_.size,
                    span.run->records + std::size_t{at} * record_};
    sum(part, tables.kernel);
    scores.groups = part.groups;
    scores.count = part.n / kGroupRows;
    const std::size_t found =
        kernels_.survivors(scores, candidates.limit(), lows_.data(), places_.data());
    if (found != 0) look_closer(part, tables, found, candidates);
    at += static_cast<std::uint32_t>(part.n);
  }
}

// Adds the entries into sums_, or into wide_ when 16 bits do not hold them.
void RabitqLists::sum(const Part& part, const RabitqTables& tables) {
  const std::size_t count = part.n / kGroupRows;
  if (wide_.empty()) {
    return pq_kernels().sum_nibbles(tables.entries, part.groups, group_.size, shape_.m, count,
                                    sums_.data());
  }
  std::fill_n(wide_.begin(), part.n, 0u);
  for (std::uint32_t s = 0; s < shape_.m; s += kSummedSpaces) {
    pq_kernels().sum_nibbles(tables.entries + s * 16, part.groups + s * 16, group_.size,
                             std::min(kSummedSpaces, shape_.m - s), count, sums_.data());
    for (std::size_t i = 0; i < part.n; ++i) wide_[i] += sums_[i];
  }
}

// Scores the rows of the first `found` places.
void RabitqLists::look_closer(const Part& part, const Tables& tables, std::size_t found,
                              Candidates& candidates) {
  const auto ask_for = [&](std::size_t i) {
    if (i < found) prefetch(part.record(places_[i], record_), record_);
  };
  for (std::size_t i = 0; i < kAhead; ++i) ask_for(i);
  const RowMap* const rows = part.span.rows;
  for (std::size_t i = 0; i < found; ++i) {
    ask_for(i + kAhead);
    const std::uint32_t place = places_[i];
    float score = lows_[place];
    if (score > candidates.limit()) continue;
    std::uint32_t ordinal;
    std::memcpy(&ordinal, part.record(place, record_), sizeof ordinal);
    if (ordinal == compute::kNoOrdinal) continue;
    ordinal += part.span.first;
    if (rows != nullptr && !rows->at(ordinal).live()) continue;
    if (shape_.planes != 1) {
      const float all = fine_score(part, place, tables);
      if (!std::isnan(score) && !(score > all)) score = all;
    }
    candidates.push(score, ordinal);
  }
}

float RabitqLists::fine_score(const Part& part, std::uint32_t place, const Tables& tables) {
  const std::uint8_t* const record = part.record(place, record_);
  float factor, bias;
  std::memcpy(&factor, record + compute::RabitqRecord::kFine, sizeof factor);
  std::memcpy(&bias, record + compute::RabitqRecord::kBias, sizeof bias);
  const std::uint8_t* const planes = record + compute::RabitqRecord::kPlanes;
  return (tables.a + bias) + factor * product(part, place, tables.kernel, planes);
}

// ū·x; `planes` are those after the signs.
float RabitqLists::product(const Part& part, std::uint32_t place, const RabitqTables& tables,
                           const std::uint8_t* planes) {
  const std::uint32_t others = shape_.planes - 1;
  if (shape_.planes >= compute::kSignsAsElements) {
    const std::size_t bytes = compute::plane_bytes(shape_.dim);
    copy_signs(part, place, planes_.data());
    std::memcpy(planes_.data() + bytes, planes, others * bytes);
    const std::int64_t dot =
        kernels_.dot(tables.elements, planes_.data(), shape_.planes, shape_.dim);
    const std::int64_t twice = 2 * dot - ((std::int64_t{2} << others) - 1) * tables.sum;
    return tables.fine * static_cast<float>(twice);
  }
  const std::int64_t dot = kernels_.dot(tables.elements, planes, others, shape_.dim);
  const std::int64_t twice = 2 * dot - ((std::int64_t{1} << others) - 1) * tables.sum;
  const std::int64_t sum = wide_.empty() ? sums_[place] : wide_[place];
  return signs_weight_ * signs_product(tables.unit, shape_.m, sum) +
         tables.fine * static_cast<float>(twice);
}

// The signs of one row, as the other planes are.
void RabitqLists::copy_signs(const Part& part, std::uint32_t place, std::uint8_t* out) const {
  const std::uint32_t i = place % kGroupRows;
  const int shift = i < 16 ? 0 : 4;
  const std::uint8_t* at =
      part.groups + std::size_t{place / kGroupRows} * group_.size + i % 16;
  for (std::uint32_t s = 0; s < shape_.m; s += 2) {
    const unsigned low = (at[s * 16] >> shift) & 15u;
    const unsigned high = s + 1 < shape_.m ? (at[(s + 1) * 16] >> shift) & 15u : 0;
    out[s / 2] = static_cast<std::uint8_t>(low | high << 4);
  }
}

}  // namespace warplite::cpu
