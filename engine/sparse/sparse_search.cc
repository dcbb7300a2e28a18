#include "engine/sparse/sparse_search.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compute/sparse/scale.h"
#include "engine/filter/content_hits.h"
#include "engine/match/tiles.h"
#include "engine/residency/attempt.h"
#include "engine/residency/common_cancellation.h"
#include "engine/residency/derived_key.h"
#include "engine/residency/readiness.h"
#include "engine/residency/residency.h"
#include "index/tiles/sparse_postings.h"

namespace warplite::engine {
namespace {

// Comparing so many values takes as long as making the postings of as many rows takes for a few
// searches.
constexpr std::size_t kWorthPostings = 1024;
// Making those of rows that are not sealed takes as long as comparing them with so many queries; they
// last as long as the view.
constexpr std::uint64_t kWorthPostingsOfView = 3;
constexpr std::size_t kFewestRows = 256;

// Queries with which rows that are not sealed were compared, by part and column.
struct Compared {
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint64_t> queries;
};

class SparseTileMaker : public TileMaker {
 public:
  explicit SparseTileMaker(std::size_t column) : column_(column) {}

  std::size_t column() const override { return column_; }
  CacheKey key(const Part& part) const override {
    const CacheKey values = part.plain_key(column_);
    return values.is_null() ? CacheKey{} : derived_key(Derived::kSparseTile, values);
  }
  std::string name() const override { return "postings of column " + std::to_string(column_); }
  // The tile says by itself what is in it.
  Make read(const Part& part) const override {
    auto values = part.plain(column_);
    if (values == nullptr) return nullptr;
    return [values = std::move(values)](const std::function<void()>& poll) {
      return index::Postings{.bytes = index::make_sparse_postings(*values, poll)};
    };
  }

 private:
  const std::size_t column_;
};

class SparseSearch {
 public:
  SparseSearch(const View& view, const Selection& rows, const SparseRequest& request,
               std::span<const compute::SparseQuery> queries)
      : view_(view), rows_(rows), request_(request), queries_(queries), maker_(request.column) {}

  // Has devices search all parts, as many at a time as memory should hold. Asked again for the same
  // ones after a device has failed, `ask` begins anew.
  using Ask = std::function<Status(compute::Device&, const compute::SparseWork&)>;
  void run(const Ask& ask_device) {
    if (request_.report != nullptr) request_.report->rows += rows_.count() * queries_.size();
    const std::size_t most_bytes = Residency::instance().limit() / 2;
    std::size_t bytes = 0;
    for (std::uint32_t part = 0; part < view_.parts(); ++part) {
      if (rows_.part(part).count == 0) continue;
      ask(request_.cancellation);
      bytes += add(part);
      if (bytes > most_bytes) {
        search(ask_device);
        bytes = 0;
      }
    }
    search(ask_device);
  }

 private:
  // Returns how many bytes it holds from now on.
  std::size_t add(std::uint32_t number) {
    auto values = view_.part(number).plain(request_.column);
    if (values == nullptr) return 0;
    compute::SparseTile& tile = tiles_.emplace_back();
    tile.values = values.get();
    rows_.describe(view_, number, tile);
    const bool by_postings = wants_postings(number);
    if (by_postings) with_postings_.push_back(number);
    constexpr std::size_t kBytes = 2;  // of a tile, for one of what it is made of
    return (by_postings ? kBytes + 1 : 1) * held_.emplace_back(std::move(values))->memory();
  }

  bool wants_postings(std::uint32_t number) const {
    if (request_.exact) return false;
    const Part& part = view_.part(number);
    const std::size_t rows = rows_.part(number).count;
    if (const CacheKey key = maker_.key(part); !key.is_null()) {
      return rows * queries_.size() >= kWorthPostings || Residency::instance().find(key) != nullptr;
    }
    if (part.segment() != 0 || rows < kFewestRows) return false;
    std::uint64_t& queries =
        view_.derived().of<Compared>().queries[{number, request_.column}];
    queries += queries_.size();
    return queries > kWorthPostingsOfView;
  }

  // Has the device hold them.
  Status place(compute::Device& device, const std::vector<Tile>& postings) {
    buffers_.resize(postings.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < postings.size(); ++i) {
      const Tile& tile = postings[i];
      const Status status =
          Residency::instance().buffer(device, tile.key, tile.bytes, &buffers_[i]);
      if (!status.ok()) return status;
      while (tiles_[at].id != tile.part) ++at;
      tiles_[at].postings = buffers_[i].get();
    }
    return {};
  }

  // About what is read by postings: of a query's entries, half are in so many rows that there is a byte for
  // every row.
  double bytes_compared() const {
    double rows = 0, entries = 0;
    for (const std::uint32_t part : with_postings_) {
      rows += static_cast<double>(rows_.part(part).count);
    }
    for (const compute::SparseQuery& query : queries_) {
      entries += static_cast<double>(query.entries().size());
    }
    return rows * entries / 2;
  }

  // A GPU leaves such to the host, row by row.
  bool long_queries() const {
    return std::any_of(queries_.begin(), queries_.end(), [](const compute::SparseQuery& query) {
      return query.entries().size() > compute::kMostSparseLists;
    });
  }

  void search(const Ask& ask_device) {
    if (tiles_.empty()) return;
    const std::vector<Tile> postings =
        load_tiles(view_, maker_, with_postings_, request_.cancellation);
    compute::SparseWork work;
    work.tiles = tiles_;
    work.queries = queries_;
    work.range = request_.range;
    work.cancellation = request_.cancellation;
    if (request_.report != nullptr) work.counters = &request_.report->counters;
    Attempt attempt({request_.device, Ability::sparse(), bytes_compared(), request_.cancellation},
                    Attempt::Use::kFirst, [&](Attempt::Devices devices) {
                      return !long_queries() && ready(*devices.front(), uploads(postings));
                    });
    attempt.search([&](compute::Device& device) {
      const Status status = place(device, postings);
      return status.ok() ? ask_device(device, work) : status;
    });
    tiles_.clear();
    with_postings_.clear();
    held_.clear();
    buffers_.clear();
  }

  const View& view_;
  const Selection& rows_;
  const SparseRequest& request_;
  const std::span<const compute::SparseQuery> queries_;
  const SparseTileMaker maker_;
  // Of parts that are searched together:
  std::vector<compute::SparseTile> tiles_;
  std::vector<std::uint32_t> with_postings_;         // parts whose postings are searched
  std::vector<std::shared_ptr<const Column>> held_;  // of each tile
  std::vector<std::shared_ptr<const compute::Buffer>> buffers_;
};

}  // namespace

compute::HitTable nearest_sparse(const View& view, const Selection& rows,
                                 const SparseRequest& request,
                                 std::span<const compute::SparseQuery> queries, std::size_t k) {
  return nearest_present(view, rows, [&](const Selection& some) {
    compute::HitTable best(queries.size(),
                           static_cast<std::size_t>(std::min<std::uint64_t>(k, some.count())));
    if (best.k() == 0) return best;
    SparseSearch(view, some, request, queries)
        .run([&](compute::Device& device, const compute::SparseWork& work) {
          // With what is known, so that it passes over what is farther; a device that fails may leave some.
          compute::HitTable found(best.queries(), best.k());
          for (std::size_t q = 0; q < best.queries(); ++q) found.row(q).merge(best.row(q));
          const Status status = device.sparse_nearest(work, found);
          if (status.ok()) best = std::move(found);
          return status;
        });
    return best;
  });
}

compute::HitLists sparse_within(const View& view, const Selection& rows,
                                const SparseRequest& request,
                                std::span<const compute::SparseQuery> queries,
                                const std::optional<Hit>& after) {
  SparseRequest rest = request;
  if (after && after->distance > rest.range.low) {
    rest.range.low = after->distance;
    rest.range.low_open = false;
  }
  compute::HitLists hits(queries.size());
  SparseSearch(view, rows, rest, queries)
      .run([&](compute::Device& device, const compute::SparseWork& work) {
        compute::HitLists found(queries.size());
        const Status status = device.sparse_within(work, found);
        for (std::size_t q = 0; status.ok() && q < hits.size(); ++q) {
          hits[q].insert(hits[q].end(), found[q].begin(), found[q].end());
        }
        return status;
      });
  if (after) {
    for (auto& list : hits) std::erase_if(list, [&](const Hit& hit) { return !(*after < hit); });
  }
  return hits;
}

}  // namespace warplite::engine
