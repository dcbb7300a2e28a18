#include "engine/match/code_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "compute/host/parallel.h"
#include "engine/match/code_ranges.h"
#include "engine/residency/common_cancellation.h"
#include "engine/residency/readiness.h"

namespace warplite::engine {
namespace {

// Queries for which it pays to make codes of a part.
constexpr std::size_t kManyQueries = 512;
// Codes and ranges that are in memory at a time.
constexpr std::size_t kCodesAtOnce = std::size_t{1} << 27;
constexpr std::size_t kRangesAtOnce = std::size_t{1} << 22;
constexpr std::size_t kMostItems = std::size_t{1} << 24;
// An item that scatters over the order of values becomes so many that scanning is quicker.
constexpr std::size_t kMostScattered = 16;
constexpr std::uint64_t kMostCount = 0x7fffffff;

// Queries, times parts, that were counted without codes of some columns, although they might have had them.
struct Uncoded {
  std::map<std::vector<std::size_t>, std::size_t> of_columns;
};

}  // namespace

CodeSearch::CodeSearch(const View& view, const Selection& rows,
                       std::span<const RelationalQuery> queries, const CountRequest& request)
    : view_(view), rows_(rows), request_(request), items_(view.layout()),
      counted_(view.parts(), false),
      excludes_host_(excludes_host(request.device, Ability::codes(), request.cancellation)) {
  for (const RelationalQuery& query : queries) {
    most_ = std::max(most_, total_weight(query));
    items_asked_ += query.size();
    auto& numbered = queries_.emplace_back();
    for (const RelationalItem& item : query) numbered.push_back({items_.add(item), item.weight});
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const CompiledPredicate& some = items_[i].front().front();
    if (some.on_rowid()) {
      on_rowid_ = true;
      break;
    }
    const auto known = std::find(columns_.begin(), columns_.end(), some.column());
    column_of_.push_back(static_cast<std::uint32_t>(known - columns_.begin()));
    if (known == columns_.end()) columns_.push_back(some.column());
  }
  if (excludes_host_) check_possible();
  if (!on_rowid_) find_parts();
}

void CodeSearch::check_possible() const {
  if (possible()) return;
  throw Error(ErrorKind::kUnsupported,
              request_.device + " does not count " +
                  (on_rowid_ ? "matches of rowids" : "so many items") + ", which the cpu does");
}

void CodeSearch::find_parts() {
  for (std::uint32_t i = 0; i < view_.parts(); ++i) {
    const Part& part = view_.part(i);
    const bool sealed = part.segment() != 0;
    const bool any = std::any_of(columns_.begin(), columns_.end(), [&](std::size_t column) {
      return !sealed || !part.plain_key(column).is_null();
    });
    if (rows_.part(i).count != 0 && (sealed || excludes_host_) && any) parts_.push_back(i);
  }
}

bool CodeSearch::possible() const {
  return !on_rowid_ && most_ <= kMostCount && items_asked_ <= kMostItems;
}

bool CodeSearch::worthwhile() {
  if (!possible() || parts_.empty()) return false;
  const std::vector<bool>& match = view_.layout().match;
  const auto wanted = [&](std::size_t column) { return column < match.size() && match[column]; };
  if (excludes_host_ || std::all_of(columns_.begin(), columns_.end(), wanted)) return true;
  std::vector<std::uint32_t> coded;
  for (const std::uint32_t part : parts_) {
    if (has_column_codes(view_, part, columns_)) coded.push_back(part);
  }
  if (!makes_codes(parts_.size() - coded.size())) parts_ = std::move(coded);
  return !parts_.empty();
}

// `lacking`: parts that have no codes yet.
bool CodeSearch::makes_codes(std::size_t lacking) const {
  if (lacking == 0) return true;
  std::size_t& counted = view_.derived_of_segments().of<Uncoded>().of_columns[columns_];
  counted += queries_.size() * lacking;
  if (counted < kManyQueries * lacking) return false;
  counted = 0;
  return true;
}

void CodeSearch::add_best(compute::HitTable& best) {
  const std::size_t codes = kCodesAtOnce / (columns_.size() * compute::kTileRows) + 1;
  const std::size_t ranges = kRangesAtOnce / std::max<std::size_t>(items_asked_, 1) + 1;
  const std::size_t at_once = std::min(codes, ranges);
  for (std::size_t first = 0; first < parts_.size(); first += at_once) {
    count(std::span(parts_).subspan(first, std::min(at_once, parts_.size() - first)), best);
  }
}

void CodeSearch::count(std::span<const std::uint32_t> parts, compute::HitTable& best) {
  Group group;
  group.parts = parts;
  group.codes = load_column_codes(view_, parts, columns_, request_.cancellation);
  if (!fill(group, translate(group))) {
    if (!excludes_host_) return;
    throw Error(ErrorKind::kUnsupported,
                request_.device + " does not count items of so many values, which the cpu does");
  }
  compute::HitTable found(0, 0);
  attempt(group).search([&](compute::Device& device) {
    found = compute::HitTable(best.queries(), best.k());
    return count_on(device, group, found);
  });
  best.merge(std::move(found));
  for (const std::uint32_t part : parts) counted_[part] = true;
}

CodeSearch::Ranges CodeSearch::translate(const Group& group) const {
  Ranges ranges(group.parts.size() * items_.size());
  CommonCancellation cancellation(request_.cancellation);
  constexpr std::size_t kGrain = 64, kItemsPerThread = 4096;
  compute::in_parallel(ranges.size(), kGrain, ranges.size() / kItemsPerThread,
                       [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      if (i % kGrain == 0 && cancellation.requested()) {
        throw Error(ErrorKind::kInterrupted, "interrupted");
      }
      const std::size_t part = i / items_.size(), item = i % items_.size();
      const std::uint32_t column = column_of_[item];
      ranges[i] = code_ranges(items_, item, view_.part(group.parts[part]),
                              group.codes[part * columns_.size() + column]);
    }
  });
  return ranges;
}

// Items as devices take them: each as often as it has ranges in the part where it has most. False:
// there are too many.
bool CodeSearch::fill(Group& group, const Ranges& ranges) const {
  std::vector<std::size_t> times(items_.size(), 0);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    times[i % items_.size()] = std::max(times[i % items_.size()], ranges[i].size());
  }
  const std::size_t most = most_items(group);
  group.begins.push_back(0);
  for (const auto& query : queries_) {
    for (const NumberedItem& item : query) {
      group.items.insert(group.items.end(), times[item.item],
                         compute::CodeItem{column_of_[item.item], item.weight});
    }
    if (group.items.size() > most) return false;
    group.begins.push_back(static_cast<std::uint32_t>(group.items.size()));
  }
  group.ranges.resize(group.parts.size() * group.items.size());
  for (std::size_t part = 0; part < group.parts.size(); ++part) {
    compute::CodeRange* out = group.ranges.data() + part * group.items.size();
    for (const auto& query : queries_) {
      for (const NumberedItem& item : query) {
        const auto& of_part = ranges[part * items_.size() + item.item];
        std::copy(of_part.begin(), of_part.end(), out);
        out += times[item.item];
      }
    }
  }
  return true;
}

// Returns for how many items codes are used. Scanning rows instead is the CPU's work alone, so it
// is no choice when the CPU is excluded.
std::size_t CodeSearch::most_items(const Group& group) const {
  return excludes_host_ ? kMostItems / group.parts.size() : kMostScattered * items_asked_;
}

Attempt CodeSearch::attempt(const Group& group) const {
  double rows = 0;
  for (const std::uint32_t part : group.parts) rows += view_.part(part).rows();
  std::vector<Uploader::Item> items;
  for (const ColumnCodes& codes : group.codes) {
    if (!codes.key.is_null()) items.push_back({codes.key, codes.bytes});
  }
  return {{request_.device, Ability::codes(),
           rows * static_cast<double>(items_asked_) * sizeof(std::uint16_t),
           request_.cancellation},
          Attempt::Use::kFirst,
          [&](Attempt::Devices devices) { return ready(*devices.front(), items); }};
}

Status CodeSearch::count_on(compute::Device& device, const Group& group,
                            compute::HitTable& best) const {
  std::vector<std::shared_ptr<const compute::Buffer>> owners(group.codes.size());
  std::vector<const compute::Buffer*> buffers(group.codes.size());
  std::vector<compute::CodeTile> tiles;
  for (std::size_t part = 0; part < group.parts.size(); ++part) {
    const std::size_t first = part * columns_.size(), end = first + columns_.size();
    for (std::size_t i = first; i < end; ++i) {
      const ColumnCodes& codes = group.codes[i];
      if (codes.bytes == nullptr) continue;
      ask(request_.cancellation);
      const Status status =
          Residency::instance().buffer(device, codes.key, codes.bytes, &owners[i]);
      if (!status.ok()) return status;
      buffers[i] = owners[i].get();
    }
    // If a column is NULL in every row, all of its codes match or none; those of any column will
    // do.
    const auto some = std::find_if(buffers.begin() + static_cast<std::ptrdiff_t>(first),
                                   buffers.begin() + static_cast<std::ptrdiff_t>(end),
                                   [](const compute::Buffer* buffer) { return buffer != nullptr; });
    for (std::size_t i = first; i < end; ++i) buffers[i] = buffers[i] ? buffers[i] : *some;
    rows_.describe(view_, group.parts[part], tiles.emplace_back());
    tiles.back().columns = buffers.data() + first;
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  compute::CodeWork work;
  work.tiles = tiles;
  work.columns = static_cast<std::uint32_t>(columns_.size());
  work.begins = group.begins;
  work.items = group.items;
  work.ranges = group.ranges;
  work.least = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(request_.range.low, 1, kMost));
  work.most = static_cast<std::uint32_t>(std::min(request_.range.high, kMost));
  work.cancellation = request_.cancellation;
  return device.match_codes(work, best);
}

}  // namespace warplite::engine
