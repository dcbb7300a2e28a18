#include "engine/ivf/reach.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "index/recall/calibration.h"

namespace warplite::engine {
namespace {

using index::Calibration;
using index::Expected;
using index::Found;

// A choice must hold for queries that nobody has seen: so many standard errors are taken off what
// was measured.
constexpr double kErrors = 2;

// Nanoseconds for a byte of vectors that are read one after another.
constexpr double kByte = 0.04;
// An estimate of costs may be wrong: to compare every row is as good when it takes this much
// longer.
constexpr double kExactIsWorth = 1.2;

bool meets(const Expected& expected, double target, double errors = kErrors) {
  return expected.recall - errors * expected.error >= target;
}

class Choice {
 public:
  Choice(const ReachQuestion& question, const Calibration& calibration)
      : Choice(question, calibration,
               Passing{question.rows, question.selected, question.k}.everywhere()) {}
  Choice(const ReachQuestion& question, const Calibration& calibration, const Surroundings& around)
      : question_(question),
        calibration_(calibration),
        lists_(question.model.shape().lists),
        around_(around) {}

  // The cheapest way to the recall; else all lists and as many candidates as allowed. `by_contrast`: queries may
  // look into more lists or fewer, so that not only the mean of all finds what is asked.
  Reach find(double target, bool by_contrast = false) const {
    std::optional<Reach> best = cheapest(target, by_contrast, true);
    if (!best && by_contrast) best = cheapest(target, true, false);
    if (!best && by_contrast) best = cheapest(target, false, false);
    if (best) return *best;
    Reach all{.nprobe = lists_, .refine = given_refine()};
    all.exact = !question_.codes_only && !question_.request.refine;
    all.expected_recall = expected(all.nprobe, all.refine).recall;
    return all;
  }

  // The fewest lists.
  std::optional<Reach> with_refine(std::size_t refine, double target) const {
    if (!meets(expected(lists_, refine), target)) return std::nullopt;
    const std::uint32_t least = fewest(lists_, refine, target, kErrors);
    return Reach{
        .nprobe = least, .refine = refine, .expected_recall = expected(least, refine).recall};
  }

  // REQUIRES: `high` lists do.
  std::uint32_t fewest(std::uint32_t high, std::size_t refine, double target, double errors) const {
    std::uint32_t low = 1;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (meets(expected(middle, refine), target, errors)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  Expected expected(std::uint32_t nprobe, std::size_t refine) const {
    return {in_lists(nprobe), by_codes(refine)};
  }

 private:
  std::optional<Reach> cheapest(double target, bool by_contrast, bool with_codes) const {
    std::optional<Reach> best;
    double least = 0;
    for (const std::size_t refine : refines()) {
      std::optional<Reach> reach = with_refine(refine, target);
      if (reach && by_contrast) reach = with_contrast(*reach, with_codes);
      if (!reach) continue;
      const double cost = reach_cost(question_, *reach);
      if (best && cost >= least) continue;
      best = reach;
      least = cost;
    }
    return best;
  }

  std::optional<Reach> with_contrast(Reach reach, bool with_codes) const {
    constexpr std::uint32_t kPlace = compute::ContrastSteps::kPlace;
    const auto steps =
        calibration_.by_contrast(around_.share, question_.k, reach.nprobe, reach.refine, with_codes);
    if (!steps) return {};
    if (!steps->known()) return reach;
    reach.by_contrast = *steps;
    // Fewer lists tell too little of a filter.
    constexpr std::uint32_t kTelling = 12;
    if (question_.selected != question_.rows) {
      const std::uint32_t least = std::min(reach.nprobe, kTelling);
      for (std::uint32_t& lists : reach.by_contrast.nprobe) lists = std::max(lists, least);
    }
    reach.nprobe = std::max(kPlace + 1, reach.by_contrast.nprobe.back());
    reach.mean_nprobe = calibration_.contrasts.mean(reach.by_contrast);
    return reach;
  }

  bool coded() const { return question_.model.shape().m != 0; }
  std::size_t given_refine() const {
    return question_.request.refine.value_or(question_.index.default_refine());
  }

  std::vector<std::size_t> refines() const {
    if (!coded() || question_.request.refine || question_.codes_only) return {given_refine()};
    return {calibration_.codes.looks.begin(), calibration_.codes.looks.end()};
  }

  Found in_lists(std::uint32_t nprobe) const {
    if (nprobe >= lists_) return {1, 0};
    return around_.found(
        around_.step ? calibration_.contrasts.lists[*around_.step] : calibration_.lists, nprobe);
  }
  Found by_codes(std::size_t refine) const {
    return coded() ? calibration_.by_codes(around_.share, question_.k, refine, around_.step) : Found{1, 0};
  }

  const ReachQuestion& question_;
  const Calibration& calibration_;
  const std::uint32_t lists_;
  const Surroundings around_;
};

Reach with_exact(const ReachQuestion& question, Reach reach) {
  if (!question.codes_only && !question.request.refine &&
      exact_cost(question) <= kExactIsWorth * reach_cost(question, reach)) {
    reach.exact = true;
  }
  return reach;
}

// Of the rows, which lists hold: a query lies where rows lie, so that its own list is as crowded as that of a
// row.
double part_of_rows(const ReachQuestion& question, const Reach& reach) {
  const double lists = question.model.shape().lists;
  const double own = std::max(question.crowding, 1 / lists);
  return std::min(1.0, own + (1 - own) * (reach.lists() - 1) / std::max(1.0, lists - 1));
}

}  // namespace

std::optional<double> asked_recall(const index::Trained& trained, const SearchRequest& request) {
  if (request.nprobe != 0) return std::nullopt;
  return request.recall ? request.recall : trained.inverted()->default_recall();
}

Reach reach_of(const ReachQuestion& question) {
  const SearchRequest& request = question.request;
  const std::uint32_t lists = question.model.shape().lists;
  const Calibration* const calibration = question.model.calibration();
  const std::optional<double> recall = asked_recall(question.index, request);
  const bool measured = calibration != nullptr && !calibration->lists.shares.empty();
  if (recall && *recall < 1 && measured) {
    return with_exact(question, Choice(question, *calibration).find(*recall, true));
  }
  std::uint64_t probes =
      request.nprobe != 0 ? request.nprobe : question.index.default_nprobe(question.model);
  // There were too few rows to measure anything: all lists are looked into.
  if (recall == 1.0 || (recall && calibration != nullptr && !measured)) probes = lists;
  probes = std::clamp<std::uint64_t>(probes * request.farther, 1, lists);
  Reach reach{.nprobe = static_cast<std::uint32_t>(probes),
              .refine = request.refine.value_or(question.index.default_refine())};
  if (measured) {
    reach.expected_recall =
        Choice(question, *calibration).expected(reach.nprobe, reach.refine).recall;
  }
  return reach;
}

// To weigh all numbers of candidates takes longer than the search that follows.
Reach reach_of(const ReachQuestion& question, const Surroundings& around, std::size_t refine,
               double recall) {
  const Choice choice(question, *question.model.calibration(), around);
  const std::optional<Reach> reach = choice.with_refine(refine, recall);
  return with_exact(question, reach ? *reach : choice.find(recall));
}

double expected_recall(const ReachQuestion& question, const Surroundings& around,
                       const Reach& reach) {
  return Choice(question, *question.model.calibration(), around)
      .expected(reach.nprobe, reach.refine)
      .recall;
}

// Rows of lists that were probed pass as those of the share do.
std::uint32_t least_nprobe(const ReachQuestion& question, const Surroundings& around,
                           const Reach& reach) {
  Surroundings within = around;
  within.beyond = std::max(within.beyond, 1.0);
  return Choice(question, *question.model.calibration(), within)
      .fewest(reach.nprobe, reach.refine, *asked_recall(question.index, question.request), 0);
}

// Filters that leave about as many rows share an answer: that of the fewest.
std::uint64_t ReachMemo::about(const ReachQuestion& question) {
  constexpr int kBits = 5;
  const int others = std::bit_width(question.selected) - kBits;
  if (question.selected == question.rows || others <= 0) return question.selected;
  return question.selected >> others << others;
}

ReachMemo::Answer& ReachMemo::answer(const ReachQuestion& question) {
  constexpr std::size_t kAnswers = 64;
  const SearchRequest& request = question.request;
  const Key key{request.column, question.k,      question.rows,  about(question),
                request.nprobe, request.farther, request.recall, request.refine,
                question.crowding};
  for (Answer& known : answers_) {
    if (known.key == key) return known;
  }
  ReachQuestion all = question;
  all.selected = key.selected;
  const Answer answer{.key = key, .reach = reach_of(all)};
  if (answers_.size() < kAnswers) return answers_.emplace_back(answer);
  return answers_[oldest_++ % kAnswers] = answer;
}

Reach ReachMemo::start(const ReachQuestion& question) {
  constexpr std::size_t kEnough = 4, kTryAgain = 64;
  Answer& known = answer(question);
  if (known.needs.size() < kEnough) return known.reach;
  if (known.start.exact && ++known.starts % kTryAgain == 0) return known.reach;
  return known.start;
}

void ReachMemo::note(const ReachQuestion& question, std::uint32_t nprobe) {
  constexpr std::size_t kLast = 8;
  Answer& known = answer(question);
  const Need need{nprobe, nprobe == 0};
  if (known.needs.size() < kLast) {
    known.needs.push_back(need);
  } else {
    known.needs[known.queries % kLast] = need;
  }
  ++known.queries;
  known.start = best_start(question, known);
}

// Where these queries would have taken least in all.
Reach ReachMemo::best_start(const ReachQuestion& question, const Answer& known) {
  // Nanoseconds that each search of some lists takes beside them; about so many of these come before every
  // row is compared.
  constexpr double kPass = 1e4, kPasses = 2;
  const auto at_least = [&](std::uint32_t lists) {
    Reach reach = known.reach;
    if (lists > reach.nprobe) reach.set_lists(lists);
    return reach;
  };
  Reach one = known.reach;
  one.set_lists(1);
  const double pass = kPass + reach_cost(question, one), all = exact_cost(question);
  std::vector<double> costs;
  for (const Need& need : known.needs) {
    costs.push_back(reach_cost(question, at_least(need.nprobe)));
  }
  Reach start = known.reach;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first < costs.size(); ++first) {
    double sum = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      sum += std::max(costs[first], costs[i]);
      if (known.needs[i].exact) sum += all + kPasses * pass;
      if (costs[i] > costs[first]) sum += pass;
    }
    if (sum >= least) continue;
    least = sum;
    start = at_least(known.needs[first].nprobe);
  }
  start.exact = !question.codes_only && !question.request.refine &&
                all * static_cast<double>(costs.size()) <= kExactIsWorth * least;
  return start;
}

// Measured on a Zen 3 core, rows of 400 to 3,072 bytes: 0.04 ns a byte in a row, twice as much one
// row here and one there. On a Granite Rapids core: 4.2 ns for a row, however short; where a filter
// leaves gaps, rows of 32 to 1,536 bytes, 7 to 9 ns and 0.03 to 0.06 a byte; RaBitQ codes, of 128
// elements: 3.2 ns for a row of a list, and 550 for a candidate, of which more are looked at closely
// before some are chosen; under a filter as cpu/ivf/context.cc has it.
double exact_cost(const ReachQuestion& question) {
  constexpr double kRow = 4.2;
  const double bytes = kByte * static_cast<double>(question.request.queries.stride());
  const auto rows = static_cast<double>(question.rows);
  if (question.selected == question.rows) return rows * std::max(kRow, bytes);
  return rows * 0.03 + static_cast<double>(question.selected) * (1.4 * bytes + 2 * kRow);
}

double reach_cost(const ReachQuestion& question, const Reach& reach) {
  const compute::IvfShape& shape = question.model.shape();
  const double lists = shape.lists, dim = shape.dim;
  const double part = part_of_rows(question, reach);
  const double looked_at = part * static_cast<double>(question.rows);
  const double passing = part * static_cast<double>(question.selected);
  const double bytes = kByte * static_cast<double>(question.request.queries.stride());
  const double centroids = shape.planes == 0 && shape.groups == 0
                               ? lists * (dim * sizeof(float) * kByte + 2)
                               : lists * (1 + 0.02 * shape.coarse().code_stride());
  const double filter = question.selected == question.rows ? 0 : 4;
  if (shape.m == 0) return centroids + looked_at * (4 + filter) + passing * (2 * bytes + 10);
  const double wanted = static_cast<double>(reach.refine) * static_cast<double>(question.k);
  const double refined = std::min(wanted, passing) * (4 * bytes + 100);
  if (shape.planes != 0) {
    // Lists and groups of rows none of which passes are passed over.
    const double rate = std::min(1.0, passing / std::max(looked_at, 1.0));
    const auto any_of = [rate](double rows) { return 1 - std::pow(1 - rate, rows); };
    const double each_list = static_cast<double>(question.rows) / lists;
    const bool filtered = question.selected != question.rows;
    const double prepared =
        reach.lists() * any_of(each_list) * (filtered ? 180 + dim : 30 + 0.3 * dim);
    const double summed = looked_at * any_of(compute::RabitqGroup::kRows);
    const double chosen = std::min(wanted, passing) * 350;
    const double stride = shape.code_stride();
    const double row = filtered ? 1.5 + 0.1 * stride : 1.7 + 0.09 * stride;
    const double by_codes = prepared + summed * row + refined + chosen;
    if (!filtered || question.codes_only || !asked_recall(question.index, question.request)) {
      return centroids + by_codes;
    }
    const double compared = reach.lists() * 200.0 + passing * (22 + 4.5 * bytes);
    return centroids + std::min(by_codes, compared);
  }
  const double tables = shape.codewords() * dim * 0.7 * (shape.listwise ? reach.lists() : 1);
  const double codes = looked_at * (0.2 * shape.code_stride() + 4 + filter);
  return centroids + tables + codes + refined;
}

// Measured on a Zen 4 core, rows of 512 bytes, 2,524 lists: 65 ns a list and 3 a row that passes, where 18 are
// enough to compare such a row. Doubled here, since exact_cost() takes that for 37.
double whole_cost(const ReachQuestion& question, const Reach& reach) {
  constexpr std::uint32_t kMostLists = 16384;  // what is seen of each takes memory
  const compute::IvfShape& shape = question.model.shape();
  if (shape.planes == 0 || shape.lists > kMostLists) return std::numeric_limits<double>::infinity();
  const double bytes = kByte * static_cast<double>(question.request.queries.stride());
  const auto selected = static_cast<double>(question.selected);
  const double wanted = static_cast<double>(reach.refine) * static_cast<double>(question.k);
  return shape.lists * 130.0 + selected * (3 + 0.2 * shape.code_stride()) +
         std::min(wanted, selected) * (4 * bytes + 450);
}

}  // namespace warplite::engine
