// ListSearch, its devices: which of them hold what is searched, all of it or a share each, and what
// becomes of it where none has room.
#include <algorithm>
#include <chrono>
#include <utility>

#include "core/system.h"
#include "engine/ivf/list_search.h"
#include "engine/residency/readiness.h"
#include "engine/residency/together.h"

namespace warplite::engine {

bool ListSearch::can_be_handed(compute::Device& device) const {
  if (shape_.m == 0 || !device.own_memory() || !is_counted_by(device)) return false;
  return known_set(device, parts()) != nullptr ||
         !memo_of_lists().refusals(request_.column).include(device);
}

bool ListSearch::has_room(compute::Device& device) const {
  return bytes_ + model_bytes(model_) <= Residency::instance().holding(device, {}).budget;
}

bool ListSearch::takes_over(compute::Device& device) const {
  return !fits_ && can_be_handed(device) && has_room(device);
}

std::vector<RunShare> ListSearch::spread(Attempt::Devices devices, const Reach& reach) const {
  if (devices.size() < 2 || rescorer_ || has_room(*devices.front())) return {};
  // Where these are counted, devices may have them in another order (compute/ivf.h).
  constexpr std::uint32_t kInOrder = 8192;
  if (watches_filter() && reach.nprobe == shape_.lists && shape_.lists > kInOrder) return {};
  for (compute::Device* device : devices) {
    if (!is_counted_by(*device) || (!fits_ && !can_be_handed(*device))) return {};
  }
  const auto shares = [&](Extent extent) {
    return spread_runs(*coded_, bytes_of_runs(extent), parts(), model_bytes(model_), devices);
  };
  // The host has to have what devices read in place.
  const bool in_place = fits_ && std::all_of(devices.begin(), devices.end(), [](auto* device) {
    return Residency::instance().holding(*device, {}).maps;
  });
  const std::vector<RunShare> whole = shares(Extent::kAll);
  return whole.empty() && in_place ? shares(Extent::kHot) : whole;
}

std::vector<std::size_t> ListSearch::bytes_of_runs(Extent extent) const {
  std::vector<std::size_t> bytes;
  for (const CodedParts::Run& run : coded_->runs) {
    const bool any = has_any(run, parts());
    std::size_t& more = bytes.emplace_back(any ? run_bytes(shape_, run.rows, extent) : 0);
    for (std::size_t i = run.first; any && with_vectors_ && i < run.first + run.count; ++i) {
      if (parts()[i]) more += coded_->bytes[i];
    }
  }
  return bytes;
}

bool ListSearch::ready(Attempt::Devices devices) {
  const std::vector<RunShare> shares = spread(devices, reach_);
  if (shares.empty()) return fits_ ? ready(*devices.front(), wanted_) : takes_over(*devices.front());
  // What is lacking is asked for on all of them.
  bool all = true;
  for (const RunShare& share : shares) all &= !fits_ || ready(*share.device, share.parts);
  return all;
}

bool ListSearch::ready(compute::Device& device, const std::vector<bool>& parts) {
  if (!device.own_memory()) return true;
  if (known_set(device, parts) != nullptr) return true;
  if (parts != wanted_) return engine::ready(device, load(parts)->items(device));
  load_all();
  return engine::ready(device, loaded_->items(device));
}

std::vector<compute::Device*> ListSearch::answering(Attempt::Devices devices,
                                                    std::size_t queries, bool named) {
  std::vector<compute::Device*> answering = {devices.front()};
  if (!fits_ || rescorer_) return answering;
  const std::size_t most = devices_sharing(queries, devices.size(), kLeastOfLists);
  for (compute::Device* device : devices.subspan(1)) {
    if (answering.size() == most) break;
    if (known_set(*device, wanted_) == nullptr) {
      load_all();
      if (!holds(*device, loaded_->items(*device), named)) continue;
    }
    answering.push_back(device);
  }
  return answering;
}

Status ListSearch::search(Attempt::Devices devices, const Queries& queries, const Reach& reach,
                          Sights& sights, compute::HitTable& best, compute::Device*& failed) {
  std::vector<std::shared_ptr<IvfSet>> sets;  // none: groups of runs, one after the other
  const bool whole = fits_ || takes_over(*devices.front());
  for (std::size_t i = 0; whole && i < devices.size(); ++i) {
    failed = devices[i];
    Status status;
    sets.push_back(use_set(*devices[i], parts(), status));
    if (sets.back() == nullptr) return status;
  }
  const auto first_of = [&](std::size_t part) {
    return first_query(part, devices.size(), queries.given.rows);
  };
  for (std::size_t i = 0; i < devices.size(); ++i) {  // on this thread, which can be interrupted
    if (!rotates(*devices[i], first_of(i + 1) - first_of(i))) queries.in_model_space();
  }
  const auto search_part = [&](std::size_t i, compute::Cancellation* cancellation) {
    const std::size_t first = first_of(i);
    compute::IvfWork work =
        work_for(*devices[i], queries, first, first_of(i + 1) - first, reach, sights);
    work.cancellation = cancellation;
    if (sets.empty()) return search_groups(*devices[i], work, best);
    if (devices.size() == 1) return search_on(*sets[i], work, best);
    compute::HitTable found = best.slice(first, work.queries.rows);
    return search_on(*sets[i], work, found);
  };
  std::size_t number = 0;
  const Status status =
      run_together(devices.size(), request_.cancellation, search_part, number);
  failed = devices[number];
  for (compute::Device* device : devices) {
    if (status.ok()) device->count_search();
  }
  return status;
}

compute::IvfWork ListSearch::work_for(const compute::Device& device, const Queries& queries,
                                      std::size_t first, std::size_t count, const Reach& reach,
                                      Sights& sights) const {
  compute::IvfWork work;
  work.distance = request_.distance;
  work.queries = queries.given;
  work.queries.data = queries.given.row(first);
  work.queries.rows = count;
  if (!rotates(device, count)) work.model_queries = queries.in_model_space() + first * shape_.dim;
  work.nprobe = reach.nprobe;
  work.by_contrast = reach.by_contrast;
  if (!sights.searched.empty()) work.searched = sights.searched.data() + first;
  work.refine = reach.refine;
  work.codes_decide = codes_decide(reach);
  if (sights.left.empty()) return work;
  work.may_compare_all = watches_filter();
  work.most_told = sights.told;
  work.probed = sights.lists.data() + first * sights.told;
  work.left = sights.left.data() + first;
  return work;
}

Status ListSearch::search_spread(std::span<const RunShare> shares, const Queries& queries,
                                 const Reach& reach, Sights& sights, compute::HitTable& best,
                                 compute::Device*& failed) {
  std::vector<std::shared_ptr<IvfSet>> sets;
  std::vector<compute::HitTable> found;
  std::vector<Sights> seen(shares.size(), sights);
  for (const RunShare& share : shares) {
    failed = share.device;
    Status status;
    sets.push_back(use_set(*share.device, share.parts, status));
    if (sets.back() == nullptr) return status;
    found.emplace_back(queries.given.rows, k_);
    if (!rotates(*share.device, queries.given.rows)) queries.in_model_space();
  }
  const auto search_part = [&](std::size_t i, compute::Cancellation* cancellation) {
    compute::IvfWork work =
        work_for(*shares[i].device, queries, 0, queries.given.rows, reach, seen[i]);
    work.cancellation = cancellation;
    return search_on(*sets[i], work, found[i]);
  };
  std::size_t number = 0;
  const Status status = run_together(shares.size(), request_.cancellation, search_part, number);
  failed = shares[number].device;
  for (std::size_t i = 0; status.ok() && i < shares.size(); ++i) {
    best.merge(std::move(found[i]));
    sights.add(seen[i]);
    shares[i].device->count_search();
  }
  return status;
}

Status ListSearch::search_on(const IvfSet& set, const compute::IvfWork& work,
                             compute::HitTable& best) {
  compute::IvfWork own = work;
  own.filter = rows_.number();
  const Status status = search_set(set, own, best);
  const bool counted = is_counted_by(set.device()) || (rescorer_ && shape_.m == 0);
  return status.ok() && !counted ? count(set, own) : status;
}

std::shared_ptr<IvfSet> ListSearch::known_set(const compute::Device& device,
                                              const std::vector<bool>& parts) const {
  const bool whole = &parts == &this->parts() || parts == this->parts();
  return sets().find(request_.column, device, [&](const IvfSet& set) {
    return (set.has_vectors() || !with_vectors_) &&
           ((whole && set.holds_all()) || set.holds(parts)) &&
           (!set.is_handed_over() || is_counted_by(device));
  });
}

std::shared_ptr<IvfSet> ListSearch::use_set(compute::Device& device,
                                            const std::vector<bool>& parts, Status& status) {
  std::shared_ptr<IvfSet> set = known_set(device, parts);
  if (set == nullptr) set = make_set(device, parts, status);
  if (set != nullptr) Residency::instance().use(*set);
  return set;
}

std::shared_ptr<IvfSet> ListSearch::make_set(compute::Device& device,
                                             const std::vector<bool>& parts, Status& status) {
  const auto began = std::chrono::steady_clock::now();
  std::shared_ptr<IvfSet> set;
  try {
    if (fits_ && parts == wanted_) load_all();
    const auto blocks =
        fits_ && parts == wanted_ ? loaded_ : load(parts, fits_ ? nullptr : &device);
    set = IvfSet::create(device, blocks, request_.cancellation, status);
  } catch (const NotTaken& error) {
    status = {error.kind(), error.what()};
  }
  // What takes long leaves megabytes in every thread's part of the heap.
  constexpr std::chrono::milliseconds kLong{50};
  const auto took = std::chrono::steady_clock::now() - began;
  if (took > kLong) os::trim_heap(Residency::instance().used());
  if (set == nullptr) {
    const bool refused = !fits_ && is_devices_fault(status.kind);
    if (refused) memo_of_lists().refusals(request_.column).note(device, took);
    return set;
  }
  const bool lasts = everywhere_ || !fits_;
  if (lasts && set->holds_all()) memo_of_lists().crowding(request_.column) = set->crowding();
  if (lasts && set->lasting()) sets().add(request_.column, set);
  return set;
}

Status ListSearch::search_set(const IvfSet& set, const compute::IvfWork& work,
                              compute::HitTable& best) {
  if (!rescorer_) return set.search(rows_, work, best);
  // For some queries at a time, so that their nominees do not strain memory.
  constexpr std::size_t kMostNominees = std::size_t{1} << 20;
  const std::size_t each = nominees(work, best.k());
  const std::size_t most = std::max<std::size_t>(1, kMostNominees / each);
  for (std::size_t first = 0; first < work.queries.rows; first += most) {
    compute::IvfWork some = work;
    some.queries.data = work.queries.row(first);
    some.queries.rows = std::min(most, work.queries.rows - first);
    some.model_queries = work.model_queries + first * shape_.dim;
    if (work.probed != nullptr) some.probed = work.probed_of(first);
    if (work.left != nullptr) some.left = work.left + first;
    if (work.searched != nullptr) some.searched = work.searched + first;
    if (Status status = nominate(set, some, each); !status.ok()) return status;
    compute::HitTable nearest(some.queries.rows, best.k());
    rescorer_->run(some.queries, nearest);
    best.merge(std::move(nearest), first);
  }
  return {};
}

std::size_t ListSearch::nominees(const compute::IvfWork& work, std::size_t k) const {
  const double share = static_cast<double>(work.nprobe) / shape_.lists;
  const double wanted = shape_.m == 0 ? share * static_cast<double>(coded_->rows)
                                      : static_cast<double>(work.refine) * static_cast<double>(k);
  return static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(coded_->rows)));
}

Status ListSearch::nominate(const IvfSet& set, compute::IvfWork work, std::size_t each) {
  if (shape_.m == 0) {
    return set.rows_of_lists(
        rows_, work, [this](std::size_t query, const Hit& hit) { rescorer_->add(query, hit); });
  }
  work.refine = 0;
  compute::HitTable nominees(work.queries.rows, each);
  Status status = set.search(rows_, work, nominees);
  if (status.ok()) rescorer_->add(nominees);
  return status;
}

Status ListSearch::count(const IvfSet& set, const compute::IvfWork& work) const {
  Status status;
  compute::Device& host = compute::Registry::instance().host();
  const auto on_host = set.on(host, work.cancellation, status);
  compute::HitTable none(work.queries.rows, 0);
  return status.ok() ? on_host->search(rows_, work, none) : status;
}

Status ListSearch::search_groups(compute::Device& device, const compute::IvfWork& work,
                                 compute::HitTable& best) {
  std::vector<bool> group(wanted_.size());
  for (const CodedParts::Run& run : coded_->runs) {
    std::vector<bool> more = group;
    for (std::size_t i = run.first; i < run.first + run.count; ++i) more[i] = wanted_[i];
    if (more == group) continue;
    if (bytes_of(more) > limit_ / 2) {
      if (Status status = search_group(device, group, work, best); !status.ok()) return status;
      for (std::size_t i = 0; i < run.first; ++i) more[i] = false;
    }
    group = std::move(more);
  }
  return search_group(device, group, work, best);
}

Status ListSearch::search_group(compute::Device& device, const std::vector<bool>& group,
                                const compute::IvfWork& work, compute::HitTable& best) {
  Status status;
  const auto set = IvfSet::create(device, load(group), request_.cancellation, status);
  return status.ok() ? search_set(*set, work, best) : status;
}

}  // namespace warplite::engine
