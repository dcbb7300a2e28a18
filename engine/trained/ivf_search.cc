#include "engine/trained/ivf_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/residency/attempt.h"
#include "engine/residency/readiness.h"
#include "engine/search/exact_search.h"
#include "engine/trained/ivf_set.h"
#include "engine/trained/reach.h"

namespace warplite::engine {
namespace {

// Some of the queries, as the column has them and in model space.
struct Queries {
  MatrixView given;
  const float* in_model_space = nullptr;
};

// Copies of the queries with the given numbers.
class SomeQueries {
 public:
  SomeQueries(const Queries& all, std::span<const std::size_t> numbers)
      : given_(numbers.size() * all.given.stride()), space_(numbers.size() * all.given.dim) {
    const std::size_t stride = all.given.stride(), dim = all.given.dim;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(given_.data() + i * stride, all.given.row(numbers[i]), stride);
      std::copy_n(all.in_model_space + numbers[i] * dim, dim, space_.data() + i * dim);
    }
    queries_ = {{given_.data(), numbers.size(), all.given.dim, all.given.type}, space_.data()};
  }
  const Queries& get() const { return queries_; }

 private:
  std::vector<std::byte> given_;
  std::vector<float> space_;
  Queries queries_;
};

// The coded parts of one search.
class ListSearch {
 public:
  ListSearch(const View& view, const Selection& rows, const index::InvertedIndex& index,
             const SearchRequest& request, std::size_t k,
             std::shared_ptr<const CodedParts> coded, const index::InvertedModel& model)
      : view_(view), rows_(rows), index_(index), request_(request), k_(k),
        coded_(std::move(coded)), model_(model), shape_(model.shape()) {
    for (const std::uint32_t part : coded_->parts) selected_ += rows_.part(part).count;
    reach_ = memo().of(question(selected_));
    with_vectors_ = reach_.refine != 0 || shape_.m == 0;
    limit_ = Residency::instance().limit();
    choose_parts();
  }

  std::uint64_t selected() const { return selected_; }
  const Reach& reach() const { return reach_; }
  std::uint32_t lists() const { return shape_.lists; }

  // Returns how many rows of its lists a query is shown. Under a filter they are more than it wants,
  // and no more than half of those that pass there if they pass everywhere alike: then a query whose
  // lists hold fewer is known by what it lacks.
  std::size_t shown(const Reach& reach) const {
    if (!watches_filter()) return k_;
    constexpr std::size_t kShown = 16, kMoreCandidates = 256;
    std::size_t most = kShown * k_;
    // Those that are shown are compared, which they would not all be.
    if (shape_.m != 0) most = std::max(std::min(most, kMoreCandidates), std::max(reach.refine, std::size_t{1}) * k_);
    const double passing = passing_of_list(reach) * reach.nprobe;
    return std::clamp(static_cast<std::size_t>(passing / 2), k_, most);
  }

  // Looks farther for queries of which one was shown but `least` rows; or says that to compare every
  // row is as good. REQUIRES: not all lists were probed.
  void look_farther(std::size_t least, Reach& reach) const {
    if (watches_filter()) {
      const double passing = std::max<double>(1, static_cast<double>(least)) / reach.nprobe;
      const Reach before = reach;
      reach = memo().of(question(static_cast<std::uint64_t>(std::ceil(passing * shape_.lists))));
      reach.nprobe = std::max(reach.nprobe, std::min(2 * before.nprobe, shape_.lists));
      reach.passing_of_list = passing;
    } else {
      reach.nprobe = reach.nprobe < shape_.lists / 4 ? reach.nprobe * 4 : shape_.lists;
    }
    const ReachQuestion all = question(selected_);
    reach.exact = !all.codes_only && exact_cost(all) <= reach_cost(all, reach);
  }

  // Returns whether comparing every selected row takes no longer. That holds only where vectors were
  // kept: to decode vectors takes longer than to look at their codes. Without a filter the lists that
  // are probed are the user's choice, as long as little depends on it.
  bool better_exact() const {
    if (view_.layout().codes_only) return false;
    constexpr double kLittle = 1e5;  // nanoseconds
    const double cost = reach_cost(question(selected_), likely_reach());
    const bool chosen = selected_ == coded_->live_rows && cost <= kLittle;
    return reach_.exact || (!chosen && exact_cost(question(selected_)) <= cost);
  }

  // Describes the attempt at so many queries.
  Attempt attempt(std::size_t queries) {
    const Demand demand{request_.device,
                        Ability::lists(request_.queries.type, request_.distance, shape_),
                        bytes() * static_cast<double>(queries), request_.cancellation};
    return {demand, Attempt::Use::kFirst,
            [this](Attempt::Devices devices) { return ready(*devices.front()); }};
  }

  // The nearest that lists of each query hold, as many as are shown().
  compute::HitTable nearest(Attempt& attempt, const Queries& queries, const Reach& reach) {
    compute::HitTable best(0, 0);
    attempt.search([&](compute::Device& device) {
      best = compute::HitTable(queries.given.rows, shown(reach));
      Status status = search(device, queries, reach, best);
      if (!status.ok()) set_ = nullptr;
      return status;
    });
    return best;
  }

 private:
  // Chooses the parts with selected rows; or all parts, when most have some, since what is loaded
  // for all of them serves the next search too.
  void choose_parts() {
    wanted_.resize(coded_->parts.size());
    std::size_t bytes = 0, all_bytes = 0, count = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const std::uint32_t part = coded_->parts[i];
      wanted_[i] = rows_.part(part).count != 0;
      all_bytes += bytes_of(part);
      if (!wanted_[i]) continue;
      bytes += bytes_of(part);
      ++count;
    }
    fits_ = bytes <= limit_;
    everywhere_ = count >= wanted_.size() / 2 && all_bytes <= limit_;
    if (everywhere_) wanted_.assign(wanted_.size(), true);
  }

  std::size_t bytes_of(std::uint32_t part) const {
    return run_bytes(shape_, view_.part(part).rows()) +
           (with_vectors_ ? view_.part(part).vector_bytes(request_.column) : 0);
  }

  ReachMemo& memo() const { return view_.derived().of<ReachMemo>(); }

  ReachQuestion question(std::uint64_t selected) const {
    return {index_, model_, request_, coded_->rows, selected, k_, view_.layout().codes_only};
  }

  // Lists are probed until k rows were found, which takes more of them where few are selected.
  Reach likely_reach() const {
    const double needed = static_cast<double>(shape_.lists) * static_cast<double>(k_) /
                          static_cast<double>(std::max<std::uint64_t>(selected_, 1));
    Reach reach = reach_;
    reach.nprobe = std::max(reach.nprobe, static_cast<std::uint32_t>(
                                              std::min<double>(needed, shape_.lists)));
    return reach;
  }

  // Says whether a filter is in the way of a recall that was asked for.
  bool watches_filter() const {
    return selected_ != coded_->live_rows && reach_.expected_recall.has_value() &&
           asked_recall(index_, request_).has_value();
  }
  double passing_of_list(const Reach& reach) const {
    return reach.passing_of_list.value_or(static_cast<double>(selected_) / shape_.lists);
  }

  // Those that one query reads, about.
  double bytes() const {
    const double lists = shape_.lists;
    const double each = shape_.m == 0 ? static_cast<double>(request_.queries.stride())
                                      : shape_.code_stride() + 2 * sizeof(float);
    return likely_reach().nprobe / lists * static_cast<double>(coded_->rows) * each +
           lists * shape_.dim * sizeof(float);
  }

  // Says whether the device holds, or may soon hold, what is searched. If not, what it lacks is
  // copied in the background.
  bool ready(compute::Device& device) {
    if (!fits_) return false;
    if (!device.own_memory()) return true;
    if (known_set(device) != nullptr) return true;
    load_all();
    return engine::ready(device, loaded_->items());
  }

  HeldSets<IvfSet>& sets() const { return view_.derived().of<HeldSets<IvfSet>>(); }
  std::shared_ptr<IvfSet> known_set(const compute::Device& device) const {
    return sets().find(request_.column, device, [this](const IvfSet& set) {
      return set.has_vectors() || !with_vectors_;
    });
  }

  void load_all() {
    if (loaded_ == nullptr) loaded_ = load(wanted_);
  }
  std::shared_ptr<const IvfBlocks> load(const std::vector<bool>& wanted) const {
    return load_ivf_blocks(view_, request_.column, index_, coded_, wanted, with_vectors_);
  }

  Status search(compute::Device& device, const Queries& queries, const Reach& reach,
                compute::HitTable& best) {
    compute::IvfWork work;
    work.distance = request_.distance;
    work.queries = queries.given;
    work.model_queries = queries.in_model_space;
    work.nprobe = reach.nprobe;
    // As many candidates, however many of them are shown.
    work.refine = (reach.refine * k_ + best.k() - 1) / best.k();
    work.cancellation = request_.cancellation;
    if (!fits_) return search_groups(device, work, best);
    set_ = known_set(device);
    if (set_ == nullptr) {
      load_all();
      Status status;
      set_ = IvfSet::create(device, loaded_, request_.cancellation, status);
      if (!status.ok()) return status;
      if (everywhere_ && set_->lasting()) sets().add(request_.column, set_);
    }
    Residency::instance().use(*set_);
    return set_->search(rows_, work, best);
  }

  // Parts that fit into half of the memory budget, then the next ones.
  Status search_groups(compute::Device& device, const compute::IvfWork& work,
                       compute::HitTable& best) {
    std::vector<bool> group(wanted_.size());
    std::size_t held = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i]) continue;
      const std::size_t bytes = bytes_of(coded_->parts[i]);
      if (held > 0 && held + bytes > limit_ / 2) {
        if (Status status = search_group(device, group, work, best); !status.ok()) return status;
        group.assign(wanted_.size(), false);
        held = 0;
      }
      held += bytes;
      group[i] = true;
    }
    return search_group(device, group, work, best);
  }

  Status search_group(compute::Device& device, const std::vector<bool>& group,
                      const compute::IvfWork& work, compute::HitTable& best) {
    Status status;
    const auto set = IvfSet::create(device, load(group), request_.cancellation, status);
    return status.ok() ? set->search(rows_, work, best) : status;
  }

  const View& view_;
  const Selection& rows_;
  const index::InvertedIndex& index_;
  const SearchRequest& request_;
  const std::size_t k_;
  const std::shared_ptr<const CodedParts> coded_;
  const index::InvertedModel& model_;
  const compute::IvfShape shape_;
  Reach reach_;
  bool with_vectors_;
  std::vector<bool> wanted_;    // by coded part
  std::uint64_t selected_ = 0;  // rows of coded parts
  bool everywhere_ = false;     // all coded parts are wanted
  std::size_t limit_;
  bool fits_;
  std::shared_ptr<const IvfBlocks> loaded_;  // when it fits, and was not found loaded
  std::shared_ptr<IvfSet> set_;              // in use
};

// One search through lists, and more for queries to which they show too little.
class WideningSearch {
 public:
  // `others`: what was found beside the lists.
  WideningSearch(ListSearch& search, Attempt& attempt, const Queries& queries,
                 compute::HitTable& others)
      : search_(search), attempt_(attempt), queries_(queries), others_(others), best_(0, 0) {}

  // Says which queries are left for a comparison of every row: of these `best` is nothing.
  std::vector<std::size_t> run() {
    reach_ = search_.reach();
    best_ = search_.nearest(attempt_, queries_, reach_);
    for (auto again = lacking(); !again.empty() && reach_.nprobe < search_.lists();
         again = lacking()) {
      std::size_t least = best_.sorted(again[0]).size();
      for (const std::size_t i : again) least = std::min(least, best_.sorted(i).size());
      search_.look_farther(least, reach_);
      if (reach_.exact) return again;
      const SomeQueries some(queries_, again);
      compute::HitTable more = search_.nearest(attempt_, some.get(), reach_);
      for (std::size_t i = 0; i < again.size(); ++i) best_.row(again[i]) = std::move(more.row(i));
    }
    return {};
  }

  compute::HitTable& best() { return best_; }
  const Reach& reach() const { return reach_; }

 private:
  // Those that were shown less than was asked for.
  std::vector<std::size_t> lacking() {
    const std::size_t k = others_.k();
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < best_.queries(); ++i) {
      const std::size_t shown = best_.sorted(i).size(), asked = best_.row(i).k();
      const bool enough =
          asked > k ? shown == asked : shown + others_.sorted(i).size() >= k;
      if (!enough) numbers.push_back(i);
    }
    return numbers;
  }

  ListSearch& search_;
  Attempt& attempt_;
  const Queries& queries_;
  compute::HitTable& others_;
  compute::HitTable best_;
  Reach reach_;
};

// Of coded parts, by comparing every row.
compute::HitTable exact_of_some(const View& view, const Selection& rows, const index::Index& index,
                                const SearchRequest& request, std::size_t k,
                                const CodedParts& coded, const MatrixView& queries) {
  SearchRequest some = request;
  some.queries = queries;
  std::vector<bool> others = coded.coded;
  others.flip();
  return exact_nearest(view, rows, index, some, k, &others);
}

compute::HitTable ivf_nearest(const View& view, const Selection& rows, const index::Index& index,
                              const SearchRequest& request, std::size_t k) {
  const index::InvertedIndex& trained = *index.trained()->inverted();
  IvfMemo& memo = view.derived().of<IvfMemo>();
  const std::shared_ptr<const CodedParts> coded = memo.coded(view, request.column);
  if (coded->parts.empty()) return exact_nearest(view, rows, index, request, k, nullptr);
  const std::shared_ptr<const index::InvertedModel> model =
      memo.model(view, request.column, trained);
  ListSearch search(view, rows, trained, request, k, coded, *model);
  const bool possible = compute::Registry::instance().host().supports_ivf(model->shape());
  if (search.selected() == 0 || search.better_exact() || !possible) {
    return exact_nearest(view, rows, index, request, k, nullptr);
  }
  compute::HitTable best(request.queries.rows, k);
  if (rows.count() != search.selected()) {
    best = exact_nearest(view, rows, index, request, k, &coded->coded);
  }
  std::vector<float> in_model_space(request.queries.rows * request.queries.dim);
  model->to_model_space(request.queries, in_model_space.data());
  const Queries queries{request.queries, in_model_space.data()};
  Attempt attempt = search.attempt(request.queries.rows);
  WideningSearch widening(search, attempt, queries, best);
  const std::vector<std::size_t> left = widening.run();
  if (!left.empty()) {
    const SomeQueries some(queries, left);
    compute::HitTable all =
        exact_of_some(view, rows, index, request, k, *coded, some.get().given);
    for (std::size_t i = 0; i < left.size(); ++i) {
      widening.best().row(left[i]) = std::move(all.row(i));
    }
  }
  for (std::size_t i = 0; i < best.queries(); ++i) best.row(i).merge(widening.best().row(i));
  if (request.report != nullptr) {
    SearchReport& report = *request.report;
    report.approximate = true;
    report.nprobe = widening.reach().nprobe;
    if (model->shape().m != 0) report.refine = widening.reach().refine;
    report.expected_recall = widening.reach().expected_recall;
    report.recall_unknown = asked_recall(trained, request) && !report.expected_recall;
  }
  return best;
}

class IvfSearcher : public Searcher {
 public:
  bool has_lists() const override { return true; }
  bool looks_at_part(const View& view, const Selection& rows, const index::Trained& trained,
                     const SearchRequest& request, std::size_t k) const override {
    if (k > rows.count() / kPart) return false;
    const auto model = index::inverted(view.load_model(request.column, trained));
    const Reach reach = view.derived().of<ReachMemo>().of(
        {*trained.inverted(), *model, request, view.live_rows(), rows.count(), k,
         view.layout().codes_only});
    return !reach.exact && reach.nprobe < model->shape().lists;
  }
  bool must_compare_all(const index::Trained& trained,
                        const SearchRequest& request) const override {
    return asked_recall(trained, request) == 1.0 && !request.refine;
  }
  compute::HitTable nearest(const View& view, const Selection& rows, const index::Index& index,
                            const SearchRequest& request, std::size_t k) const override {
    return ivf_nearest(view, rows, index, request, k);
  }
};

}  // namespace

const Searcher& ivf_searcher() {
  static const IvfSearcher searcher;
  return searcher;
}

}  // namespace warplite::engine
