#include "engine/search/exact_search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compute/device.h"
#include "engine/residency/attempt.h"
#include "engine/residency/readiness.h"
#include "engine/residency/residency.h"
#include "engine/residency/together.h"
#include "engine/residency/uploader.h"
#include "engine/search/device_set.h"
#include "engine/search/multi_device.h"
#include "engine/search/outcome.h"
#include "engine/search/read_costs.h"
#include "engine/search/search_block.h"
#include "engine/table/block_reader.h"

namespace warplite::engine {
namespace {

class NearestOutcome : public Outcome {
 public:
  NearestOutcome(const index::Index& index, compute::HitTable best)
      : index_(index), best_(std::move(best)) {}

  compute::HitTable take() { return std::move(best_); }

  Status add(compute::Device& device, const compute::Workload& work) override {
    return index_.nearest(device, work, best_);
  }
  void clear() override { best_ = compute::HitTable(best_.queries(), best_.k()); }
  void for_each(const std::function<void(Hit&)>& change) override {
    for (std::size_t q = 0; q < best_.queries(); ++q) best_.row(q).for_each(change);
  }
  std::unique_ptr<Outcome> share(std::size_t queries) const override {
    return std::make_unique<NearestOutcome>(index_, compute::HitTable(queries, best_.k()));
  }
  std::unique_ptr<Outcome> slice(std::size_t first, std::size_t queries) override {
    return std::make_unique<NearestOutcome>(index_, best_.slice(first, queries));
  }
  void merge(Outcome& share, std::size_t first) override {
    best_.merge(std::move(static_cast<NearestOutcome&>(share).best_), first);
  }

 private:
  const index::Index& index_;
  compute::HitTable best_;
};

class WithinOutcome : public Outcome {
 public:
  WithinOutcome(const index::Index& index, std::size_t queries) : index_(index), hits_(queries) {}

  compute::HitLists take() { return std::move(hits_); }

  Status add(compute::Device& device, const compute::Workload& work) override {
    return index_.within(device, work, hits_);
  }
  void clear() override {
    for (std::vector<Hit>& hits : hits_) hits.clear();
  }
  void for_each(const std::function<void(Hit&)>& change) override {
    for (std::vector<Hit>& hits : hits_) std::for_each(hits.begin(), hits.end(), change);
  }
  std::unique_ptr<Outcome> share(std::size_t queries) const override {
    return std::make_unique<WithinOutcome>(index_, queries);
  }
  void merge(Outcome& share, std::size_t first) override {
    compute::HitLists& theirs = static_cast<WithinOutcome&>(share).hits_;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      std::vector<Hit>& mine = hits_[first + i];
      if (mine.empty()) {
        mine.swap(theirs[i]);
      } else {
        mine.insert(mine.end(), theirs[i].begin(), theirs[i].end());
      }
    }
  }

 private:
  const index::Index& index_;
  compute::HitLists hits_;
};

// Bytes of the vectors of the segments that views share.
struct SegmentBytes {
  std::vector<std::optional<std::size_t>> of_columns;
};

using Devices = Attempt::Devices;

class ExactSearch {
 public:
  // `but`: parts to leave out, or null.
  ExactSearch(const View& view, const Selection& rows, const SearchRequest& request,
              Outcome& outcome, const std::vector<bool>* but = nullptr)
      : view_(view), rows_(rows), request_(request), outcome_(outcome), but_(but) {
    work_.distance = request.distance;
    work_.queries = request.queries;
    work_.range = request.range;
    work_.has_after = request.has_after;
    work_.after_distance = request.after_distance;
    work_.after_rowid = request.after_rowid;
    work_.cancellation = request.cancellation;
    work_.select = request.select;
    work_.budget = &Residency::instance();
    if (request.report != nullptr) work_.counters = &request.report->counters;
    const std::size_t total = but == nullptr && rows.everything() ? count_all() : count_some();
    const std::size_t limit = Residency::instance().limit();
    fits_ = !choose_rows(limit) && total <= limit;
    group_budget_ = fits_ ? total : limit / 2;
  }

  void run() {
    if (request_.report != nullptr) request_.report->rows += selected_ * request_.queries.rows;
    Attempt attempt(demand(), Attempt::Use::kAll, [this](Devices devices) { return ready(devices); });
    named_ = attempt.named();
    attempt.run([this](Devices devices, compute::Device*& failed) {
      const Status status = search(devices, failed);
      if (!status.ok()) sets_.clear();
      return status;
    });
  }

 private:
  // Count rows, and return the bytes of their parts.
  std::size_t count_all() {
    selected_ = live_ = rows_.count();
    auto& known = view_.derived_of_segments().of<SegmentBytes>().of_columns;
    if (known.size() <= request_.column) known.resize(request_.column + 1);
    std::optional<std::size_t>& segments = known[request_.column];
    if (!segments) segments = bytes_of(0, view_.shared_segments());
    return *segments + bytes_of(view_.shared_segments(), view_.parts());
  }
  std::size_t bytes_of(std::size_t first, std::size_t end) const {
    std::size_t bytes = 0;
    for (std::size_t i = first; i < end; ++i) {
      if (selected(i) != 0) bytes += view_.part(i).vector_bytes(request_.column);
    }
    return bytes;
  }
  std::size_t count_some() {
    std::size_t total = 0;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      selected_ += selected(i);
      live_ += view_.part(i).live_rows();
      const std::size_t bytes = view_.part(i).vector_bytes(request_.column);
      column_bytes_ += bytes;
      if (selected(i) != 0) {
        total += bytes;
      } else if (view_.part(i).live_rows() != 0) {
        everywhere_ = false;
      }
    }
    return total;
  }

  // Chooses parts of which rows are read by themselves. False: there is none. Where memory has no
  // room for the column, whole parts would take the place of what the next search needs. What tells
  // rows from damaged ones is remembered of each part, and must find room.
  bool choose_rows(std::size_t limit) {
    constexpr std::size_t kRemembered = 300, kShare = 8;  // parts of the bytes, and of memory
    if (column_bytes_ <= limit || column_bytes_ / kRemembered > limit / kShare) return false;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      if (!few(i) || !view_.part(i).lacks(Part::Ahead::kVectors, request_.column)) continue;
      by_rows_.resize(view_.parts());
      by_rows_[i] = true;
    }
    return !by_rows_.empty();
  }
  // Says whether to read the selected rows takes less than to read the part, as several threads do.
  bool few(std::size_t i) const {
    constexpr unsigned kMostReaders = 8;
    const double readers = std::min(compute::thread_count(), kMostReaders);
    return selected(i) != 0 && rows_cost(selected(i), request_.queries.stride()) * readers <=
                                   block_cost(view_.part(i).vector_bytes(request_.column));
  }
  bool reads_rows(std::size_t part) const { return !by_rows_.empty() && by_rows_[part]; }
  // Bytes that are read of a part.
  std::size_t bytes_read(std::size_t part) const {
    return reads_rows(part) ? selected(part) * request_.queries.stride()
                            : view_.part(part).vector_bytes(request_.column);
  }

  std::uint32_t selected(std::size_t part) const {
    return is_left_out(part) ? 0 : rows_.part(part).count;
  }
  bool is_left_out(std::size_t part) const {
    return but_ != nullptr && part < but_->size() && (*but_)[part];
  }

  Demand demand() const {
    const double bytes = static_cast<double>(selected_) *
                         static_cast<double>(request_.queries.stride()) *
                         static_cast<double>(request_.queries.rows);
    return {request_.device, Ability::vectors(request_.queries.type, request_.distance), bytes,
            request_.cancellation};
  }

  // Says whether the devices hold, or may soon hold, what is searched. If not, what they lack is
  // copied in the background.
  bool ready(Devices devices) {
    if (!fits_) return false;
    if (knows(*devices[0])) return true;
    SharePlan& plan = plan_of(devices);
    const bool ready = std::all_of(plan.shares.begin(), plan.shares.end(),
                                   [](const Share& share) { return share.ready(); });
    if (plan.fits && ready) return true;
    for (Share& share : plan.shares) {
      if (plan.fits) Uploader::instance().request(*share.device, std::move(share.missing));
    }
    plan_.reset();  // it is for these devices
    return false;
  }

  // Hands the selected rows to the devices, at once when they fit into the memory budget, else
  // group by group.
  Status search(Devices devices, compute::Device*& failed) {
    failed_ = &failed;
    if (begun_) {
      outcome_.clear();
      plan_.reset();
    }
    begun_ = true;
    sets_.clear();
    used_.clear();
    numbers_.clear();
    Status status = fits_ ? search_whole(devices) : search_groups(devices);
    if (status.ok()) {
      if (!numbers_.empty()) number_hits();
      for (compute::Device* device : used_) device->count_search();
    }
    return status;
  }

  // What an earlier search of this view left for a device, or null.
  std::shared_ptr<DeviceSet> known_set(const compute::Device& device) const {
    return but_ != nullptr ? nullptr : sets().find(request_.column, device);
  }
  // The same of another view, whose segments were these.
  std::shared_ptr<DeviceSet> known_segments(const compute::Device& device) const {
    if (but_ != nullptr || view_.shared_segments() == 0) return nullptr;
    return sets_of_segments().find(request_.column, device);
  }
  bool knows(const compute::Device& device) const {
    return known_set(device) != nullptr || known_segments(device) != nullptr;
  }
  HeldSets<DeviceSet>& sets() const { return view_.derived().of<HeldSets<DeviceSet>>(); }
  HeldSets<DeviceSet>& sets_of_segments() const {
    return view_.derived_of_segments().of<HeldSets<DeviceSet>>();
  }

  SharePlan& plan_of(Devices devices) {
    load_all();
    if (!plan_) plan_ = plan_shares(devices, whole_);
    return *plan_;
  }

  // One device holds everything, and others that do take their part of the queries; or the blocks are spread.
  Status search_whole(Devices devices) {
    if (!knows(*devices[0])) {
      const bool alone = plan_of(devices).shares.size() == 1;
      // A set of what only some searches touch would cost more than it saves.
      if (!alone || !everywhere_ || but_ != nullptr || whole_.empty()) return search_shares(devices);
    }
    for (compute::Device* device : sharing(devices)) {
      *failed_ = device;
      Status status;
      if (auto set = set_on(*device, status)) {
        sets_.push_back(std::move(set));
      } else if (status.kind != ErrorKind::kNoMemory) {
        return status;
      }
    }
    return sets_.empty() ? search_shares(devices) : search_sets();
  }

  // The first device, and others that hold everything where there are queries for them. What those lack that
  // do not is copied in the background, unless they were named.
  std::vector<compute::Device*> sharing(Devices devices) {
    // Times a device's worthwhile_bytes(): some 0.3 ms of an H100, three times what a thread for it costs.
    constexpr double kWorthADevice = 30000;
    const double each = kWorthADevice * static_cast<double>(devices.front()->worthwhile_bytes());
    std::size_t most = devices_sharing(work_.queries.rows, devices.size(), kLeastExact);
    while (most > 1 && demand().bytes_compared < each * static_cast<double>(most)) --most;
    std::vector<compute::Device*> sharing = {devices.front()};
    for (compute::Device* device : devices.subspan(1)) {
      if (sharing.size() < most && holds(*device)) sharing.push_back(device);
    }
    return sharing;
  }
  bool holds(compute::Device& device) {
    if (knows(device)) return true;
    if (!everywhere_) return false;
    load_all();
    std::vector<Uploader::Item> items;
    for (const SearchBlock* block : whole_) {
      if (block->cached()) items.push_back({block->vectors.key, block->vectors.resident});
    }
    return engine::holds(device, std::move(items), named_);
  }

  // Null, and an error, where the device cannot hold everything.
  std::shared_ptr<DeviceSet> set_on(compute::Device& device, Status& status) {
    if (auto set = known_set(device)) return set;
    std::shared_ptr<DeviceSet> segments = known_segments(device);
    if (segments == nullptr) {
      load_all();
      if (!segments_->empty()) {
        segments = DeviceSet::create(device, segments_, nullptr, request_.cancellation, status);
        if (segments == nullptr) return segments;
        if (view_.shared_segments() != 0 && segments->lasting()) {
          sets_of_segments().add(request_.column, segments);
        }
      }
    }
    load_rest();
    if (rest_->empty() && segments != nullptr) return segments;
    auto set = DeviceSet::create(device, rest_, segments, request_.cancellation, status);
    if (set != nullptr && set->lasting()) sets().add(request_.column, set);
    return set;
  }

  // Each takes its part of the queries.
  Status search_sets() {
    const std::size_t parts = sets_.size(), queries = work_.queries.rows;
    std::vector<std::unique_ptr<Outcome>> found(parts);
    for (std::size_t i = 0; i < parts; ++i) {
      sets_[i]->use();
      used_.push_back(&sets_[i]->device());
      const std::size_t first = first_query(i, parts, queries);
      if (parts > 1) found[i] = outcome_.slice(first, first_query(i + 1, parts, queries) - first);
    }
    const auto search_part = [&](std::size_t i, compute::Cancellation* cancellation) {
      const std::size_t first = first_query(i, parts, queries);
      compute::Workload work = work_;
      work.queries.data += first * work.queries.stride();
      work.queries.rows = first_query(i + 1, parts, queries) - first;
      work.cancellation = cancellation;
      return search_set(*sets_[i], work, parts > 1 ? *found[i] : outcome_);
    };
    std::size_t number = 0;
    const Status status = run_together(parts, request_.cancellation, search_part, number);
    *failed_ = &sets_[number]->device();
    for (std::size_t i = 0; parts > 1 && status.ok() && i < parts; ++i) {
      outcome_.merge(*found[i], first_query(i, parts, queries));
    }
    return status;
  }

  // May be called on any thread.
  Status search_set(const DeviceSet& set, compute::Workload& work, Outcome& outcome) const {
    Workset some(set.device().takes_own_terms() && selected_ * compute::kSharingPart >= live_);
    if (selected_ != live_) {
      set.select(rows_, some);
      work.filter = rows_.number();
    }
    work.blocks = selected_ == live_ ? set.all() : some.blocks();
    return work.blocks.empty() ? Status{} : outcome.add(set.device(), work);
  }

  void load_all() {
    if (segments_ != nullptr) return;
    auto blocks = std::make_shared<SearchBlocks>();
    if (fits_) read_selected(0, view_.parts());
    for (std::uint32_t i = 0; i < view_.shared_segments(); ++i) load(i, *blocks);
    segments_ = std::move(blocks);
    load_rest();
    for (const SearchBlock& block : *segments_) whole_.push_back(&block);
    for (const SearchBlock& block : *rest_) whole_.push_back(&block);
  }

  // Whole parts, since a set of them may serve searches of other rows.
  void load_rest() {
    if (rest_ != nullptr) return;
    auto blocks = std::make_shared<SearchBlocks>();
    for (auto i = static_cast<std::uint32_t>(view_.shared_segments()); i < view_.parts(); ++i) {
      if (!is_left_out(i)) load_whole(i, *blocks);
    }
    rest_ = std::move(blocks);
  }

  // REQUIRES: they fit into memory.
  void read_selected(std::size_t first, std::size_t end) const {
    std::vector<const Part*> parts, of_rows;
    for (std::size_t i = first; i < end; ++i) {
      if (selected(i) != 0) (reads_rows(i) ? of_rows : parts).push_back(&view_.part(i));
    }
    read_ahead(std::move(parts), Part::Ahead::kVectors, request_.column);
    read_ahead(std::move(of_rows), Part::Ahead::kRows, request_.column);
  }
  void load(std::uint32_t part, SearchBlocks& blocks) const {
    if (selected(part) == 0) return;
    if (!reads_rows(part)) return load_whole(part, blocks);
    SearchBlock block;
    if (load_some(view_, request_.column, part, rows_, block)) blocks.push_back(std::move(block));
  }
  void load_whole(std::uint32_t part, SearchBlocks& blocks) const {
    SearchBlock block;
    if (!load_block(view_, request_.column, part, block)) return;
    // A block that does not stay in memory is searched once, so nothing is made of it.
    if (!fits_) block.block.host = nullptr;
    blocks.push_back(std::move(block));
  }

  Status search_groups(Devices devices) {
    std::size_t held = 0, first = 0;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      if (selected(i) == 0) continue;
      const std::size_t bytes = bytes_read(i);
      if (held > 0 && held + bytes > group_budget_) {
        if (Status status = search_group(devices, first, i); !status.ok()) return status;
        first = i;
        held = 0;
      }
      held += bytes;
    }
    return search_group(devices, first, view_.parts());
  }

  Status search_group(Devices devices, std::size_t first, std::size_t end) {
    SearchBlocks group;
    read_selected(first, end);
    for (std::size_t i = first; i < end; ++i) load(static_cast<std::uint32_t>(i), group);
    if (group.empty()) return {};
    std::vector<const SearchBlock*> blocks;
    for (const SearchBlock& block : group) blocks.push_back(&block);
    const Status status = search_shares(plan_shares(devices, blocks));
    for (SearchBlock& block : group) {
      if (block.some.empty()) continue;
      numbers_.resize(view_.parts());
      numbers_[block.block.id] = std::move(block.some);
    }
    return status;
  }
  // Hits in rows that were read by themselves have these rows' places among one another.
  void number_hits() {
    outcome_.for_each([this](Hit& hit) {
      if (!numbers_[hit.block].empty()) hit.row = numbers_[hit.block][hit.row];
    });
  }

  Status search_shares(Devices devices) {
    const SharePlan plan = std::move(plan_of(devices));
    plan_.reset();
    return search_shares(plan);
  }
  Status search_shares(const SharePlan& plan) {
    for (const Share& share : plan.shares) {
      if (std::find(used_.begin(), used_.end(), share.device) == used_.end()) {
        used_.push_back(share.device);
      }
    }
    return engine::search_shares(plan, rows_, work_, outcome_, *failed_);
  }

  const View& view_;
  const Selection& rows_;
  const SearchRequest& request_;
  Outcome& outcome_;
  const std::vector<bool>* const but_;
  compute::Workload work_;       // lacks its blocks
  std::uint64_t selected_ = 0;   // rows
  std::uint64_t live_ = 0;       // rows
  bool everywhere_ = true;       // rows of every part that has any are selected
  bool fits_ = false;            // all of it, into the memory budget
  std::size_t column_bytes_ = 0;  // of all parts, if only some rows are searched
  std::vector<bool> by_rows_;     // parts of which rows are read by themselves; empty: none
  std::size_t group_budget_ = 0;
  // When it fits: blocks of the segments that views share, and of all other parts.
  std::shared_ptr<const SearchBlocks> segments_, rest_;
  std::vector<const SearchBlock*> whole_;
  std::vector<std::shared_ptr<DeviceSet>> sets_;  // in use: what else is there goes first
  std::optional<SharePlan> plan_;  // of `whole_`, for the next search
  bool named_ = false;             // the devices were
  bool begun_ = false;             // the outcome may hold something
  std::vector<std::vector<std::uint32_t>> numbers_;  // SearchBlock::some, by part; or empty
  std::vector<compute::Device*> used_;
  compute::Device** failed_ = nullptr;  // where to say which device did
};

}  // namespace

compute::HitTable exact_nearest(const View& view, const Selection& rows,
                                const index::Index& index, const SearchRequest& request,
                                std::size_t k, const std::vector<bool>* but) {
  NearestOutcome best(index, compute::HitTable(request.queries.rows, k));
  ExactSearch(view, rows, request, best, but).run();
  return best.take();
}

compute::HitLists exact_within(const View& view, const Selection& rows, const index::Index& index,
                               const SearchRequest& request) {
  WithinOutcome hits(index, request.queries.rows);
  if (request.queries.rows != 0) ExactSearch(view, rows, request, hits).run();
  return hits.take();
}

}  // namespace warplite::engine
