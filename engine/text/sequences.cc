#include "engine/text/sequences.h"

#include <algorithm>
#include <memory>

#include "compute/edit_distance.h"
#include "compute/host/parallel.h"
#include "engine/filter/content_hits.h"
#include "engine/residency/common_cancellation.h"
#include "engine/text/edit_search.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kFirstCandidates = 32;
// If more than this share of the rows are candidates, it is quicker to compare all of them than to
// go on doubling.
constexpr std::size_t kMostOfRows = 1024, kMostCandidates = 16384;

void poll(compute::Cancellation* cancellation) {
  if (cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

struct EditQuery {
  std::string_view text;
  CodePoints points;
  std::unique_ptr<compute::EditPattern> pattern;
};

EditRequest edit_request(const TextRequest& request) {
  const index::NgramOptions& options = request.index.ngram;
  return {{request.column, options.fold, options.normalization},
          request.device,
          request.cancellation,
          {}};
}

class SequenceSearch {
 public:
  SequenceSearch(const View& view, const Selection& rows, const TextRequest& request,
                 std::span<const std::string_view> queries)
      : view_(view), rows_(rows), request_(request), cancellation_(request.cancellation),
        texts_(view.parts()) {
    for (const std::string_view text : queries) {
      CodePoints points;
      index::comparable(request.index, text, points);
      auto pattern = std::make_unique<compute::EditPattern>(points, &cancellation_);
      queries_.push_back({text, std::move(points), std::move(pattern)});
    }
  }

  std::vector<Sequences> nearest(std::size_t k, std::optional<std::size_t> candidates) {
    std::vector<Sequences> answers(queries_.size());
    if (k == 0) return answers;
    std::vector<std::size_t> open(queries_.size());
    for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
    const auto rows = static_cast<std::size_t>(rows_.count());
    const bool fixed = candidates && *candidates < rows;
    std::size_t count = fixed ? *candidates : std::max(kFirstCandidates, 2 * k);
    const std::size_t few = std::min(kMostCandidates, rows / kMostOfRows);
    // Of so many wanted rows candidates would be a large part of all.
    const std::size_t most = fixed || k <= kFirstCandidates ? std::max(count, few) : few;
    std::vector<std::size_t> far;  // those for which no number of candidates is likely to do
    for (; !open.empty() && count <= most; count *= 2) {
      answer(open, k, count, answers);
      if (fixed) return answers;
      std::erase_if(open, [&](std::size_t i) { return answers[i].certified; });
      for (const std::size_t i : open) {
        if (!certifiable(i, k, answers[i])) far.push_back(i);
      }
      std::erase_if(open, [&](std::size_t i) { return !certifiable(i, k, answers[i]); });
    }
    open.insert(open.end(), far.begin(), far.end());
    compare_all(open, k, answers);
    return answers;
  }

 private:
  const Column* texts(std::uint32_t part) {
    if (texts_[part] == nullptr) texts_[part] = view_.part(part).plain(request_.column);
    return texts_[part].get();
  }
  void read(std::uint32_t part, std::size_t row, CodePoints& points) const {
    index::comparable(request_.index, texts_[part]->text(row), points);
  }

  // Says whether candidates that are no nearer than these would do, if the others counted next to
  // none.
  bool certifiable(std::size_t query, std::size_t k, const Sequences& answer) const {
    return answer.nearest.size() == k &&
           index::certifies(1, queries_[query].points.size(), request_.index.ngram.n,
                            static_cast<std::size_t>(answer.nearest.back().hit.distance));
  }

  // Candidates of some queries, compared; and whether they are enough.
  void answer(const std::vector<std::size_t>& open, std::size_t k, std::size_t count,
              std::vector<Sequences>& answers) {
    std::vector<std::string_view> asked;
    for (const std::size_t i : open) asked.push_back(queries_[i].text);
    compute::HitTable table = engine::candidates(view_, rows_, request_, asked, count);
    for (std::size_t i = 0; i < open.size(); ++i) {
      poll(&cancellation_);
      const std::span<const Hit> candidates = table.sorted(i);
      const EditQuery& query = queries_[open[i]];
      std::vector<Sequence> found = compare(query, candidates);
      const std::size_t kept = std::min(k, found.size());
      std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept),
                        found.end(),
                        [](const Sequence& a, const Sequence& b) { return a.hit < b.hit; });
      found.resize(kept);
      Sequences& answer = answers[open[i]];
      const bool all = candidates.size() < count;
      const auto outside =
          all ? 0 : static_cast<std::uint32_t>(-candidates.back().distance);
      answer.certified =
          kept == k && index::certifies(outside, query.points.size(), request_.index.ngram.n,
                                        static_cast<std::size_t>(found.back().hit.distance));
      answer.nearest = std::move(found);
    }
    texts_.assign(texts_.size(), nullptr);
  }

  std::vector<Sequence> compare(const EditQuery& query, std::span<const Hit> candidates) {
    for (const Hit& hit : candidates) texts(hit.block);
    std::vector<Sequence> found(candidates.size());
    constexpr std::size_t kFew = 32;
    compute::in_parallel(found.size(), kFew, found.size() / (2 * kFew),
                         [&](std::size_t first, std::size_t last) {
      CodePoints points;
      for (std::size_t i = first; i < last; ++i) {
        const Hit& candidate = candidates[i];
        read(candidate.block, candidate.row, points);
        found[i].hit = candidate;
        found[i].hit.distance = static_cast<double>(query.pattern->distance(points, &cancellation_));
        found[i].matches = static_cast<std::uint32_t>(-candidate.distance);
      }
    });
    return found;
  }

  void compare_all(const std::vector<std::size_t>& open, std::size_t k,
                   std::vector<Sequences>& answers) {
    std::vector<CodePoints> points;
    compute::HitTable best(open.size(), k);
    for (std::size_t i = 0; i < open.size(); ++i) {
      points.push_back(queries_[open[i]].points);
      // Distances known already are a bound.
      const auto& known = answers[open[i]].nearest;
      if (known.size() == k) best.row(i).tighten(known.back().hit.distance);
    }
    nearest_texts(view_, rows_, edit_request(request_), points, best);
    for (std::size_t i = 0; i < open.size(); ++i) finish(best.row(i), answers[open[i]]);
  }

  void finish(TopK& best, Sequences& answer) {
    answer.nearest.clear();
    for (const Hit& hit : best.sorted()) answer.nearest.push_back({hit});
    answer.certified = true;
  }

  const View& view_;
  const Selection& rows_;
  const TextRequest& request_;
  mutable CommonCancellation cancellation_;
  std::vector<std::shared_ptr<const Column>> texts_;  // by part, as needed
  std::vector<EditQuery> queries_;
};

}  // namespace

std::vector<Sequences> nearest_sequences(const View& view, const Selection& rows,
                                         const TextRequest& request,
                                         std::span<const std::string_view> queries, std::size_t k,
                                         std::optional<std::size_t> candidates) {
  return search_present(
      view, rows,
      [&](const Selection& some) {
        const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(k, some.count()));
        return SequenceSearch(view, some, request, queries).nearest(most, candidates);
      },
      [](const std::vector<Sequences>& answers, const auto& take) {
        for (const Sequences& answer : answers) {
          for (const Sequence& sequence : answer.nearest) take(sequence.hit);
        }
      });
}

std::vector<Hit> all_sequences(const View& view, const Selection& rows, const TextRequest& request,
                               std::string_view query, const DistanceRange& range,
                               const std::optional<Hit>& after) {
  EditRequest all = edit_request(request);
  all.range = range;
  CodePoints points;
  index::comparable(request.index, query, points);
  return std::move(texts_within(view, rows, all, {&points, 1}, after)[0]);
}

}  // namespace warplite::engine
