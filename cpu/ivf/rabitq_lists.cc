#include "cpu/ivf/rabitq_lists.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/ivf/live_masks.h"

namespace warplite::cpu {
namespace {

constexpr std::uint32_t kGroupRows = compute::RabitqGroup::kRows;
static_assert(kGroupRows == compute::kFastScanRows);

std::size_t round_up(std::size_t n) {
  return (n + 63) / 64 * 64;
}

void prefetch(const void* from, std::size_t bytes) {
  const char* at = static_cast<const char*>(from);
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i);
  // Of what begins anywhere in a line, the last bytes may be in one more.
  if (bytes != 0) __builtin_prefetch(at + bytes - 1);
}

}  // namespace

IvfRunView IvfRunView::of(const compute::IvfShape& shape, const std::byte* bytes,
                          std::uint32_t positions) {
  const compute::IvfLayout at = compute::IvfLayout::of(shape, positions);
  return {reinterpret_cast<const std::uint32_t*>(bytes + at.begins),
          reinterpret_cast<const std::uint32_t*>(bytes + at.ends),
          reinterpret_cast<const std::uint32_t*>(bytes + at.ordinals),
          reinterpret_cast<const float*>(bytes + at.bias),
          reinterpret_cast<const std::uint8_t*>(bytes + at.codes),
          reinterpret_cast<const std::uint8_t*>(bytes + at.records)};
}

RabitqLists::RabitqLists(const compute::IvfShape& shape, bool product, bool codes_decide)
    : shape_(shape),
      group_(shape.m),
      product_(product),
      with_signs_(compute::signs_count_by_elements(shape.planes, codes_decide)),
      kernels_(rabitq_kernels()),
      record_(compute::RabitqRecord::size(shape.dim, shape.planes)),
      signs_weight_(static_cast<float>(1u << (shape.planes - 1)) / 2),
      scratch_(round_up(shape.dim) * sizeof(float)) {
  nearest_.reserve(kUsual);
  if (!with_signs_) return;
  planes_.resize(kTogether * shape.planes * compute::plane_bytes(shape.dim) +
                 compute::kPlaneSlack);
}

void RabitqLists::enter(std::span<const Viewer> viewers, const float* centroid) {
  turn_ = 1 - turn_;
  Visit& visit = visits_[turn_];
  look_closer(visit);
  visit.queries = viewers.size();
  for (std::size_t i = 0; i < viewers.size(); ++i) {
    Entered& entered = visit.entered[i];
    if (entered.survivors.capacity() == 0) entered.survivors.reserve(kUsual);
    entered.candidates = viewers[i].candidates;
    make_tables(viewers[i], centroid, entered.tables);
    const RabitqTables& tables = entered.tables.kernel;
    looks_[i] = {.entries = tables.entries,
                 .unit = tables.unit,
                 .norm = shape_.planes == 1 ? 0 : tables.norm,
                 .a = entered.tables.a,
                 .sums = scores_[i].sums.data(),
                 .lows = scores_[i].lows.data(),
                 .places = scores_[i].places.data()};
  }
}

void RabitqLists::make_tables(const Viewer& viewer, const float* centroid, Tables& tables) {
  if (tables.memory.size() == 0) {
    const std::size_t entries = round_up(std::size_t{shape_.m} * 16);
    tables.memory = Bytes(entries + round_up(shape_.dim));
    std::memset(tables.memory.data(), 0, tables.memory.size());
    tables.kernel.entries = reinterpret_cast<std::uint8_t*>(tables.memory.data());
    tables.kernel.elements = reinterpret_cast<std::int8_t*>(tables.memory.data() + entries);
  }
  kernels_.tables(viewer.y, centroid, shape_.dim, reinterpret_cast<float*>(scratch_.data()),
                  tables.kernel);
  tables.a = tables.kernel.square;
  if (product_) kernels_.distances(viewer.y, centroid, 1, shape_.dim, true, &tables.a);
}

void RabitqLists::ask_for(const Span& span, const float* centroid, bool filtered) const {
  prefetch(centroid, shape_.dim * sizeof(float));
  const std::uint8_t* const codes = span.run->codes + std::size_t{span.first_group()} * group_.size;
  const std::size_t count = span.end_group() - span.first_group();
  if (span.live != nullptr) {
    for (const std::size_t g : LiveGroups(span.live, count)) {
      prefetch(codes + g * group_.size, group_.size);
    }
    return;
  }
  prefetch(codes, count * group_.size);
  if (filtered) prefetch(span.run->ordinals + span.begin, (span.end - span.begin) * 4);
}

void RabitqLists::scan(const Span& span) {
  RabitqGroups groups;
  groups.m = shape_.m;
  const std::uint32_t first = span.first_group(), end = span.end_group();
  for (std::uint32_t at = first; at < end; at += RabitqGroups::kMost) {
    const std::uint32_t n = std::min(RabitqGroups::kMost, end - at);
    groups.first = span.run->codes + std::size_t{at} * group_.size;
    if (span.live == nullptr) {
      groups.counts.fill(~std::uint32_t{0});
    } else {
      std::copy_n(span.live + (at - first), n, groups.counts.begin());
    }
    groups.counts[0] &= compute::RabitqGroup::rows_of(span.begin, span.end, at);
    groups.counts[n - 1] &= compute::RabitqGroup::rows_of(span.begin, span.end, at + n - 1);
    groups.which = LiveGroups::bits(groups.counts.data(), n);
    scan({span, at * kGroupRows}, groups);
  }
  look_closer(visits_[1 - turn_]);
}

void RabitqLists::scan(const Chunk& chunk, const RabitqGroups& groups) {
  Visit& visit = visits_[turn_];
  for (std::size_t q = 0; q < visit.queries; ++q) {
    looks_[q].limit = visit.entered[q].candidates->limit();
    looks_[q].found = 0;
  }
  kernels_.look(groups, looks_.data(), visit.queries);
  for (std::size_t q = 0; q < visit.queries; ++q) {
    Entered& entered = visit.entered[q];
    const Scores& scores = scores_[q];
    std::size_t found = looks_[q].found;
    if (std::isinf(looks_[q].limit)) found = find_limit(chunk, scores_[q], found, entered);
    for (std::size_t i = 0; i < found; ++i) {
      keep(chunk, scores, scores.places[i], entered.survivors);
    }
  }
}

void RabitqLists::end() {
  look_closer(visits_[1 - turn_]);
  look_closer(visits_[turn_]);
}

// Keeps the row of a place for later, when memory has brought it.
void RabitqLists::keep(const Chunk& chunk, const Scores& scores, std::uint32_t place,
                       std::vector<Survivor>& out) const {
  Survivor row;
  row.run = chunk.span.run;
  row.position = chunk.position + place;
  row.low = scores.lows[place];
  row.sum = scores.sums[place];
  row.first = chunk.span.first;
  prefetch(row.run->ordinals + row.position, sizeof(std::uint32_t));
  prefetch(record_of(row), record_);
  out.push_back(row);
}

// While nothing is known of what is wanted the signs rule out no row: those of the first `found` places
// that look best are looked at closely at once, so that most of the others need not be. Returns how
// many are left.
std::size_t RabitqLists::find_limit(const Chunk& chunk, Scores& scores, std::size_t found,
                                    const Entered& entered) {
  Candidates& candidates = *entered.candidates;
  const std::span<std::uint8_t> places(scores.places.data(), found);
  const float low = low_of_some(scores, places, candidates.keep() + 1);
  if (std::isinf(low)) return found;
  nearest_.clear();
  std::size_t others = 0;
  for (const std::uint8_t place : places) {
    if (scores.lows[place] <= low) {
      keep(chunk, scores, place, nearest_);
    } else {
      places[others++] = place;
    }
  }
  look_closer(nearest_, entered.tables, candidates);
  candidates.tighten();
  std::size_t left = 0;
  for (const std::uint8_t place : places.first(others)) {
    if (!(scores.lows[place] > candidates.limit())) places[left++] = place;
  }
  return left;
}

// A number that `some` of the lows of the places do not exceed, and not many more of them; infinity,
// where there is none.
float RabitqLists::low_of_some(const Scores& scores, std::span<const std::uint8_t> places,
                               std::size_t some) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int kSteps = 10;
  if (places.size() < some) return kInfinity;
  float lows[kRows], least = kInfinity, most = -kInfinity;
  for (std::size_t i = 0; i < places.size(); ++i) {
    lows[i] = scores.lows[places[i]];
    least = std::min(least, lows[i]);
    if (lows[i] < kInfinity) most = std::max(most, lows[i]);
  }
  const auto count = [&](float bound) {
    std::uint32_t within = 0;
    for (std::size_t i = 0; i < places.size(); ++i) within += lows[i] <= bound ? 1u : 0u;
    return std::size_t{within};
  };
  if (!(least > -kInfinity) || count(most) < some) return kInfinity;
  for (int step = 0; step < kSteps; ++step) {
    const float middle = least + (most - least) / 2;
    const std::size_t within = count(middle);
    (within < some ? least : most) = middle;
    if (within >= some && within <= some + some / 8) break;
  }
  return most;
}

void RabitqLists::look_closer(Visit& visit) {
  for (std::size_t q = 0; q < visit.queries; ++q) {
    Entered& entered = visit.entered[q];
    if (entered.survivors.empty()) continue;
    look_closer(entered.survivors, entered.tables, *entered.candidates);
    entered.survivors.clear();
  }
}

void RabitqLists::look_closer(std::span<const Survivor> survivors, const Tables& tables,
                              Candidates& candidates) {
  const Survivor* near[kTogether];
  float scores[kTogether];
  for (auto row = survivors.begin(); row != survivors.end();) {
    const float limit = candidates.limit();
    std::size_t n = 0;
    for (; row != survivors.end() && n < kTogether; ++row) {
      near[n] = &*row;
      n += row->low > limit ? 0 : 1;
    }
    score({near, n}, tables, scores);
    for (std::size_t i = 0; i < n; ++i) {
      candidates.push(scores[i], near[i]->first + near[i]->run->ordinals[near[i]->position]);
    }
  }
}

void RabitqLists::score(std::span<const Survivor* const> rows, const Tables& tables, float* out) {
  if (shape_.planes != 1) multiply(rows, tables.kernel, out);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Survivor& row = *rows[i];
    float all = row.low;
    if (shape_.planes != 1) {
      float factor, bias;
      const std::uint8_t* const record = record_of(row);
      std::memcpy(&factor, record + compute::RabitqRecord::kFine, sizeof factor);
      std::memcpy(&bias, record + compute::RabitqRecord::kBias, sizeof bias);
      all = (tables.a + bias) + factor * out[i];
    }
    out[i] = std::isnan(row.low) || row.low > all ? row.low : all;
  }
}

// out[i] = ū·x of a row.
void RabitqLists::multiply(std::span<const Survivor* const> rows, const RabitqTables& tables,
                           float* out) {
  const std::uint32_t planes = with_signs_ ? shape_.planes : shape_.planes - 1;
  const std::size_t bytes = compute::plane_bytes(shape_.dim);
  const std::uint8_t* from[kTogether] = {};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    from[i] = record_of(*rows[i]) + compute::RabitqRecord::kPlanes;
    if (!with_signs_) continue;
    std::uint8_t* const all = planes_.data() + i * planes * bytes;
    copy_signs(*rows[i], all);
    std::memcpy(all + bytes, from[i], (planes - 1) * bytes);
    from[i] = all;
  }
  std::int32_t dots[kTogether];
  kernels_.dots(tables.elements, from, rows.size(), planes, shape_.dim, dots);
  const std::int64_t middle = ((std::int64_t{1} << planes) - 1) * tables.sum;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float fine = tables.fine * static_cast<float>(2 * std::int64_t{dots[i]} - middle);
    out[i] = with_signs_
                 ? fine
                 : signs_weight_ * signs_product(tables.unit, shape_.m, rows[i]->sum) + fine;
  }
}

// The signs of one row, as the other planes are.
void RabitqLists::copy_signs(const Survivor& row, std::uint8_t* out) const {
  const std::uint32_t place = row.position % kGroupRows;
  const int shift = place < 16 ? 0 : 4;
  const std::uint8_t* at =
      row.run->codes + std::size_t{row.position / kGroupRows} * group_.size + place % 16;
  for (std::uint32_t s = 0; s < shape_.m; s += 2) {
    const unsigned low = (at[s * 16] >> shift) & 15u;
    const unsigned high = s + 1 < shape_.m ? (at[(s + 1) * 16] >> shift) & 15u : 0;
    out[s / 2] = static_cast<std::uint8_t>(low | high << 4);
  }
}

}  // namespace warplite::cpu
