#include "engine/lsh/lsh_search.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/ivf/rescorer.h"
#include "engine/lsh/signatures.h"
#include "engine/match/tile_search.h"
#include "engine/search/exact_search.h"
#include "index/lsh/codes.h"

namespace warplite::engine {
namespace {

// What is known of one view, by column. It belongs to the view.
struct Known {
  std::shared_ptr<const CodedParts> coded;
  std::shared_ptr<const View> bits;  // of simhash
};
struct Memo : std::map<std::size_t, Known> {};

Known& known_of(const View& view, std::size_t column) {
  Known& known = view.derived().of<Memo>()[column];
  if (known.coded == nullptr) {
    known.coded = std::make_shared<const CodedParts>(find_coded_parts(view, column));
  }
  return known;
}

MatrixView some_rows(const MatrixView& all, std::size_t first, std::size_t count) {
  MatrixView some = all;
  some.data = all.row(first);
  some.rows = count;
  return some;
}

// The coded parts of one search.
class HashSearch {
 public:
  HashSearch(const View& view, const Selection& rows, const index::Trained& index,
             const SearchRequest& request, std::size_t k, const CodedParts& coded,
             std::shared_ptr<const index::Model> model)
      : view_(view), rows_(rows), index_(index), request_(request), k_(k), coded_(coded),
        model_(std::move(model)), lsh_(index::hashed(*model_)) {
    for (const std::uint32_t part : coded.parts) {
      selected_ += rows.part(part).count;
      if (rows.part(part).count != 0) searched_ += view.part(part).rows();
    }
    // Ties of counts do not tell which rows are near, so that a few candidates are too few.
    constexpr std::size_t kFewest = 4;
    const std::size_t wanted = request.refine ? std::max<std::size_t>(1, *request.refine) * k
                                              : index.default_refine() * std::max(kFewest, k);
    candidates_ = static_cast<std::size_t>(
        std::min<std::uint64_t>(selected_, std::max(wanted, k)));
  }

  std::uint64_t selected() const { return selected_; }

  // Says whether to compare every selected row takes no longer: all of them are candidates; or a
  // filter left few. Without one, to look at some only is the user's choice.
  bool better_exact() const {
    if (candidates_ == selected_) return true;
    if (selected_ == coded_.live_rows) return false;
    const double stride = static_cast<double>(request_.queries.stride());
    return static_cast<double>(selected_) * stride <=
           counting() + static_cast<double>(candidates_) * stride;
  }

  // The nearest of the candidates, for some queries at a time.
  compute::HitTable nearest() {
    const MatrixView& queries = request_.queries;
    const std::size_t most = queries_at_once();
    compute::HitTable best(queries.rows, k_);
    Rescorer rescorer(view_, request_, fits() ? Rescorer::Read::kWhole : Rescorer::Read::kRows);
    for (std::size_t first = 0; first < queries.rows; first += most) {
      if (request_.cancellation != nullptr && request_.cancellation->requested()) {
        throw Error(ErrorKind::kInterrupted, "interrupted");
      }
      const MatrixView some = some_rows(queries, first, std::min(most, queries.rows - first));
      compute::HitTable found = bits() ? count_bits(some) : count_postings(some);
      compute::HitTable nearest(some.rows, k_);
      rescorer.add(found);
      rescorer.run(some, nearest);
      best.merge(std::move(nearest), first);
    }
    return best;
  }

 private:
  // Returns how many queries to take at once, so that their buckets and candidates do not strain
  // memory and hashing them takes but a moment.
  std::size_t queries_at_once() const {
    constexpr std::size_t kMostNumbers = std::size_t{1} << 20;
    constexpr std::size_t kMostSteps = std::size_t{1} << 27;
    const std::size_t m = lsh_.m();
    return std::max<std::size_t>(1, std::min(kMostNumbers / std::max(candidates_, m),
                                             kMostSteps / (m * lsh_.dim())));
  }

  // Says whether memory has room for all vectors.
  bool fits() const {
    std::size_t bytes = 0;
    for (const std::uint32_t part : coded_.parts)
      bytes += view_.part(part).vector_bytes(request_.column);
    return bytes <= Residency::instance().limit();
  }

  bool bits() const { return lsh_.family() == index::LshFamily::kSimhash; }

  // Returns what it costs to count the matches of one query, in bytes compared.
  double counting() const {
    if (bits()) return static_cast<double>(selected_) * index::signature_bits(lsh_) / 8;
    constexpr double kMatch = 2;  // measured on CPUs: many are counted as bits
    return static_cast<double>(searched_) * lsh_.m() * kShare * kMatch;
  }

  compute::HitTable count_postings(const MatrixView& queries) const {
    std::vector<std::uint32_t> signatures(queries.rows * lsh_.m());
    lsh_.signature(queries, nullptr, signatures.data());
    std::vector<std::uint32_t> begins{0};
    std::vector<compute::MatchItem> items;
    std::vector<compute::Keyword> keywords;
    for (std::size_t q = 0; q < queries.rows; ++q) {
      keywords.clear();
      lsh_.append_keywords(signatures.data() + q * lsh_.m(), keywords);
      for (const compute::Keyword keyword : keywords) items.push_back({keyword, keyword, 1});
      begins.push_back(static_cast<std::uint32_t>(items.size()));
    }
    const SignatureTileMaker maker(view_, request_.column, lsh_);
    compute::HitTable found(queries.rows, candidates_);
    search_tiles(view_, rows_, maker,
                 {request_.device, begins, items, kShare, request_.cancellation}, found);
    return found;
  }

  compute::HitTable count_bits(const MatrixView& queries) const {
    std::shared_ptr<const View>& view = known_of(view_, request_.column).bits;
    if (view == nullptr) view = view_of_bits(view_, request_.column, index_);
    const std::vector<std::byte> bits = index::bit_vectors(lsh_, queries);
    SearchRequest request;
    request.column = request_.column;
    request.distance = Distance::kHamming;
    request.queries = {bits.data(), queries.rows, index::signature_bits(lsh_), ElementType::kBit};
    request.device = request_.device;
    request.cancellation = request_.cancellation;
    return exact_nearest(*view, rows_, index::Index(), request, candidates_, nullptr);
  }

  // Share of all pairs of a row and a function in which the row has the query's bucket, when widths
  // are chosen as in lsh_training.h.
  static constexpr double kShare = 0.35;

  const View& view_;
  const Selection& rows_;
  const index::Trained& index_;
  const SearchRequest& request_;
  const std::size_t k_;
  const CodedParts& coded_;
  const std::shared_ptr<const index::Model> model_;
  const index::LshModel& lsh_;
  std::uint64_t selected_ = 0;  // rows of coded parts
  std::uint64_t searched_ = 0;  // rows of coded parts with selected ones
  std::size_t candidates_;
};

// Answers the queries for which too little was found by comparing every row.
void complete(const View& view, const Selection& rows, const index::Index& index,
              const SearchRequest& request, compute::HitTable& best) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < best.queries(); ++i) {
    if (best.sorted(i).size() < best.k()) numbers.push_back(i);
  }
  if (numbers.empty()) return;
  const std::size_t stride = request.queries.stride();
  std::vector<std::byte> copies(numbers.size() * stride);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::memcpy(copies.data() + i * stride, request.queries.row(numbers[i]), stride);
  }
  SearchRequest again = request;
  again.queries.data = copies.data();
  again.queries.rows = numbers.size();
  compute::HitTable all = exact_nearest(view, rows, index, again, best.k(), nullptr);
  for (std::size_t i = 0; i < numbers.size(); ++i) best.row(numbers[i]) = std::move(all.row(i));
}

compute::HitTable lsh_nearest(const View& view, const Selection& rows, const index::Index& index,
                              const SearchRequest& request, std::size_t k) {
  const std::shared_ptr<const CodedParts> coded = known_of(view, request.column).coded;
  const index::Trained& trained = *index.trained();
  HashSearch search(view, rows, trained, request, k, *coded,
                    view.load_model(request.column, trained));
  if (search.selected() == 0 || search.better_exact()) {
    return exact_nearest(view, rows, index, request, k, nullptr);
  }
  if (request.report != nullptr) {
    request.report->approximate = true;
    request.report->refine = request.refine.value_or(trained.default_refine());
  }
  compute::HitTable best = search.nearest();
  if (rows.count() != search.selected()) {
    const std::vector<std::uint32_t> not_coded = coded->others(view);
    best.merge(exact_nearest(view, rows, index, request, k, &not_coded));
  }
  complete(view, rows, index, request, best);
  return best;
}

class LshSearcher : public Searcher {
 public:
  bool has_lists() const override { return false; }
  // Nobody has measured what signatures find.
  bool must_compare_all(const index::Trained&, const SearchRequest& request) const override {
    return request.recall && !request.refine;
  }
  bool looks_at_part(const View&, const Selection& rows, const index::Trained& trained,
                     const SearchRequest& request, std::size_t k) const override {
    const std::uint64_t refine = request.refine.value_or(trained.default_refine());
    return k <= rows.count() / kPart / std::max<std::uint64_t>(1, refine);
  }
  compute::HitTable nearest(const View& view, const Selection& rows, const index::Index& index,
                            const SearchRequest& request, std::size_t k) const override {
    return lsh_nearest(view, rows, index, request, k);
  }
};

}  // namespace

const Searcher& lsh_searcher() {
  static const LshSearcher searcher;
  return searcher;
}

}  // namespace warplite::engine
