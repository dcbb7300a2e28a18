#include "engine/sequences.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "compute/edit_distance.h"
#include "compute/parallel.h"
#include "core/topk.h"
#include "engine/common_cancellation.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kFirstCandidates = 32;
// Beyond this part of the rows it is quicker to compare all of them than to go on doubling.
constexpr std::size_t kMostOfRows = 16, kMostCandidates = 16384;
// Queries compared with every row of a part between two looks at the cancellation.
constexpr std::size_t kScanned = 8;
constexpr std::size_t kGrain = 512;

void poll(compute::Cancellation* cancellation) {
  if (cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

struct Query {
  std::string_view text;
  std::unique_ptr<compute::EditPattern> pattern;
};

// A result that must come after another one.
bool admits(const DistanceRange& range, const std::optional<Hit>& after, const Hit& hit) {
  return range.contains(hit.distance) && (!after || *after < hit);
}

class SequenceSearch {
 public:
  SequenceSearch(const View& view, const Selection& rows, const TextRequest& request,
                 std::span<const std::string_view> queries)
      : view_(view), rows_(rows), request_(request), cancellation_(request.cancellation),
        texts_(view.parts()) {
    CodePoints points;
    for (const std::string_view text : queries) {
      index::comparable(request.index, text, points);
      queries_.push_back({text, std::make_unique<compute::EditPattern>(points)});
    }
  }

  std::vector<Sequences> nearest(std::size_t k, std::optional<std::size_t> candidates) {
    std::vector<Sequences> answers(queries_.size());
    if (k == 0) return answers;
    if (candidates && *candidates >= rows_.count()) candidates = std::nullopt;
    std::vector<std::size_t> open(queries_.size());
    for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
    const auto rows = static_cast<std::size_t>(rows_.count());
    std::size_t count = candidates.value_or(std::max(kFirstCandidates, 2 * k));
    const std::size_t most = std::max(count, std::min(kMostCandidates, rows / kMostOfRows));
    std::vector<std::size_t> far;  // those for which no number of candidates is likely to do
    for (; !open.empty() && count <= most; count *= 2) {
      answer(open, k, count, answers);
      if (candidates) return answers;
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

  // Every row within the range, of one query.
  std::vector<Hit> within(const DistanceRange& range, const std::optional<Hit>& after) {
    std::vector<Hit> hits;
    std::mutex mutex;
    const auto size = static_cast<double>(queries_[0].pattern->size());
    scan([&](std::uint32_t part, const RowIdView& rowids, std::size_t first, std::size_t last) {
      std::vector<Hit> mine;
      CodePoints points;
      for (std::size_t row = first; row < last; ++row) {
        if (!selected(part, row)) continue;
        read(part, row, points);
        if (std::abs(static_cast<double>(points.size()) - size) > range.high) continue;
        const Hit hit = hit_of(queries_[0], part, rowids, row, points);
        if (admits(range, after, hit)) mine.push_back(hit);
      }
      const std::lock_guard lock(mutex);
      hits.insert(hits.end(), mine.begin(), mine.end());
    });
    return hits;
  }

 private:
  const Column* texts(std::uint32_t part) {
    if (texts_[part] == nullptr) texts_[part] = view_.part(part).plain(request_.column);
    return texts_[part].get();
  }
  bool selected(std::uint32_t part, std::size_t row) const {
    const Selection::Rows& rows = rows_.part(part);
    return (rows.all || rows.bits.test(row)) && !texts_[part]->is_null(row);
  }
  void read(std::uint32_t part, std::size_t row, CodePoints& points) const {
    index::comparable(request_.index, texts_[part]->text(row), points);
  }
  Hit hit_of(const Query& query, std::uint32_t part, const RowIdView& rowids, std::size_t row,
             const CodePoints& points) const {
    const auto distance = static_cast<double>(query.pattern->distance(points, &cancellation_));
    return {distance, rowids[row], part, static_cast<std::uint32_t>(row)};
  }

  // Calls body(part, rowids, first, last) for ranges of rows of every part with selected ones, on
  // all threads.
  template <typename Body>
  void scan(const Body& body) {
    for (std::uint32_t part = 0; part < view_.parts(); ++part) {
      if (rows_.part(part).count == 0 || texts(part) == nullptr) continue;
      const RowIdView rowids = view_.part(part).rowids();
      const std::size_t rows = view_.part(part).rows();
      compute::in_parallel(rows, kGrain, rows / kGrain, [&](std::size_t first, std::size_t last) {
        for (; first < last; first += kGrain) {
          poll(&cancellation_);
          body(part, rowids, first, std::min(last, first + kGrain));
        }
      });
      texts_[part] = nullptr;
    }
  }

  // Whether candidates that are no nearer than these would do, if the others counted next to none.
  bool certifiable(std::size_t query, std::size_t k, const Sequences& answer) const {
    return answer.nearest.size() == k &&
           index::certifies(1, queries_[query].pattern->size(), request_.index.ngram.n,
                            static_cast<std::size_t>(answer.nearest.back().hit.distance));
  }

  // Candidates of some queries, compared; and whether they are enough.
  void answer(const std::vector<std::size_t>& open, std::size_t k, std::size_t count,
              std::vector<Sequences>& answers) {
    std::vector<std::string_view> asked;
    for (const std::size_t i : open) asked.push_back(queries_[i].text);
    compute::HitTable table = most_common(view_, rows_, request_, asked, count);
    for (std::size_t i = 0; i < open.size(); ++i) {
      poll(&cancellation_);
      const std::vector<Hit>& candidates = table.sorted(i);
      const Query& query = queries_[open[i]];
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
          kept == k && index::certifies(outside, query.pattern->size(), request_.index.ngram.n,
                                        static_cast<std::size_t>(found.back().hit.distance));
      answer.nearest = std::move(found);
    }
    texts_.assign(texts_.size(), nullptr);
  }

  std::vector<Sequence> compare(const Query& query, const std::vector<Hit>& candidates) {
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
    for (std::size_t first = 0; first < open.size(); first += kScanned) {
      const auto some = std::span(open).subspan(first, std::min(kScanned, open.size() - first));
      std::vector<TopK> best(some.size(), TopK(k));
      // What is known of them is a bound already.
      for (std::size_t i = 0; i < some.size(); ++i) {
        const auto& known = answers[some[i]].nearest;
        if (known.size() == k) best[i].tighten(known.back().hit.distance);
      }
      compare_all(some, best);
      for (std::size_t i = 0; i < some.size(); ++i) finish(best[i], answers[some[i]], some[i]);
    }
  }

  void compare_all(std::span<const std::size_t> some, std::vector<TopK>& best) {
    std::mutex mutex;
    scan([&](std::uint32_t part, const RowIdView& rowids, std::size_t first, std::size_t last) {
      std::vector<TopK> mine;
      {
        const std::lock_guard lock(mutex);
        for (const TopK& one : best) {
          mine.emplace_back(one.k());
          mine.back().tighten(one.threshold());
        }
      }
      CodePoints points;
      for (std::size_t row = first; row < last; ++row) {
        if (!selected(part, row)) continue;
        read(part, row, points);
        for (std::size_t i = 0; i < some.size(); ++i) {
          const Query& query = queries_[some[i]];
          const double least = std::abs(static_cast<double>(points.size()) -
                                        static_cast<double>(query.pattern->size()));
          if (least <= mine[i].threshold()) {
            mine[i].push(hit_of(query, part, rowids, row, points));
          }
        }
      }
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < some.size(); ++i) best[i].merge(mine[i]);
    });
  }

  void finish(TopK& best, Sequences& answer, std::size_t query) {
    answer.nearest.clear();
    for (const Hit& hit : best.sorted()) {
      poll(&cancellation_);
      const std::string_view text = texts(hit.block)->text(hit.row);
      answer.nearest.push_back(
          {hit, index::common_keywords(request_.index, text, queries_[query].text)});
    }
    answer.certified = true;
  }

  const View& view_;
  const Selection& rows_;
  const TextRequest& request_;
  mutable CommonCancellation cancellation_;
  std::vector<std::shared_ptr<const Column>> texts_;  // by part, as needed
  std::vector<Query> queries_;
};

}  // namespace

std::vector<Sequences> nearest_sequences(const View& view, const Selection& rows,
                                         const TextRequest& request,
                                         std::span<const std::string_view> queries, std::size_t k,
                                         std::optional<std::size_t> candidates) {
  k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count()));
  return SequenceSearch(view, rows, request, queries).nearest(k, candidates);
}

std::vector<Hit> all_sequences(const View& view, const Selection& rows, const TextRequest& request,
                               std::string_view query, const DistanceRange& range,
                               const std::optional<Hit>& after) {
  return SequenceSearch(view, rows, request, {&query, 1}).within(range, after);
}

}  // namespace warplite::engine
