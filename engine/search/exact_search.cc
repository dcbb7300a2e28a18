#include "engine/search/exact_search.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compute/device.h"
#include "engine/residency/attempt.h"
#include "engine/residency/handing_over.h"
#include "engine/residency/readiness.h"
#include "engine/residency/residency.h"
#include "engine/residency/together.h"
#include "engine/residency/uploader.h"
#include "engine/search/device_set.h"
#include "engine/search/exact_outcomes.h"
#include "engine/search/exact_parts.h"
#include "engine/search/handed_blocks.h"
#include "engine/search/multi_device.h"
#include "engine/search/search_block.h"
#include "engine/table/block_reader.h"

namespace warplite::engine {
namespace {

// Devices that are not handed a column's vectors for now.
struct Refused {
  std::vector<Refusals> columns;
};

using Devices = Attempt::Devices;

class ExactSearch {
 public:
  // `only`: the parts that are searched, or null.
  ExactSearch(const View& view, const Selection& rows, const SearchRequest& request,
              Outcome& outcome, const std::vector<std::uint32_t>* only = nullptr)
      : view_(view),
        rows_(rows),
        request_(request),
        outcome_(outcome),
        only_(only),
        parts_(view, rows, request, only) {
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
  }

  void run() {
    if (request_.report != nullptr) request_.report->rows += parts_.selected_rows() * request_.queries.rows;
    Attempt attempt(demand(), Attempt::Use::kAll, [this](Devices devices) { return ready(devices); });
    named_ = attempt.named();
    attempt.run([this](Devices devices, compute::Device*& failed) {
      const Status status = search(devices, failed);
      if (!status.ok()) let_go();
      return status;
    });
  }

 private:
  Demand demand() const {
    const double bytes = static_cast<double>(parts_.selected_rows()) *
                         static_cast<double>(request_.queries.stride()) *
                         static_cast<double>(request_.queries.rows);
    return {request_.device, Ability::vectors(request_.queries.type, request_.distance), bytes,
            request_.cancellation};
  }

  // Says whether the devices hold, or may soon hold, what is searched. If not, what they lack is
  // copied in the background; or by the search, where host memory has no room to wait for that.
  bool ready(Devices devices) {
    if (knows(*devices[0]) || takes_over(devices)) return true;
    if (!parts_.fits()) return false;
    SharePlan& plan = plan_of(devices);
    const bool ready = std::all_of(plan.shares.begin(), plan.shares.end(),
                                   [](const Share& share) { return share.ready(); });
    if (plan.fits && ready) return true;
    for (const Share& share : plan.shares) {
      if (plan.fits) share.request();
    }
    plan_.reset();  // it is for these devices
    return false;
  }

  // Says whether devices alone have, or are to have, what is searched, as host memory has no room for the column. For
  // that, only parts are read that the search would read anyway.
  bool takes_over(Devices devices) {
    if (parts_.column_fits()) return false;
    for (compute::Device* device : devices) {
      if (!device->own_memory() || refusals().include(*device)) return false;
    }
    handed_ = HandedBlocks::plan(view_, request_, parts_.sealed(), devices);
    if (handed_ == nullptr) return false;
    const std::vector<std::uint32_t>& lacking = handed_->lacking();
    const bool costs_more = std::any_of(lacking.begin(), lacking.end(), [&](std::uint32_t part) {
      return parts_.fits() || parts_.reads_rows(part);
    });
    if (costs_more) handed_ = nullptr;
    return handed_ != nullptr;
  }
  Refusals& refusals() const {
    auto& known = view_.derived_of_segments().of<Refused>().columns;
    if (known.size() <= request_.column) known.resize(request_.column + 1);
    return known[request_.column];
  }

  // Hands the selected rows to the devices, at once when they fit into the memory budget, or that of devices, else
  // group by group.
  Status search(Devices devices, compute::Device*& failed) {
    failed_ = &failed;
    if (begun_) begin_again();
    begun_ = true;
    const auto began = std::chrono::steady_clock::now();
    Status status;
    try {
      status = search_all(devices);
    } catch (const NotTaken& error) {
      refusals().note(*failed, std::chrono::steady_clock::now() - began);
      status = {error.kind(), error.what()};
    }
    if (status.ok()) {
      if (!numbers_.empty()) number_hits();
      for (compute::Device* device : used_) device->count_search();
    }
    return status;
  }

  void begin_again() {
    outcome_.clear();
    plan_.reset();
    used_.clear();
    numbers_.clear();
  }

  // Of what devices have.
  void let_go() {
    sets_.clear();
    if (handed_ == nullptr) return;
    plan_.reset();
    handed_ = nullptr;
    whole_.clear();
    segments_ = rest_ = nullptr;
  }

  Status search_all(Devices devices) {
    const auto known = known_on(*devices[0]);  // stays there
    if (known == nullptr && handed_ == nullptr) takes_over(devices);
    const bool whole = parts_.fits() || known != nullptr || handed_ != nullptr;
    return whole ? search_whole(devices) : search_groups(devices);
  }

  // What an earlier search of this view left for a device, or null.
  std::shared_ptr<DeviceSet> known_set(const compute::Device& device) const {
    return only_ != nullptr ? nullptr : sets().find(request_.column, device);
  }
  // The same of another view, whose segments were these.
  std::shared_ptr<DeviceSet> known_segments(const compute::Device& device) const {
    if (only_ != nullptr || view_.shared_segments() == 0) return nullptr;
    return sets_of_segments().find(request_.column, device);
  }
  std::shared_ptr<DeviceSet> known_on(const compute::Device& device) const {
    auto set = known_set(device);
    return set != nullptr ? set : known_segments(device);
  }
  bool knows(const compute::Device& device) const { return known_on(device) != nullptr; }
  HeldSets<DeviceSet>& sets() const { return view_.derived().of<HeldSets<DeviceSet>>(); }
  HeldSets<DeviceSet>& sets_of_segments() const {
    return view_.derived_of_segments().of<HeldSets<DeviceSet>>();
  }

  SharePlan& plan_of(Devices devices) {
    load_all();
    if (!plan_) {
      plan_ = handed_ != nullptr ? share_handed(devices, whole_) : plan_shares(devices, whole_);
    }
    return *plan_;
  }

  // One device holds everything, and others that do take their part of the queries; or the blocks are spread.
  Status search_whole(Devices devices) {
    if (!knows(*devices[0])) {
      const std::vector<Share>& shares = plan_of(devices).shares;
      const bool alone = shares.size() == 1 && shares[0].device == devices[0];
      // A set of what only some searches touch would cost more than it saves.
      if (!alone || !parts_.everywhere() || only_ != nullptr || whole_.empty()) return search_shares(devices);
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
    if (!sets_.empty()) return search_sets();
    return parts_.fits() || handed_ != nullptr ? search_shares(devices) : search_groups(devices);
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
    if (!parts_.everywhere() || !parts_.fits() || handed_ != nullptr) return false;
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
    const bool all = parts_.selected_rows() == parts_.live_rows();
    const bool shares = parts_.selected_rows() * compute::kSharingPart >= parts_.live_rows();
    Workset some(set.device().takes_own_terms() && shares);
    if (!all) {
      set.select(rows_, some);
      work.filter = rows_.number();
    }
    work.blocks = all ? set.all() : some.blocks();
    return work.blocks.empty() ? Status{} : outcome.add(set.device(), work);
  }

  void load_all() {
    if (segments_ != nullptr) return;
    auto blocks = std::make_shared<SearchBlocks>();
    if (parts_.fits() && handed_ == nullptr) read_selected(0, view_.parts());
    parts_.for_each(0, view_.shared_segments(), [&](std::uint32_t i) { load(i, *blocks); });
    segments_ = std::move(blocks);
    load_rest();
    for (const SearchBlock& block : *segments_) whole_.push_back(&block);
    for (const SearchBlock& block : *rest_) whole_.push_back(&block);
  }

  // Whole parts, since a set of them may serve searches of other rows; of those that devices alone have no more than
  // are searched, of which there is only a set where these are all.
  void load_rest() {
    if (rest_ != nullptr) return;
    auto blocks = std::make_shared<SearchBlocks>();
    parts_.for_each(view_.shared_segments(), view_.parts(), [&](std::uint32_t i) {
      handed_ == nullptr ? load_whole(i, *blocks) : load(i, *blocks);
    });
    rest_ = std::move(blocks);
  }

  // REQUIRES: they fit into memory.
  void read_selected(std::size_t first, std::size_t end) const {
    std::vector<const Part*> parts, of_rows;
    parts_.for_each(first, end, [&](std::uint32_t i) {
      if (parts_.selected(i) == 0) return;
      (parts_.reads_rows(i) ? of_rows : parts).push_back(&view_.part(i));
    });
    read_ahead(std::move(parts), Part::Ahead::kVectors, request_.column);
    read_ahead(std::move(of_rows), Part::Ahead::kRows, request_.column);
  }
  void load(std::uint32_t part, SearchBlocks& blocks) const {
    if (parts_.selected(part) == 0) return;
    if (handed_ != nullptr && handed_->device_of(part) != nullptr) return load_handed(part, blocks);
    if (!parts_.reads_rows(part)) return load_whole(part, blocks);
    SearchBlock block;
    if (load_some(view_, request_.column, part, rows_, block)) blocks.push_back(std::move(block));
  }
  void load_handed(std::uint32_t part, SearchBlocks& blocks) const {
    SearchBlock block;
    *failed_ = handed_->device_of(part);
    if (handed_->load(part, block)) blocks.push_back(std::move(block));
  }
  void load_whole(std::uint32_t part, SearchBlocks& blocks) const {
    SearchBlock block;
    if (!load_block(view_, request_.column, part, block)) return;
    // A block that does not stay in memory is searched once, so nothing is made of it.
    if (!parts_.fits()) block.block.host = nullptr;
    blocks.push_back(std::move(block));
  }

  Status search_groups(Devices devices) {
    std::size_t held = 0, first = 0;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      if (parts_.selected(i) == 0) continue;
      const std::size_t bytes = parts_.bytes_read(i);
      if (held > 0 && held + bytes > parts_.group_budget()) {
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
    parts_.for_each(first, end, [&](std::uint32_t i) { load(i, group); });
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
  const std::vector<std::uint32_t>* const only_;
  compute::Workload work_;  // lacks its blocks
  const ExactParts parts_;
  std::unique_ptr<HandedBlocks> handed_;  // null: devices read what the host has
  // When it fits, or devices have it: blocks of the segments that views share, and of all other parts.
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
                                std::size_t k, const std::vector<std::uint32_t>* only) {
  NearestOutcome best(index, compute::HitTable(request.queries.rows, k));
  ExactSearch(view, rows, request, best, only).run();
  return best.take();
}

compute::HitLists exact_within(const View& view, const Selection& rows, const index::Index& index,
                               const SearchRequest& request) {
  WithinOutcome hits(index, request.queries.rows);
  if (request.queries.rows != 0) ExactSearch(view, rows, request, hits).run();
  return hits.take();
}

}  // namespace warplite::engine
