#include "engine/ivf/list_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/system.h"
#include "engine/ivf/code_errors.h"
#include "engine/residency/together.h"
#include "engine/search/read_costs.h"

namespace warplite::engine {
namespace {

// Of so many lists, which are the nearest, the errors of codes are known well enough.
constexpr std::uint32_t kToldOfCodes = 8;

// Recall is an average, and what is lost of one query an estimate: more is worth while where it is much.
// A million rows in groups of 50 that are alike, recall 0.95 asked, k = 1: 0.67 found without more, 0.985
// with 0.3, 0.975 with this, 0.885 with 0.5. Around centres of which some are far wider than others the
// mean search takes 1.8 times as long with 0.3, 1.3 with 0.5.
constexpr double kLost = 0.35;

// Distances by codes alone are scores.
void undo_scales(const Queries& queries, compute::HitTable& best) {
  for (std::size_t i = 0; i < best.queries(); ++i) {
    const auto scale = static_cast<double>(queries.scale(i));
    if (scale == 1) continue;
    const std::vector<Hit> hits = best.list(i);
    best.row(i) = TopK(best.k());
    for (Hit hit : hits) {
      hit.distance /= scale;
      best.row(i).push(hit);
    }
  }
}

}  // namespace

void Sights::add(const Sights& others) {
  for (std::size_t i = 0; i < lists.size(); ++i) {
    compute::ProbedList& mine = lists[i];
    const compute::ProbedList& other = others.lists[i];
    mine.rows += other.rows;
    mine.live += other.live;
    // Who has no rows at all says nothing of them.
    if (mine.list == 0) mine.list = other.list;
    if (mine.a == 0) mine.a = other.a;
  }
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = std::min(left[i], others.left[i]);
}

ListSearch::ListSearch(const View& view, const Selection& rows, const index::InvertedIndex& index,
                       const SearchRequest& request, std::size_t k,
                       std::shared_ptr<const CodedParts> coded, const index::InvertedModel& model)
    : view_(view),
      rows_(rows),
      index_(index),
      request_(request),
      k_(k),
      coded_(std::move(coded)),
      model_(model),
      shape_(model.shape()),
      crowding_(memo_of_lists().crowding(request.column)) {
  if (rows_.everything()) {
    selected_ = coded_->live_rows;
  } else {
    for (const std::uint32_t part : coded_->parts) selected_ += rows_.part(part).count;
  }
  reach_ = memo().of(question(selected_));
  with_vectors_ = reach_.refine != 0 || shape_.m == 0;
  limit_ = Residency::instance().limit();
  choose_parts();
  if (remembers()) reach_ = memo().start(question(selected_));
}

const float* Queries::in_model_space() const {
  const auto floats = [](Bytes& bytes) { return reinterpret_cast<float*>(bytes.data()); };
  if (space_.size() == 0) {
    Bytes space(given.rows * given.dim * sizeof(float), Bytes::Fill::kBrief);
    scales_.resize(given.rows);
    model_.queries_to_model_space(given, floats(space), scales_.data());
    space_ = std::move(space);
  }
  return floats(space_);
}

std::uint32_t ListSearch::lists_of(const Reach& reach,
                                   std::span<const compute::ProbedList> told) const {
  if (!reach.by_contrast.known() || reach.nprobe >= shape_.lists) return reach.nprobe;
  WARP_CHECK(told.size() > compute::ContrastSteps::kPlace);
  return reach.by_contrast.probes(told[0].a, told[compute::ContrastSteps::kPlace].a);
}

// Of easy queries what all find is known better; and filters that leave out just their lists are told apart by it.
std::optional<std::size_t> ListSearch::step_of(std::span<const compute::ProbedList> told) const {
  constexpr std::size_t kPlace = compute::ContrastSteps::kPlace, kHard = 2;
  const index::Calibration* const measured = model_.calibration();
  if (measured == nullptr || !measured->contrasts.known() || told.size() <= kPlace) return {};
  const std::size_t step = measured->contrasts.step(told[0].a, told[kPlace].a);
  return step < kHard ? std::nullopt : std::optional(step);
}

// Where most rows of the nearest list were deleted, those wanted lie elsewhere, however near its centroid is.
bool ListSearch::is_emptied(std::span<const compute::ProbedList> told) {
  constexpr std::uint32_t kFew = 4;
  return !told.empty() && told[0].live <= told[0].rows / kFew;
}

// Queries that were measured lie among rows. Where there are none left, those wanted are in more lists.
std::uint32_t ListSearch::far_from_emptied() const {
  constexpr std::uint32_t kTimes = 2;
  return std::min(kTimes * reach_.nprobe, shape_.lists);
}

std::optional<Reach> ListSearch::farther(const Reach& reach, const Sight& sight) const {
  Reach own = reach;
  own.set_lists(sight.nprobe);
  Reach more = own;
  if (watches_filter()) {
    if (sight.enough) {
      constexpr double kChance = 2;
      const Surroundings seen = around(sight, kChance);
      if (finds_enough(own, seen, sight)) {
        if (remembers()) remember(least_nprobe(question(selected_), seen, own));
        return {};
      }
    }
    more = as_far_as_rows_lie(own, sight);
    if (more.exact) remember(0);
  } else if (!sight.enough) {
    const ReachQuestion all = question(selected_);
    const std::uint32_t next = own.nprobe < shape_.lists / 4 ? own.nprobe * 4 : shape_.lists;
    more.nprobe = own.nprobe < reach.nprobe ? reach.nprobe : next;
    more.exact = !all.codes_only && exact_cost(all) <= reach_cost(all, more);
  } else if (const std::uint32_t far = far_from_emptied(); own.nprobe < far && is_emptied(sight.lists)) {
    more.nprobe = far;
  } else if (lost_by_codes(sight) > kLost) {
    more = reach;
    more.refine = more_candidates(reach);
    if (more.refine == reach.refine) return {};
    return more;
  }
  if (!more.exact && more.nprobe == own.nprobe && more.refine == own.refine) return {};
  return more;
}

bool ListSearch::better_exact() const {
  if (view_.layout().codes_only) return false;
  if (rescorer_) return better_streamed();
  if (better_on_device()) return true;
  constexpr double kLittle = 1e5;  // nanoseconds
  const double cost = reach_cost(question(selected_), likely_reach());
  const bool chosen = selected_ == coded_->live_rows && cost <= kLittle;
  return reach_.exact || (!chosen && exact_cost(question(selected_)) <= cost);
}

// Measured on an H200, in nanoseconds. Of a few queries each row that passes is read, here and
// there, unless that is most of them. Of more, rows that pass are gathered first, unless they are
// many, and then multiplied.
double ListSearch::exact_cost_on_device() const {
  constexpr double kByte = 1 / 3500.0, kElement = 7e-6, kFew = 1.3e5, kBatch = 3e5;
  constexpr double kScattered = 4, kGathered = 1.1, kMany = 3;
  const auto n = static_cast<double>(request_.queries.rows), all = static_cast<double>(searched_);
  auto rows = static_cast<double>(selected_);
  const bool filtered = selected_ != coded_->live_rows;
  if (request_.queries.rows <= kFewQueries) {
    if (filtered) rows = std::min(kScattered * rows, all);
    return kFew + rows * static_cast<double>(request_.queries.stride()) * kByte;
  }
  const double gathered = filtered ? rows * kGathered : 0;
  if (filtered && rows * kMany >= all) rows = all;
  const double elements = rows * shape_.dim;
  return kBatch + gathered + 2 * elements * kByte + n * elements * kElement;
}

// The same of RaBitQ codes: up to so many queries look at a list together. Of other codes the host
// counts what a filter leaves.
double ListSearch::lists_cost_on_device() const {
  constexpr double kLists = 2.5e5, kRow = 0.07, kTogether = 32;
  const double watched = shape_.planes != 0 ? 1600 : 5e4;
  const auto n = static_cast<double>(request_.queries.rows);
  const double lists = shape_.lists, pairs = n * likely_reach().lists();
  const double units = lists * -std::expm1(-pairs / lists) + pairs / kTogether;
  const double rows = static_cast<double>(searched_) / lists;
  return kLists + units * rows * kRow + (watches_filter() ? n * watched : 0);
}

// The host looks at lists where a GPU does not.
double ListSearch::lists_cost_beside_device() const {
  if (fits_device_results()) return lists_cost_on_device();
  return static_cast<double>(request_.queries.rows) * reach_cost(question(selected_), likely_reach()) /
         os::usable_cores();
}

// As many candidates as every device takes (compute::Device::ivf_nearest()).
bool ListSearch::fits_device_results() const {
  constexpr std::size_t kMostCandidates = 1024;
  return k_ * (shape_.m == 0 ? 1 : std::max<std::size_t>(reach_.refine, 1)) <= kMostCandidates;
}

bool ListSearch::better_on_device() const {
  constexpr std::size_t kMostNearest = 2048;  // that a product finds
  // What is nearly as quick and finds all is better.
  constexpr double kExactIsWorth = 1.2;
  const std::size_t queries = request_.queries.rows;
  const bool filtered = selected_ != coded_->live_rows;
  const bool few = queries <= kFewQueries;
  const bool whole = !fits_device_results() || reach_.nprobe >= shape_.lists;
  const bool asked = filtered || whole || (!few && asked_recall(index_, request_));
  if (!asked || !fits_ || !with_vectors_ || (!few && k_ > kMostNearest)) return false;
  const DeviceChoice choice = choose_devices(demand(queries));
  if (choice.devices.empty() || !choice.devices.front()->own_memory()) return false;
  return exact_cost_on_device() <= kExactIsWorth * lists_cost_beside_device();
}

bool ListSearch::better_streamed() const {
  constexpr double kSorted = 2.5;  // nanoseconds a byte
  if (reach_.exact && reach_.nprobe >= shape_.lists) return true;
  const std::size_t stride = request_.queries.stride();
  double all = 0;
  for (std::size_t i = 0; i < coded_->parts.size(); ++i) {
    all += std::min(block_cost(coded_->bytes[i]),
                    rows_cost(rows_.part(coded_->parts[i]).count, stride));
  }
  const auto codes = static_cast<double>(bytes_of(wanted_));
  const Reach reach = likely_reach();
  const double probed = reach.lists() / static_cast<double>(shape_.lists);
  const double passing = probed * static_cast<double>(selected_);
  const double read =
      shape_.m == 0 ? passing : std::min(passing, static_cast<double>(reach.refine * k_));
  return all <= rows_cost(read, stride) + (sorts_anew() ? codes * kSorted : 0) +
                    reach_cost(question(selected_), reach);
}

bool ListSearch::sorts_anew() const {
  if (fits_) return false;
  const DeviceChoice choice = choose_devices(demand(request_.queries.rows));
  return choice.devices.empty() || !takes_over(*choice.devices.front());
}

Demand ListSearch::demand(std::size_t queries) const {
  return {request_.device, Ability::lists(request_.queries.type, request_.distance, shape_),
          bytes() * static_cast<double>(queries), request_.cancellation};
}

Attempt ListSearch::attempt(std::size_t queries) {
  const Demand demanded = demand(queries);
  const bool one = devices_sharing(queries, 2, kLeastOfLists) == 1 &&
                   (compute::Registry::instance().accelerators().size() < 2 ||
                    spread(choose_devices(demanded).devices, reach_).empty());
  return {demanded, one ? Attempt::Use::kFirst : Attempt::Use::kAll,
          [this](Attempt::Devices devices) { return ready(devices); }};
}

compute::HitTable ListSearch::nearest(Attempt& attempt, const Queries& queries, Reach& reach,
                                      std::span<const std::uint32_t> searched, Sights& sights) {
  compute::HitTable best(0, 0);
  CodeLosses& losses = memo_of_lists().losses(request_.column);
  attempt.run([&](Attempt::Devices devices, compute::Device*& failed) {
    best = compute::HitTable(queries.given.rows, k_);
    bool codes = watches_codes();
    if (codes && devices.front()->own_memory()) {
      if (losses.many()) reach.refine = std::max(reach.refine, more_candidates(reach_));
      codes = devices.front()->counts_lists(shape_) && losses.asks(queries.given.rows);
    }
    const std::size_t watched = watches_filter() || codes ? queries.given.rows : 0;
    sights.told = watches_filter() ? reach.nprobe : std::min(kToldOfCodes, reach.nprobe);
    sights.lists.assign(watched * sights.told, {});
    sights.left.assign(watched, std::numeric_limits<float>::infinity());
    sights.resumes = fits_ && !rescorer_ && !devices.front()->own_memory();
    sights.searched = sights.resumes ? searched : std::span<const std::uint32_t>();
    const std::vector<RunShare> shares = spread(devices, reach);
    if (!shares.empty()) return search_spread(shares, queries, reach, sights, best, failed);
    return search(answering(devices, queries.given.rows, attempt.named()), queries, reach, sights,
                  best, failed);
  });
  if (codes_decide(reach) && request_.distance == Distance::kInnerProduct) undo_scales(queries, best);
  return best;
}

void ListSearch::choose_parts() {
  all_.assign(coded_->parts.size(), true);
  wanted_ = all_;
  std::size_t count = wanted_.size();
  if (!rows_.everything()) {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (rows_.part(coded_->parts[i]).count != 0) continue;
      wanted_[i] = false;
      --count;
    }
  }
  // Of all parts everything is known without a look at each: there may be thousands.
  const std::vector<bool>& wanted = count == all_.size() ? all_ : wanted_;
  // Codes alone may fit; of vectors those of rows that they nominate are read.
  if (with_vectors_ && bytes_of(wanted) > limit_) {
    with_vectors_ = false;
    rescorer_.emplace(view_, request_, Rescorer::Read::kRows);
  }
  fits_ = bytes_of(wanted) <= limit_;
  everywhere_ = count >= all_.size() / 2 && bytes_of(all_) <= limit_;
  for (const CodedParts::Run& run : coded_->runs) {
    if (has_any(run, wanted_)) searched_ += run.rows;
  }
  if (everywhere_) wanted_ = all_;
  bytes_ = bytes_of(everywhere_ ? all_ : parts());
}

bool ListSearch::has_any(const CodedParts::Run& run, const std::vector<bool>& parts) {
  const auto first = parts.begin() + static_cast<std::ptrdiff_t>(run.first);
  const auto end = first + static_cast<std::ptrdiff_t>(run.count);
  return std::find(first, end, true) != end;
}

std::size_t ListSearch::bytes_of(const std::vector<bool>& parts) const {
  std::size_t bytes = with_vectors_ ? vector_bytes(parts) : 0;
  for (const CodedParts::Run& run : coded_->runs) {
    if (has_any(run, parts)) bytes += run_bytes(shape_, run.rows);
  }
  return bytes;
}

std::size_t ListSearch::vector_bytes(const std::vector<bool>& parts) const {
  if (&parts == &all_) return coded_->vector_bytes;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]) bytes += coded_->bytes[i];
  }
  return bytes;
}

Reach ListSearch::likely_reach() const {
  const double needed = static_cast<double>(shape_.lists) * static_cast<double>(k_) /
                        static_cast<double>(std::max<std::uint64_t>(selected_, 1));
  Reach reach = reach_;
  if (needed > reach.lists()) {
    reach.set_lists(static_cast<std::uint32_t>(std::min<double>(needed, shape_.lists)));
  }
  return reach;
}

Surroundings ListSearch::around(const Sight& sight, double errors) const {
  // The estimate for one query is about that far off, either way. The rest is taken for chance:
  // under filters that any rows pass, counts tell enough.
  constexpr double kSure = 0.6;
  const index::Calibration& measured = *model_.calibration();
  const index::Calibration::Table& lists =
      sight.step ? measured.contrasts.lists[*sight.step] : measured.lists;
  Passing passing{searched_, selected_, k_};
  if (locates(sight)) {
    const auto share_of = [&](double score) {
      return share_within(score, {request_.distance, sight.norm}, sight.lists, measured.spread, lists,
                          searched_);
    };
    const double usual = passing.everywhere().share, share = share_of(sight.farthest);
    passing.least = share * std::clamp(kSure + (1 - kSure) * (share / usual - 1.5), kSure, 1.0);
    // Of rows that any filter leaves a few would lie nearer than the nearest that was found.
    constexpr double kMany = 6, kFew = 3;
    const double each = usual / static_cast<double>(k_);
    const double nearest = share_of(sight.nearest);
    if (nearest > kMany * each) passing.nearer = nearest - kFew * each;
  }
  Surroundings seen = surroundings_of(passing, sight.lists, lists, errors);
  seen.step = sight.step;
  return seen;
}

void ListSearch::note_losses(const Reach& reach, std::size_t lost, std::size_t seen) {
  if (watches_filter() || reach.refine != reach_.refine) return;
  memo_of_lists().losses(request_.column).add(lost, seen);
}

// Recall is an average, also without a filter, where hard queries are left with less for the sake of easy ones.
double ListSearch::recall_due(const Sight& sight) const {
  const double asked = *asked_recall(index_, request_);
  if (!sight.step || !reach_.by_contrast.known()) return asked;
  Surroundings usual = Passing{searched_, selected_, k_}.everywhere();
  usual.step = sight.step;
  Reach reach = reach_;
  reach.set_lists(reach_.by_contrast.nprobe[*sight.step]);
  return std::min(asked, expected_recall(question(selected_), usual, reach));
}

bool ListSearch::finds_enough(const Reach& reach, const Surroundings& seen,
                              const Sight& sight) const {
  if (is_blurred(seen, sight)) return false;
  return is_as_everywhere(seen) || expected_recall(question(selected_), seen, reach) >= recall_due(sight);
}

// Rows as far as one that was found are left out where codes take them to be as far as `left`.
double ListSearch::lost_by_codes(const Sight& sight) const {
  if (!watches_codes() || sight.found.empty()) return 0;
  const CodeErrors errors(model_, {request_.distance, sight.norm}, sight.lists, sight.farthest);
  double lost = 0;
  for (const Hit& hit : sight.found) {
    lost += errors.beyond(static_cast<double>(sight.left) - sight.scale * score(hit.distance));
  }
  return lost / static_cast<double>(sight.found.size());
}

// Where rows are much alike, as those of a group of which training saw a part, codes do not tell which of
// them are nearest.
std::size_t ListSearch::more_candidates(const Reach& reach) const {
  constexpr std::size_t kMore = 4, kMostRefine = 64, kMostCandidates = 1024;
  const std::size_t most = std::min(kMostRefine, kMostCandidates / k_);
  return std::max(reach.refine, std::min(kMore * reach.refine, most));
}

Reach ListSearch::as_far_as_rows_lie(const Reach& reach, const Sight& sight) const {
  const ReachQuestion all = question(selected_);
  const Surroundings seen = around(sight, 0);
  const double due = recall_due(sight);
  Reach more = reach_of(all, seen, reach.refine, due);
  const std::uint32_t step = sight.enough ? reach.nprobe / 2 + 1 : 2 * reach.nprobe;
  more.nprobe = std::clamp(more.nprobe, std::min(reach.nprobe + step, shape_.lists), shape_.lists);
  more.refine = std::max(more.refine, reach.refine);
  if (all.codes_only || request_.refine) return more;
  if (is_blurred(seen, sight)) {
    // More candidates may not do, and then the search was for nothing.
    constexpr double kTryIsWorth = 4;
    more.refine = std::max(more.refine, more_candidates(reach));
    more.exact = more.refine == reach.refine || exact_cost(all) < kTryIsWorth * reach_cost(all, more);
    return more;
  }
  // What was found will tell where it lies.
  if (model_.calibration()->spread.known() && !more.exact) return more;
  // Else, within a list, rows that pass may lie on the far side: what lists show is the least. To
  // look into all of them, or to compare every row, is sure, and worth more.
  constexpr double kSureIsWorth = 4;
  if (!is_far(seen) || (!more.exact && exact_cost(all) > kSureIsWorth * reach_cost(all, more))) {
    return more;
  }
  Reach whole = more;
  whole.nprobe = shape_.lists;
  whole.exact = false;
  // More queries than these share the rows that are compared, in a product, which is quicker.
  const bool by_codes = request_.queries.rows <= kFewQueries && reach.nprobe < shape_.lists &&
                        whole_cost(all, whole) < exact_cost(all) &&
                        expected_recall(all, seen, whole) >= due;
  if (by_codes) return whole;
  more.exact = true;
  return more;
}

double ListSearch::bytes() const {
  const double lists = shape_.lists;
  const double each = shape_.m == 0 ? static_cast<double>(request_.queries.stride())
                                    : shape_.code_stride() + 2 * sizeof(float);
  return likely_reach().lists() / lists * static_cast<double>(coded_->rows) * each +
         lists * shape_.dim * sizeof(float);
}

}  // namespace warplite::engine
