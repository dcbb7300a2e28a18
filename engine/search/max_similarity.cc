#include "engine/search/max_similarity.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compute/host/host_kernels.h"
#include "compute/host/parallel.h"
#include "core/process/interruption.h"
#include "engine/filter/content_hits.h"
#include "engine/residency/residency.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kRowsOfChunk = 2048;  // that a thread takes at a time, at least
constexpr std::size_t kMostLeasts = std::size_t{1} << 23;  // distances in memory

// The documents that have been seen, by number.
class Documents {
 public:
  std::size_t size() const { return names_.size(); }
  const Value& name(std::size_t number) const { return names_[number]; }

  // REQUIRES: the row's value is not NULL.
  std::uint32_t number(const Column& column, std::uint32_t row) {
    if (column.type() == PlainType::kText) return of_text(column.text(row));
    if (column.type() == PlainType::kReal) {
      const double value = column.reals()[row];
      return of_key(std::bit_cast<std::int64_t>(value == 0 ? 0.0 : value), Cell::of(value));
    }
    return of_key(column.integers()[row], Cell::of(column.integers()[row]));
  }

 private:
  // Rows of one document mostly follow one another.
  std::uint32_t of_text(std::string_view text) {
    if (last_ != kNone && names_[last_].cell().bytes == text) return last_;
    const auto [at, is_new] = texts_.try_emplace(std::string(text), next());
    if (is_new) names_.emplace_back(Cell::text(text));
    return last_ = at->second;
  }
  std::uint32_t of_key(std::int64_t key, const Cell& name) {
    if (last_ != kNone && last_key_ == key) return last_;
    const auto [at, is_new] = keys_.try_emplace(key, next());
    if (is_new) names_.emplace_back(name);
    last_key_ = key;
    return last_ = at->second;
  }
  std::uint32_t next() const { return static_cast<std::uint32_t>(names_.size()); }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::vector<Value> names_;
  std::unordered_map<std::int64_t, std::uint32_t> keys_;  // numbers, by their bits
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::uint32_t last_ = kNone;
  std::int64_t last_key_ = 0;
};

// Rows of a document that follow one another in a part.
struct Run {
  std::uint32_t document, row, count;
};

// Calls take(row) for each selected row of a part, ascending.
template <typename Take>
void each_selected(const Selection::Rows& rows, std::uint32_t count, const Take& take) {
  if (rows.count == 0) return;
  for (std::uint32_t first = 0; first < count; first += 64) {
    const std::uint32_t end = std::min(count - first, 64u);
    std::uint64_t bits = rows.all ? ~std::uint64_t{0} : rows.bits.words()[first / 64];
    if (end < 64) bits &= (std::uint64_t{1} << end) - 1;
    for (; bits != 0; bits &= bits - 1) {
      take(first + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }
}

// Rows of some parts, whose vectors are in memory meanwhile: those of few documents may lie in many.
class Batch {
 public:
  Batch(Distance distance, const MatrixView& queries, double* leasts)
      : distance_(distance), queries_(queries), leasts_(leasts) {}

  void take(const Part& part, std::size_t column, const std::vector<Run>& runs) {
    added_ += part.vector_bytes(column);
    parts_.push_back(part.vectors(column));
    const MatrixView& vectors = parts_.back().data;
    for (const Run& run : runs) {
      rows_.push_back({run.document, run.count, vectors.row(run.row)});
      count_ += run.count;
    }
    if (count_ >= kMostRows || added_ >= most_added_) run();
  }

  // leasts[document * queries.rows + q] becomes the least of itself and of these rows' distances.
  void run() {
    const auto before = [](const Rows& a, const Rows& b) { return a.document < b.document; };
    if (!std::is_sorted(rows_.begin(), rows_.end(), before)) {
      interruptible_sort(rows_.begin(), rows_.end(), before);
    }
    const std::vector<std::size_t> chunks = chunk_ends();
    compute::in_parallel(chunks.size(), 1, chunks.size(), [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) add(i == 0 ? 0 : chunks[i - 1], chunks[i]);
    });
    rows_.clear();
    parts_.clear();
    count_ = added_ = 0;
  }

 private:
  struct Rows {
    std::uint32_t document, count;
    const std::byte* first;  // vector
  };

  // Ranges of rows_ that threads take, nearly alike; each has the whole of its documents.
  std::vector<std::size_t> chunk_ends() const {
    std::vector<std::size_t> chunks;
    const std::size_t count = std::max<std::size_t>(count_ / kRowsOfChunk, 1);
    const std::size_t size = (count_ + count - 1) / count;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      taken += rows_[i].count;
      const bool last = i + 1 == rows_.size();
      if (!last && (taken < size || rows_[i + 1].document == rows_[i].document)) continue;
      chunks.push_back(i + 1);
      taken = 0;
    }
    return chunks;
  }
  void add(std::size_t first, std::size_t last) const {
    std::vector<const std::byte*> vectors;
    std::vector<std::uint32_t> ends, documents;
    for (std::size_t i = first; i < last; ++i) {
      if (documents.empty() || documents.back() != rows_[i].document) {
        documents.push_back(rows_[i].document);
        ends.push_back(0);
      }
      const std::byte* vector = rows_[i].first;
      for (std::uint32_t r = 0; r < rows_[i].count; ++r, vector += queries_.stride()) {
        vectors.push_back(vector);
      }
      ends.back() = static_cast<std::uint32_t>(vectors.size());
    }
    std::vector<double> found(documents.size() * queries_.rows);
    compute::host_kernels().nearest_in_groups({distance_, queries_, vectors, ends}, found.data());
    for (std::size_t i = 0; i < documents.size(); ++i) {
      double* const of_document = leasts_ + documents[i] * queries_.rows;
      for (std::size_t q = 0; q < queries_.rows; ++q) {
        of_document[q] = std::min(of_document[q], found[i * queries_.rows + q]);
      }
    }
  }

  static constexpr std::size_t kMostRows = 1 << 16;

  const Distance distance_;
  const MatrixView queries_;
  double* const leasts_;
  std::vector<Rows> rows_;
  std::size_t count_ = 0;  // rows of those
  std::vector<Part::Vectors> parts_;
  std::size_t added_ = 0;  // bytes that may not have been in memory before
  // Rows of many parts are few batches: threads share each.
  const std::size_t most_added_ =
      std::max<std::size_t>(std::size_t{64} << 20, Residency::instance().limit() / 4);
};

class Search {
 public:
  Search(const View& view, const SearchRequest& search, const DocumentRequest& request)
      : view_(view), search_(search), request_(request), runs_(view.parts()) {}

  // Takes part: `rows`, and those of them that are also in `others`, unless that is null.
  void collect(const Selection& rows, const Selection* others) {
    Presence presence(view_, true);
    for (std::uint32_t i = 0; i < view_.parts(); ++i) {
      poll_interruption();
      if (rows.part(i).count == 0 || (others != nullptr && others->part(i).count == 0)) continue;
      collect(i, rows.part(i), others != nullptr ? &others->part(i) : nullptr, presence);
    }
  }

  std::vector<ScoredDocument> best() {
    const MatrixView& queries = search_.queries;
    std::vector<double> scores(documents_.size());
    const std::size_t together = std::clamp<std::size_t>(
        kMostLeasts / std::max<std::size_t>(documents_.size(), 1), 1, queries.rows);
    for (std::size_t first = 0; first < queries.rows; first += together) {
      MatrixView some = queries;
      some.rows = std::min(together, queries.rows - first);
      some.data = queries.row(first);
      add(some, scores);
    }
    return first_of(scores);
  }

 private:
  void collect(std::uint32_t number, const Selection::Rows& rows, const Selection::Rows* others,
               Presence& presence) {
    const Part& part = view_.part(number);
    const std::shared_ptr<const Column> names = part.plain(request_.column);
    if (names == nullptr) return;
    const Part::Vectors vectors = part.vectors(search_.column);
    if (vectors.all_null) return;
    std::vector<Run>& runs = runs_[number];
    SparsePoll poll;
    each_selected(others != nullptr ? *others : rows, part.rows(), [&](std::uint32_t row) {
      poll();
      if ((others != nullptr && !rows.test(row)) || names->is_null(row)) return;
      if (vectors.present != nullptr && !vectors.present->test(row)) return;
      if (!presence({number, row})) return;
      const std::uint32_t document = documents_.number(*names, row);
      if (!runs.empty() && runs.back().document == document &&
          runs.back().row + runs.back().count == row) {
        ++runs.back().count;
      } else {
        runs.push_back({document, row, 1});
      }
      ++rows_;
    });
  }

  // Adds what these vectors of the query give each document. In their order, so that a sum is the
  // same however many are together.
  void add(const MatrixView& queries, std::vector<double>& scores) const {
    std::vector<double> leasts(scores.size() * queries.rows,
                               std::numeric_limits<double>::infinity());
    Batch batch(search_.distance, queries, leasts.data());
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].empty()) continue;
      poll_interruption();
      batch.take(view_.part(i), search_.column, runs_[i]);
    }
    batch.run();
    if (search_.report != nullptr) search_.report->rows += rows_ * queries.rows;
    const double self = info(search_.distance).norms ? 1 : 0;
    SparsePoll poll;
    for (std::size_t d = 0; d < scores.size(); ++d) {
      poll();
      const double* const least = leasts.data() + d * queries.rows;
      for (std::size_t q = 0; q < queries.rows; ++q) scores[d] += self - least[q];
    }
  }

  std::vector<ScoredDocument> first_of(const std::vector<double>& scores) const {
    std::vector<std::uint32_t> order(scores.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto end = order.begin() +
                     static_cast<std::ptrdiff_t>(std::min(request_.k, order.size()));
    SparsePoll poll;
    std::partial_sort(order.begin(), end, order.end(), [&](std::uint32_t a, std::uint32_t b) {
      poll();
      return scores[a] != scores[b] ? scores[a] > scores[b]
                                    : comes_before(documents_.name(a), documents_.name(b));
    });
    std::vector<ScoredDocument> best;
    for (auto at = order.begin(); at != end; ++at) {
      best.push_back({documents_.name(*at), scores[*at]});
    }
    return best;
  }

  // Both are of the column's type.
  static bool comes_before(const Value& left, const Value& right) {
    const Cell a = left.cell(), b = right.cell();
    if (a.kind == CellKind::kText) return a.bytes < b.bytes;
    return a.kind == CellKind::kReal ? a.real < b.real : a.integer < b.integer;
  }

  const View& view_;
  const SearchRequest& search_;
  const DocumentRequest& request_;
  Documents documents_;
  std::vector<std::vector<Run>> runs_;  // of each part
  std::uint64_t rows_ = 0;              // of all
};

// The names of the documents of the rows that are nearest to each of the query's vectors.
std::vector<Value> nominate(const View& view, const Selection& rows, const index::Index& index,
                            const SearchRequest& search, std::size_t column,
                            std::size_t candidates) {
  Documents documents;
  compute::HitTable hits = nearest(view, rows, index, search, candidates);
  for (std::size_t q = 0; q < hits.queries(); ++q) {
    poll_interruption();
    for (const Hit& hit : hits.sorted(q)) {
      const std::shared_ptr<const Column> names = view.part(hit.block).plain(column);
      if (names != nullptr && !names->is_null(hit.row)) documents.number(*names, hit.row);
    }
  }
  std::vector<Value> names;
  for (std::size_t i = 0; i < documents.size(); ++i) names.push_back(documents.name(i));
  return names;
}

// The documents that are scored; none: all of them.
std::optional<std::vector<Value>> scored_documents(const View& view, const Selection& rows,
                                                   const index::Index& index,
                                                   const SearchRequest& search,
                                                   const DocumentRequest& request) {
  constexpr std::size_t kFewestCandidates = 100, kCandidatesOfK = 4;
  // To find a candidate of a query vector, and to score its document, takes as long as to score so many rows.
  constexpr std::size_t kRowsOfCandidate = 40;
  if (request.documents) return request.documents;
  if (!request.candidates && is_exact(view, index, search)) return std::nullopt;
  const std::size_t most = static_cast<std::size_t>(rows.count());
  const std::size_t by_k =
      std::max(kFewestCandidates, kCandidatesOfK * std::min(request.k, most));
  if (!request.candidates && most <= kRowsOfCandidate * search.queries.rows * by_k) return std::nullopt;
  return nominate(view, rows, index, search, request.column, request.candidates.value_or(by_k));
}

}  // namespace

std::vector<ScoredDocument> most_similar(const View& view, const Selection& rows,
                                         const index::Index& index, const SearchRequest& search,
                                         const DocumentRequest& request) {
  if (request.k == 0 || search.queries.rows == 0) return {};
  Search documents(view, search, request);
  if (auto names = scored_documents(view, rows, index, search, request)) {
    Predicate of_documents;
    of_documents.column = static_cast<int>(request.column);
    of_documents.op = Comparison::kIn;
    of_documents.operands = std::move(*names);
    const Selection others(view, {of_documents});
    documents.collect(rows, &others);
  } else {
    documents.collect(rows, nullptr);
  }
  return documents.best();
}

}  // namespace warplite::engine
