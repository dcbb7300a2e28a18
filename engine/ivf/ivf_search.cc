#include "engine/ivf/ivf_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compute/host/parallel.h"
#include "engine/ivf/list_search.h"
#include "engine/residency/attempt.h"
#include "engine/search/exact_search.h"

namespace warplite::engine {
namespace {

// Copies of the queries with the given numbers.
class SomeQueries {
 public:
  SomeQueries(const MatrixView& all, std::span<const std::size_t> numbers,
              const index::InvertedModel& model)
      : given_(numbers.size() * all.stride()),
        queries_({given_.data(), numbers.size(), all.dim, all.type}, model) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(given_.data() + i * all.stride(), all.row(numbers[i]), all.stride());
    }
  }
  const Queries& get() const { return queries_; }

 private:
  std::vector<std::byte> given_;
  const Queries queries_;
};

// One search through lists, and more for queries to which they show too little.
class WideningSearch {
 public:
  // `others`: the k nearest that were found beside the lists; null: nothing is.
  WideningSearch(ListSearch& search, Attempt& attempt, const MatrixView& queries,
                 const index::InvertedModel& model, std::size_t k, compute::HitTable* others)
      : search_(search),
        attempt_(attempt),
        queries_(queries, model),
        model_(model),
        others_(others),
        best_(0, k),
        left_(queries.rows, std::numeric_limits<float>::infinity()),
        reach_(search.reach()),
        searched_(queries.rows) {}

  // Says which queries are left for a comparison of every row: of these `best` is nothing.
  std::vector<std::size_t> run() {
    std::vector<std::size_t> numbers(queries_.given.rows);
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    while (!numbers.empty()) numbers = search(numbers);
    return std::move(exact_);
  }

  compute::HitTable& best() { return best_; }
  const Reach& reach() const { return reach_; }

 private:
  // Lists of queries that are counted together take so many bytes at most.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 25;
  // Queries of a thread that looks at what they found, or moves their rows.
  static constexpr std::size_t kLookedAtTogether = 64, kMovedTogether = 8192;

  // Searches for some queries as far as reach_ says. Returns those that are to look farther, and
  // sets reach_ for them.
  std::vector<std::size_t> search(std::span<const std::size_t> numbers) {
    const std::size_t each = reach_.nprobe * sizeof(compute::ProbedList);
    const std::size_t most = search_.watches_filter() ? kMostBytes / each + 1 : numbers.size();
    std::vector<std::size_t> again;
    Reach farther = reach_;
    for (std::size_t first = 0; first < numbers.size(); first += most) {
      const auto some = numbers.subspan(first, std::min(most, numbers.size() - first));
      search(some, again, farther);
    }
    if (farther.refine != reach_.refine) std::ranges::fill(searched_, 0);
    if (!again.empty()) reach_ = farther;
    return again;
  }

  void search(std::span<const std::size_t> numbers, std::vector<std::size_t>& again,
              Reach& farther) {
    std::optional<SomeQueries> some;
    if (numbers.size() != queries_.given.rows) some.emplace(queries_.given, numbers, model_);
    before_.clear();
    for (const std::size_t query : numbers) before_.push_back(searched_[query]);
    compute::HitTable found =
        search_.nearest(attempt_, some ? some->get() : queries_, reach_, before_, sights_);
    const bool all = !some && std::ranges::none_of(sights_.searched, [](auto lists) { return lists != 0; });
    if (all) {
      best_ = std::move(found);
    } else if (best_.queries() == 0) {
      best_ = compute::HitTable(queries_.given.rows, best_.k());
    }
    // Else there is nothing to look at but whether a query has found enough.
    const bool watched = !sights_.left.empty();
    const Queries& searched = some ? some->get() : queries_;
    if (watched) searched.in_model_space();
    std::vector<std::optional<Reach>> more(watched ? numbers.size() : 0);
    const auto look = [&](std::size_t i) -> std::optional<Reach> {
      if (!watched && has_enough(numbers[i])) return {};
      const Sight seen = sight(numbers[i], i, searched);
      // Only who puts lists in order as before may pass over some.
      const bool known = sights_.resumes && (watched || !reach_.by_contrast.known());
      searched_[numbers[i]] = known ? seen.nprobe : 0;
      return search_.farther(reach_, seen);
    };
    const std::size_t each = watched ? kLookedAtTogether : kMovedTogether;
    if (watched || !all) {
      compute::in_parallel(numbers.size(), each, numbers.size() / each,
                           [&](std::size_t first, std::size_t last) {
                             for (std::size_t i = first; i < last; ++i) {
                               if (!all) keep(numbers[i], i, found);
                               if (watched) more[i] = look(i);
                             }
                           });
    }
    if (watched) {
      const auto lost = std::ranges::count_if(
          more, [&](const std::optional<Reach>& next) { return next && next->refine > reach_.refine; });
      search_.note_losses(reach_, static_cast<std::size_t>(lost), numbers.size());
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t query = numbers[i];
      const std::optional<Reach> next = watched ? more[i] : look(i);
      if (next && next->exact) {
        exact_.push_back(query);
        best_.row(query) = TopK(best_.k());
      } else if (next) {
        again.push_back(query);
        farther = again.size() == 1 ? *next : both(farther, *next);
      }
    }
  }

  // Says whether the i-th of those that were searched for together had searched some lists before.
  bool resumed(std::size_t i) const { return !sights_.searched.empty() && sights_.searched[i] != 0; }

  bool has_enough(std::size_t query) {
    const std::size_t beside = others_ != nullptr ? others_->row(query).count() : 0;
    return best_.row(query).count() + beside >= best_.k();
  }

  // Those that need less than others look again first, where nothing is looked at twice.
  Reach both(const Reach& one, const Reach& other) const {
    Reach both = other;
    both.nprobe =
        sights_.resumes ? std::min(one.nprobe, other.nprobe) : std::max(one.nprobe, other.nprobe);
    both.refine = std::max(one.refine, other.refine);
    if (!one.by_contrast.known() || !other.by_contrast.known()) both.set_lists(both.nprobe);
    return both;
  }

  // What was found for the i-th of those that were searched for together; beside what was before,
  // where lists were not searched again.
  void keep(std::size_t query, std::size_t i, compute::HitTable& found) {
    if (!resumed(i)) {
      best_.row(query) = std::move(found.row(i));
    } else {
      best_.row(query).merge(std::move(found.row(i)));
    }
  }

  // Sets the scores of the first and the last of those wanted that were found, in lists or beside them.
  void set_ends(std::span<const Hit> hits, std::span<const Hit> others, Sight& sight) const {
    auto hit = hits.begin(), other = others.begin();
    const std::size_t count = std::min(best_.k(), hits.size() + others.size());
    for (std::size_t n = 0; n < count; ++n) {
      const bool in_lists =
          other == others.end() || (hit != hits.end() && hit->distance <= other->distance);
      sight.farthest = sight.scale * search_.score((in_lists ? hit : other)++->distance);
      if (n == 0) sight.nearest = sight.farthest;
    }
  }

  // What the i-th of those that were searched for together has found.
  Sight sight(std::size_t query, std::size_t i, const Queries& searched) {
    Sight sight;
    sight.enough = has_enough(query);
    sight.nprobe = reach_.nprobe;
    if (sights_.left.empty()) return sight;
    left_[query] = resumed(i) ? std::min(left_[query], sights_.left[i]) : sights_.left[i];
    const std::size_t dim = queries_.given.dim;
    const std::span<const float> vector(searched.in_model_space() + i * dim, dim);
    sight.scale = static_cast<double>(searched.scale(i));
    const auto told = std::span(sights_.lists).subspan(i * sights_.told, sights_.told);
    sight.nprobe = std::max(before_[i], search_.lists_of(reach_, told));
    sight.step = search_.step_of(told);
    sight.lists = told.first(std::min<std::size_t>(told.size(), sight.nprobe));
    sight.left = left_[query];
    const auto others = others_ != nullptr ? others_->sorted(query) : std::span<const Hit>();
    sight.found = best_.sorted(query);
    set_ends(sight.found, others, sight);
    sight.norm = std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
    return sight;
  }

  ListSearch& search_;
  Attempt& attempt_;
  const Queries queries_;
  const index::InvertedModel& model_;
  compute::HitTable* const others_;
  compute::HitTable best_;  // without rows before the first search
  std::vector<float> left_;  // as IvfWork has it
  Reach reach_;
  std::vector<std::uint32_t> searched_;  // lists of each query that may be passed over now
  std::vector<std::uint32_t> before_;    // of those that are searched for together
  std::vector<std::size_t> exact_;
  Sights sights_;
};

// Of coded parts, by comparing every row.
compute::HitTable exact_of_some(const View& view, const Selection& rows, const index::Index& index,
                                const SearchRequest& request, std::size_t k,
                                const CodedParts& coded, const MatrixView& queries) {
  SearchRequest some = request;
  some.queries = queries;
  return exact_nearest(view, rows, index, some, k, &coded.parts);
}

compute::HitTable ivf_nearest(const View& view, const Selection& rows, const index::Index& index,
                              const SearchRequest& request, std::size_t k) {
  const index::InvertedIndex& trained = *index.trained()->inverted();
  IvfMemo& memo = view.derived_of_segments().of<IvfMemo>();
  const std::shared_ptr<const CodedParts> coded = memo.coded(view, request.column);
  if (coded->parts.empty()) return exact_nearest(view, rows, index, request, k, nullptr);
  const std::shared_ptr<const index::InvertedModel> model =
      memo.model(view, request.column, trained);
  ListSearch search(view, rows, trained, request, k, coded, *model);
  const bool possible = compute::Registry::instance().host().supports_ivf(model->shape());
  if (search.selected() == 0 || search.better_exact() || !possible) {
    return exact_nearest(view, rows, index, request, k, nullptr);
  }
  std::optional<compute::HitTable> others;
  if (rows.count() != search.selected()) {
    const std::vector<std::uint32_t> not_coded = coded->others(view);
    others = exact_nearest(view, rows, index, request, k, &not_coded);
  }
  Attempt attempt = search.attempt(request.queries.rows);
  WideningSearch widening(search, attempt, request.queries, *model, k, others ? &*others : nullptr);
  const std::vector<std::size_t> left = widening.run();
  if (!left.empty()) {
    const SomeQueries some(request.queries, left, *model);
    compute::HitTable all = exact_of_some(view, rows, index, request, k, *coded, some.get().given);
    for (std::size_t i = 0; i < left.size(); ++i) {
      widening.best().row(left[i]) = std::move(all.row(i));
    }
  }
  compute::HitTable best = std::move(widening.best());
  if (others) best.merge(std::move(*others));
  if (request.report != nullptr) {
    SearchReport& report = *request.report;
    report.approximate = true;
    report.nprobe = static_cast<std::uint32_t>(std::lround(widening.reach().lists()));
    if (model->shape().m != 0) report.refine = widening.reach().refine;
    report.expected_recall = widening.reach().expected_recall;
    report.recall_fell = model->calibration() != nullptr && model->calibration()->fell();
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
    const Reach reach =
        view.derived_of_segments().of<ReachMemo>().of({*trained.inverted(), *model, request,
                                                       view.live_rows(), rows.count(), k,
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
