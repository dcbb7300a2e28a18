#include "sql/table/match_source.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/process/interruption.h"
#include "engine/filter/content_hits.h"
#include "engine/match/match_count.h"
#include "engine/search/search.h"
#include "engine/sparse/sparse_search.h"
#include "engine/text/edit_search.h"
#include "engine/text/sequences.h"
#include "sql/table/match_rows.h"

namespace warplite::sql {
namespace {

void remove_rows(std::vector<Hit>& hits, const std::vector<Hit>& which) {
  std::unordered_set<RowId> rowids;
  rowids.reserve(which.size());
  for (const Hit& hit : which) rowids.insert(hit.rowid);
  std::erase_if(hits, [&](const Hit& hit) { return rowids.contains(hit.rowid); });
}

// If the first rows are approximate, batch after batch looks farther, until every row is compared. What
// an earlier batch missed is nearer than rows that have come: so that they ascend for who reads no further
// than a LIMIT, it waits until all others have come. If the first rows are exact, the rest is what comes after the
// last one.
class VectorSource final : public MatchSource {
 public:
  VectorSource(const MatchQuestion& question, const engine::View& view,
               const engine::Selection& selection, const index::Index& index,
               compute::Cancellation& cancellation)
      : view_(view), selection_(selection), index_(index) {
    request_.column = question.column;
    request_.distance = question.distance;
    request_.queries = {question.query.data(), 1, question.dim, question.type};
    request_.range = question.range;
    request_.nprobe = question.nprobe.value_or(0);
    request_.recall = question.recall;
    request_.refine = question.refine;
    request_.exact = question.exact;
    request_.device = question.device;
    request_.cancellation = &cancellation;
    request_.report = question.report.get();
  }

  std::vector<Hit> first(std::size_t k) override {
    // Now, since the view may lose its model while the cursor is open.
    approximate_ = !engine::is_exact(view_, index_, request_);
    batch_ = k;
    return nearest();
  }
  std::vector<Hit> all() override { return within(request_); }
  Batch next(const std::vector<Hit>& come) override {
    if (!approximate_) return MatchSource::next(come);
    if (!missed_.empty()) return {std::exchange(missed_, {}), true};
    constexpr std::uint32_t kGrowth = 4;
    batch_ *= kGrowth;
    request_.farther *= kGrowth;
    const bool part = engine::looks_at_part(view_, selection_, index_, request_, batch_);
    std::vector<Hit> hits = part ? nearest() : all();
    remove_rows(hits, come);
    const auto missed = std::partition(hits.begin(), hits.end(),
                                       [&](const Hit& hit) { return come.back() < hit; });
    if (!part) missed_.assign(missed, hits.end());
    hits.erase(missed, hits.end());
    return {std::move(hits), !part && missed_.empty()};
  }

 private:
  std::vector<Hit> rest(const Hit& last) override {
    engine::SearchRequest search = request_;
    search.has_after = true;
    search.after_distance = last.distance;
    search.after_rowid = last.rowid;
    return within(search);
  }
  std::vector<Hit> nearest() const {
    return engine::nearest(view_, selection_, index_, request_, batch_).list(0);
  }
  std::vector<Hit> within(const engine::SearchRequest& search) const {
    return std::move(engine::within(view_, selection_, index_, search)[0]);
  }

  const engine::View& view_;
  const engine::Selection& selection_;
  const index::Index& index_;
  engine::SearchRequest request_;
  std::size_t batch_ = 0;     // rows of the last one, those that had come included
  bool approximate_ = false;  // what first() has found
  std::vector<Hit> missed_;   // when all others have come
};

class SparseSource final : public MatchSource {
 public:
  SparseSource(const MatchQuestion& question, const engine::View& view,
               const engine::Selection& selection, compute::Cancellation& cancellation)
      : view_(view), selection_(selection),
        query_(reinterpret_cast<const char*>(question.query.data())) {
    request_.column = question.column;
    request_.range = question.range;
    request_.exact = question.exact;
    request_.device = question.device;
    request_.cancellation = &cancellation;
    request_.report = question.report.get();
  }

  std::vector<Hit> first(std::size_t k) override {
    return engine::nearest_sparse(view_, selection_, request_, {&query_, 1}, k).list(0);
  }
  std::vector<Hit> all() override { return within(std::nullopt); }

 private:
  std::vector<Hit> rest(const Hit& last) override { return within(last); }
  std::vector<Hit> within(const std::optional<Hit>& after) const {
    return std::move(engine::sparse_within(view_, selection_, request_, {&query_, 1}, after)[0]);
  }

  const engine::View& view_;
  const engine::Selection& selection_;
  const compute::SparseQuery query_;
  engine::SparseRequest request_;
};

class CountSource final : public MatchSource {
 public:
  CountSource(const MatchQuestion& question, const engine::View& view,
              const engine::Selection& selection, compute::Cancellation& cancellation)
      : question_(question), view_(view), selection_(selection), cancellation_(cancellation) {}

  std::vector<Hit> first(std::size_t k) override {
    engine::CountRequest request;
    request.range = question_.counts;
    request.cancellation = &cancellation_;
    return engine::most_matches(view_, selection_, {&question_.items, 1}, k, request).list(0);
  }
  std::vector<Hit> all() override { return matches({}); }

 private:
  std::vector<Hit> rest(const Hit& last) override { return matches(last); }
  std::vector<Hit> matches(const std::optional<Hit>& after) const {
    return engine::all_matches(view_, selection_, question_.items, question_.counts, after,
                               &cancellation_);
  }

  const MatchQuestion& question_;
  const engine::View& view_;
  const engine::Selection& selection_;
  compute::Cancellation& cancellation_;
};

class TextSource : public MatchSource {
 public:
  TextSource(const MatchQuestion& question, const engine::View& view,
             const engine::Selection& selection, compute::Cancellation& cancellation)
      : question_(question), view_(view), selection_(selection), query_(question.query_text()),
        request_{question.column, question.text, question.device, &cancellation,
                 question.by_rarity} {}

 protected:
  const MatchQuestion& question_;
  const engine::View& view_;
  const engine::Selection& selection_;
  const std::string_view query_;
  const engine::TextRequest request_;
};

// Searches by edit distance, through n-grams.
class SequenceSource final : public TextSource {
 public:
  using TextSource::TextSource;

  std::vector<Hit> first(std::size_t k) override {
    const DistanceRange& range = question_.range;
    // Rows that are too near would take the places of others.
    if (range.low > 0 || (range.low == 0 && range.low_open)) {
      std::vector<Hit> within = all();
      engine::erase_vanished(view_, within);
      return nearest_of(std::move(within), k);
    }
    std::vector<Hit> hits;
    const std::vector<engine::Sequences> answers =
        engine::nearest_sequences(view_, selection_, request_, {&query_, 1}, k);
    for (const engine::Sequence& sequence : answers[0].nearest) {
      if (range.contains(sequence.hit.distance)) hits.push_back(sequence.hit);
    }
    return hits;
  }
  std::vector<Hit> all() override {
    return engine::all_sequences(view_, selection_, request_, query_, question_.range);
  }

 private:
  std::vector<Hit> rest(const Hit& last) override {
    return engine::all_sequences(view_, selection_, request_, query_, question_.range, last);
  }
  static std::vector<Hit> nearest_of(std::vector<Hit> hits, std::size_t k) {
    interruptible_sort(hits.begin(), hits.end());
    hits.resize(std::min(k, hits.size()));
    return hits;
  }
};

// Searches by edit distance, comparing every text that a metric index does not pass over.
class EditSource final : public MatchSource {
 public:
  EditSource(const MatchQuestion& question, const engine::View& view,
             const engine::Selection& selection, compute::Cancellation& cancellation)
      : view_(view), selection_(selection), queries_(1) {
    request_.column.column = question.column;
    request_.metric = question.text.metric;
    request_.device = question.device;
    request_.cancellation = &cancellation;
    request_.report = question.report.get();
    request_.range = question.range;
    request_.column.read(question.query_text(), queries_[0]);
  }

  std::vector<Hit> first(std::size_t k) override {
    const auto search = [&](const engine::Selection& rows) {
      compute::HitTable best(
          1, static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count())));
      if (best.k() != 0) engine::nearest_texts(view_, rows, request_, queries_, best);
      return best;
    };
    return engine::nearest_present(view_, selection_, search).list(0);
  }
  std::vector<Hit> all() override { return within(std::nullopt); }

 private:
  std::vector<Hit> rest(const Hit& last) override { return within(last); }
  std::vector<Hit> within(const std::optional<Hit>& after) const {
    return std::move(engine::texts_within(view_, selection_, request_, queries_, after)[0]);
  }

  const engine::View& view_;
  const engine::Selection& selection_;
  engine::EditRequest request_;
  std::vector<CodePoints> queries_;
};

// Searches by words in common; the distance is how many of the query's are missing.
class WordSource final : public TextSource {
 public:
  using TextSource::TextSource;

  std::vector<Hit> first(std::size_t k) override {
    std::vector<Hit> hits = most_common(question_.range.unbounded() ? k : every_row());
    std::erase_if(hits, [&](const Hit& hit) { return !question_.range.contains(hit.distance); });
    hits.resize(std::min(k, hits.size()));
    return hits;
  }
  std::vector<Hit> all() override { return first(every_row()); }

 private:
  std::vector<Hit> rest(const Hit& last) override {
    std::vector<Hit> hits = all();
    std::erase_if(hits, [&](const Hit& hit) { return !(last < hit); });
    return hits;
  }
  std::size_t every_row() const { return static_cast<std::size_t>(selection_.count()); }
  std::vector<Hit> most_common(std::size_t k) {
    std::vector<Hit> hits =
        engine::most_common(view_, selection_, request_, {&query_, 1}, k).list(0);
    for (Hit& hit : hits) hit.distance += static_cast<double>(question_.words);
    return hits;
  }
};

}  // namespace

// To find a thousand rows takes hardly longer than ten, and to sort all of them much longer.
MatchSource::Batch MatchSource::next(const std::vector<Hit>& come) {
  constexpr std::size_t kSome = 1024, kGrowth = 4;
  if (come.size() * kGrowth > kSome) return {rest(come.back()), true};
  std::vector<Hit> hits = first(kSome);
  const bool last = hits.size() < kSome;
  std::erase_if(hits, [&](const Hit& hit) { return !(come.back() < hit); });
  return {std::move(hits), last};
}

std::unique_ptr<MatchSource> make_source(const MatchQuestion& question, const engine::View& view,
                                         const engine::Selection& selection,
                                         const index::Index* index,
                                         compute::Cancellation& cancellation) {
  if (question.text.kind == index::TextIndex::Kind::kNgram) {
    return std::make_unique<SequenceSource>(question, view, selection, cancellation);
  }
  if (question.text.kind == index::TextIndex::Kind::kWords) {
    return std::make_unique<WordSource>(question, view, selection, cancellation);
  }
  if (question.text.kind == index::TextIndex::Kind::kEdit) {
    return std::make_unique<EditSource>(question, view, selection, cancellation);
  }
  if (question.of_sparse) {
    return std::make_unique<SparseSource>(question, view, selection, cancellation);
  }
  if (index == nullptr) {
    return std::make_unique<CountSource>(question, view, selection, cancellation);
  }
  return std::make_unique<VectorSource>(question, view, selection, *index, cancellation);
}

}  // namespace warplite::sql
