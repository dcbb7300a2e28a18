#include "engine/rewrite.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <numeric>
#include <span>
#include <vector>

#include "core/process/interruption.h"
#include "engine/table/partition.h"
#include "engine/table/rows.h"
#include "engine/training/coding.h"

namespace warplite::engine {
namespace {

// A row by the part it is in; parts are numbered as they were chosen.
struct SourceRow {
  std::uint32_t source;
  std::uint32_t row;
  RowId rowid;
  std::size_t texts;  // bytes
};

// Partition values of the chosen parts, for sorting.
class SourceAccess {
 public:
  SourceAccess(const Layout& layout, const std::vector<std::shared_ptr<const Part>>& sources)
      : layout_(layout) {
    for (const auto& source : sources) {
      auto& columns = columns_.emplace_back(layout.plains.size());
      for (int column : layout.partitions) {
        const auto at = static_cast<std::size_t>(column);
        columns[at] = source->plain(at);
      }
    }
  }
  RowId rowid(const SourceRow& row) const { return row.rowid; }
  Cell cell(const SourceRow& row, std::size_t column) const {
    const Column* values = columns_[row.source][column].get();
    return values == nullptr ? Cell::null() : values->cell(row.row);
  }
  std::size_t texts(const SourceRow& row) const { return row.texts; }

 private:
  const Layout& layout_;
  std::vector<std::vector<std::shared_ptr<const Column>>> columns_;
};

// Returns whether there is more than one value of the first partition key, as far as bounds tell.
bool is_mixed(const storage::ZoneMap& zone) {
  if (zone.all_null) return false;
  return zone.has_null || compare_cells(zone.low.cell(), zone.high.cell()) != 0;
}

// True when segments shared by several partitions overlap, so that sorting would part them.
bool partitions_overlap(const Layout& layout, const Snapshot& base) {
  if (layout.partitions.empty()) return false;
  const auto column = static_cast<std::size_t>(layout.partitions[0]);
  std::vector<const storage::ZoneMap*> zones;
  for (const auto& segment : base.segments()) {
    const storage::ZoneMap& zone = segment->info().zones[column];
    if (is_mixed(zone)) zones.push_back(&zone);
  }
  std::sort(zones.begin(), zones.end(), [](const auto* a, const auto* b) {
    return compare_cells(a->low.cell(), b->low.cell()) < 0;
  });
  const storage::ZoneMap* widest = nullptr;
  for (const storage::ZoneMap* zone : zones) {
    if (widest != nullptr && compare_cells(zone->low.cell(), widest->high.cell()) < 0) return true;
    if (widest == nullptr || compare_cells(widest->high.cell(), zone->high.cell()) < 0) {
      widest = zone;
    }
  }
  return false;
}

// The columns of a part that may hold texts.
class Texts {
 public:
  Texts(const Layout& layout, const Part& part) {
    for (std::size_t i = 0; i < layout.plains.size(); ++i) {
      if (!holds_texts(layout.plains[i])) continue;
      if (auto column = part.plain(i)) columns_.push_back(std::move(column));
    }
  }
  std::size_t bytes(std::uint32_t row) const {
    std::size_t bytes = 0;
    for (const auto& column : columns_) bytes += text_bytes(*column, row);
    return bytes;
  }

 private:
  std::vector<std::shared_ptr<const Column>> columns_;
};

// Calls take(row) for those rows of a part that would be written.
template <typename Take>
void each_row(const Part& part, const Take& take) {
  for (std::uint32_t row = 0; row < part.rows(); ++row) {
    if (is_alive(part, row) && !part.lost(row)) take(row);
  }
}

// Bytes of their texts.
std::size_t text_bytes(const Layout& layout, const Part& part) {
  std::size_t bytes = 0;
  const Texts texts(layout, part);
  each_row(part, [&](std::uint32_t row) { bytes += texts.bytes(row); });
  return bytes;
}

class Rewriter {
 public:
  explicit Rewriter(const WriteContext& context)
      : store_(context.store),
        options_(context.options),
        layout_(context.options.layout),
        base_(*context.base),
        readers_(context.readers),
        coder_(context, base_.state) {
    for (std::size_t i = 0; i < layout_.vectors.size(); ++i) {
      gathers_all_ &= !coder_.codes(i) || coder_.gathers(i);
    }
  }

  // False when nothing would change.
  bool choose(RewriteScope scope) {
    codes_ = scope == RewriteScope::kWorthwhile;
    if (scope == RewriteScope::kTail) return choose_tail();
    const bool everything = scope == RewriteScope::kEverything;
    const bool mixed = !everything && partitions_overlap(layout_, base_);
    bool dead = false;
    std::uint64_t live = 0;
    std::size_t texts = 0;
    for (const auto& segment : base_.segments()) {
      const storage::SegmentInfo& info = segment->info();
      const bool sparse = info.live_rows < info.rows - info.rows / 4;
      const bool small = info.live_rows < layout_.segment_rows / 2;
      const bool shared =
          mixed && is_mixed(info.zones[static_cast<std::size_t>(layout_.partitions[0])]);
      // Texts fill segments, too; to merge those that they fill would do nothing.
      const bool chosen = everything || sparse || shared;
      const std::size_t bytes = small && !chosen ? text_bytes(layout_, *segment) : 0;
      if (!chosen && (!small || bytes > options_.most_texts / 2)) {
        kept_.push_back(segment);
        continue;
      }
      texts += bytes;
      dead |= info.live_rows != info.rows;
      live += info.live_rows;
      sources_.push_back(segment);
    }
    chosen_segments_ = sources_.size();
    if (base_.tail.live > 0) sources_.push_back(base_.tail.part);
    const std::uint64_t needed =
        std::max<std::uint64_t>((live + layout_.segment_rows - 1) / layout_.segment_rows,
                                (texts + options_.most_texts - 1) / options_.most_texts);
    return everything ? !sources_.empty()
                      : dead || mixed || base_.tail.live > 0 || needed < chosen_segments_;
  }

  // The same of small segments, from this number on.
  bool choose_small(std::int64_t first) {
    const Small merged = merged_small(first);
    for (const auto& segment : base_.segments()) {
      const bool chosen = std::find(merged.begin(), merged.end(), segment.get()) != merged.end();
      chosen ? sources_.push_back(segment) : kept_.push_back(segment);
    }
    chosen_segments_ = sources_.size();
    if (base_.tail.live >= options_.trained_tail_rows) sources_.push_back(base_.tail.part);
    return !sources_.empty();
  }

  std::shared_ptr<const Snapshot> run() {
    auto next = std::make_shared<Snapshot>();
    next->state = base_.state;
    std::vector<std::int64_t> leaving;
    for (std::size_t i = 0; i < chosen_segments_; ++i) leaving.push_back(segment(i).info().id);
    keep_for(readers_, leaving, Part::Loss::kEverything);
    write_segments(*next);
    for (std::size_t i = 0; i < chosen_segments_; ++i) store_.drop_segment(segment(i).info());
    if (sources_.size() == chosen_segments_) {
      next->tail = base_.tail;
    } else {
      store_.clear_tail(next->state);
    }
    next->list = std::make_shared<SegmentList>(std::move(kept_));
    next->state.directory = next->list->directory();
    store_.write_state(next->state);
    return next;
  }

 private:
  bool choose_tail() {
    kept_ = base_.segments();
    if (base_.tail.live > 0) sources_.push_back(base_.tail.part);
    return !sources_.empty();
  }

  using Small = std::vector<const SegmentPart*>;

  // Those that are to be merged, of which all can be.
  Small merged_small(std::int64_t first) {
    constexpr std::size_t kMostOfAnyAge = 32;
    Small small;
    for (const auto& segment : base_.segments()) {
      if (segment->info().live_rows < layout_.segment_rows / 2) small.push_back(segment.get());
    }
    if (small.size() < kMostOfAnyAge) {
      std::erase_if(small, [&](const SegmentPart* segment) { return segment->info().id < first; });
    }
    for (;;) {
      Small merged = of_few_sizes(small);
      const auto stays = std::find_if(merged.begin(), merged.end(),
                                      [&](const SegmentPart* segment) { return !may_merge(*segment); });
      if (stays == merged.end()) return merged;
      std::erase(small, *stays);
    }
  }

  // Sizes begin with that of the tail and grow by a factor: as many of a size make a segment of the next,
  // together with all that are smaller.
  Small of_few_sizes(const Small& small) const {
    constexpr std::size_t kFactor = 4, kMostSmall = 16;
    const std::size_t full = layout_.segment_rows / 2;
    const auto smaller_than = [&](std::size_t rows) {
      Small some;
      std::copy_if(small.begin(), small.end(), std::back_inserter(some),
                   [&](const SegmentPart* segment) { return segment->info().live_rows < rows; });
      return some;
    };
    Small merged;
    for (std::size_t size = options_.trained_tail_rows; size < full; size *= kFactor) {
      const std::size_t smaller = smaller_than(size).size();
      Small all = smaller_than(std::min(size * kFactor, full));
      const std::size_t of_size = all.size() - smaller;
      const bool many = of_size + std::min<std::size_t>(smaller, 1) >= kFactor;
      if (many || all.size() >= kMostSmall) merged = std::move(all);
    }
    return merged;
  }

  // A commit is not to fail for what need not be done: all of the segment is read here, before anything is
  // written. Texts fill segments, too.
  bool may_merge(const SegmentPart& segment) {
    try {
      coder_.models();
      segment.rowids();
      segment.alive();
      for (std::size_t i = 0; i < layout_.vectors.size(); ++i) {
        if (!segment.decodes(i)) segment.vectors(i);
        if (!coder_.codes(i) || segment.info().vectors[i].is_null()) continue;
        if (segment.codes(i, base_.state.models[i]).is_null()) return false;
        segment.load_codes(i, nullptr);
      }
      for (std::size_t i = 0; i < layout_.plains.size(); ++i) segment.plain(i);
      return text_bytes(layout_, segment) <= options_.most_texts / 16;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt && error.kind() != ErrorKind::kNoMemory) throw;
    } catch (const std::bad_alloc&) {
    }
    return false;
  }

  // REQUIRES: i < chosen_segments_
  const SegmentPart& segment(std::size_t i) const {
    return static_cast<const SegmentPart&>(*sources_[i]);
  }

  void write_segments(Snapshot& next) {
    std::vector<SourceRow> rows = live_rows();
    const SourceAccess access(layout_, sources_);
    const std::vector<std::size_t> cuts =
        SegmentCutter<SourceRow, SourceAccess>(options_, access).cut(rows);
    std::span<SourceRow> rest = rows;
    for (std::size_t count : cuts) {
      storage::SegmentInfo info = write_segment(rest.first(count), next.state);
      kept_.push_back(std::make_shared<SegmentPart>(store_, options_, std::move(info)));
      rest = rest.subspan(count);
    }
  }

  std::vector<SourceRow> live_rows() const {
    std::vector<SourceRow> rows;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const Part& part = *sources_[i];
      const RowIdView rowids = part.rowids();
      const Texts texts(layout_, part);
      each_row(part, [&](std::uint32_t row) {
        rows.push_back({static_cast<std::uint32_t>(i), row, rowids[row], texts.bytes(row)});
      });
    }
    return rows;
  }

  // Source by source, so that only one of them is needed in memory at a time.
  storage::SegmentInfo write_segment(std::span<SourceRow> rows, storage::State& state) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const SourceRow& a, const SourceRow& b) { return a.source < b.source; });
    Chunk chunk(layout_, static_cast<std::uint32_t>(rows.size()), storage::kBlockHeader);
    Collectors collectors = make_collectors();
    for (std::size_t i = 0; i < rows.size();) {
      const std::uint32_t source = rows[i].source;
      const Part& part = *sources_[source];
      PartReader reader(layout_, part, [&](std::size_t column) {
        return layout_.codes_only && collects(column);
      });
      SparsePoll poll(1024);
      for (; i < rows.size() && rows[i].source == source; ++i) {
        poll();
        reader.copy(rows[i].row, chunk);
        for (auto& collector : collectors) collector.add(part, rows[i].row);
      }
    }
    std::vector<storage::RowRef> refs;
    for (std::uint32_t row = 0; row < chunk.size(); ++row) refs.push_back({&chunk, row});
    storage::SegmentInfo info = store_.seal_blocks(state, refs, storage::Store::Codes::kFollow);
    if (collectors.empty() && codes_) coder_.code(info, refs);
    const std::vector<std::uint32_t> order = rowid_order(chunk);
    for (auto& collector : collectors) collector.write(info, order);
    store_.write_entry(info);
    return info;
  }

  // Columns whose codes are moved.
  using Collectors = std::vector<Coder::Collector>;
  bool collects(std::size_t column) const {
    return coder_.gathers(column) && (layout_.codes_only || (codes_ && gathers_all_));
  }
  Collectors make_collectors() {
    Collectors collectors;
    for (std::size_t i = 0; i < layout_.vectors.size(); ++i) {
      if (collects(i)) collectors.emplace_back(coder_, i);
    }
    return collectors;
  }
  static std::vector<std::uint32_t> rowid_order(const Chunk& chunk) {
    std::vector<std::uint32_t> order(chunk.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return chunk.rowids()[a] < chunk.rowids()[b];
    });
    return order;
  }

  storage::Store& store_;
  const TableOptions& options_;
  const Layout& layout_;
  const Snapshot& base_;
  const std::vector<std::shared_ptr<const View>>& readers_;
  Coder coder_;
  bool codes_ = true;
  bool gathers_all_ = true;  // of all columns that have codes
  SegmentList::Parts kept_;                           // and what was written
  std::vector<std::shared_ptr<const Part>> sources_;  // chosen segments, then the tail
  std::size_t chosen_segments_ = 0;
};

}  // namespace

std::shared_ptr<const Snapshot> rewrite(const WriteContext& context, RewriteScope scope) {
  Rewriter rewriter(context);
  return rewriter.choose(scope) ? rewriter.run() : context.base;
}

std::shared_ptr<const Snapshot> merge_small(const WriteContext& context, std::int64_t first) {
  Rewriter rewriter(context);
  return rewriter.choose_small(first) ? rewriter.run() : context.base;
}

}  // namespace warplite::engine
