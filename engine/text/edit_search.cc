#include "engine/text/edit_search.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/residency/attempt.h"
#include "engine/residency/common_cancellation.h"
#include "engine/residency/readiness.h"
#include "engine/text/edit_rows.h"

namespace warplite::engine {
namespace {

// Collects the hits of a search as they are found, and how far hits may be.
class Collected {
 public:
  virtual ~Collected() = default;
  virtual Status search(compute::Device& device, const compute::EditWork& work) = 0;
  virtual double limit(std::size_t query) const = 0;
  virtual void add(std::size_t query, const Hit& hit) = 0;
};

class Nearest final : public Collected {
 public:
  Nearest(const DistanceRange& range, compute::HitTable& best) : range_(range), best_(best) {}

  Status search(compute::Device& device, const compute::EditWork& work) override {
    compute::HitTable found(best_.queries(), best_.k());
    for (std::size_t q = 0; q < best_.queries(); ++q) found.row(q).tighten(limit(q));
    Status status = device.edit_nearest(work, found);
    if (!status.ok()) return status;
    best_.merge(std::move(found));
    for (std::size_t q = 0; q < best_.queries(); ++q) best_.sorted(q);  // which tells the threshold
    return status;
  }
  double limit(std::size_t query) const override {
    return std::min(best_.row(query).threshold(), range_.high);
  }
  void add(std::size_t query, const Hit& hit) override { best_.row(query).push(hit); }

 private:
  const DistanceRange& range_;
  compute::HitTable& best_;
};

class Within final : public Collected {
 public:
  Within(const DistanceRange& range, std::size_t queries) : range_(range), hits_(queries) {}

  Status search(compute::Device& device, const compute::EditWork& work) override {
    compute::HitLists found(hits_.size());
    Status status = device.edit_within(work, found);
    if (!status.ok()) return status;
    for (std::size_t q = 0; q < hits_.size(); ++q) {
      hits_[q].insert(hits_[q].end(), found[q].begin(), found[q].end());
    }
    return status;
  }
  double limit(std::size_t) const override { return range_.high; }
  void add(std::size_t query, const Hit& hit) override { hits_[query].push_back(hit); }

  compute::HitLists take() { return std::move(hits_); }

 private:
  const DistanceRange& range_;
  compute::HitLists hits_;
};

class EditSearch {
 public:
  EditSearch(const View& view, const Selection& rows, const EditRequest& request,
             std::span<const CodePoints> queries, Collected& collected)
      : view_(view), rows_(rows), request_(request), collected_(collected),
        one_by_one_(view, request.column, queries, request.cancellation) {
    for (const CodePoints& query : queries) {
      points_.insert(points_.end(), query.begin(), query.end());
      begins_.push_back(static_cast<std::uint32_t>(points_.size()));
    }
  }

  // Few rows come last, when hits of the others have set limits; they are the CPU's, and so in tiles
  // as well where the query insists on another device.
  void run() {
    constexpr std::size_t kGroup = 256;  // tiles in memory at a time; more than most tables have
    const std::size_t queries = begins_.size() - 1;
    if (request_.report != nullptr) request_.report->rows += rows_.count() * queries;
    const bool all_tiled =
        excludes_host(request_.device, Ability::edits(), request_.cancellation);
    std::vector<std::uint32_t> by_tiles, by_rows;
    for (std::uint32_t part = 0; part < view_.parts(); ++part) {
      const std::size_t count = rows_.part(part).count;
      if (count == 0) continue;
      const bool tiled =
          all_tiled || worth_a_tile(view_, request_.column, part, count * queries);
      (tiled ? by_tiles : by_rows).push_back(part);
    }
    for (std::size_t first = 0; first < by_tiles.size(); first += kGroup) {
      const std::size_t count = std::min(kGroup, by_tiles.size() - first);
      const auto group = std::span(by_tiles).subspan(first, count);
      search(load_edit_tiles(view_, request_.column, group, request_.cancellation));
    }
    for (const std::uint32_t part : by_rows) compare_rows(part, selected_rows(part));
  }

 private:
  bool selected(std::uint32_t part, std::uint32_t row) const {
    const Selection::Rows& rows = rows_.part(part);
    return rows.all || rows.bits.test(row);
  }
  std::vector<std::uint32_t> selected_rows(std::uint32_t part) const {
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < view_.part(part).rows(); ++row) {
      if (selected(part, row)) rows.push_back(row);
    }
    return rows;
  }

  void compare_rows(std::uint32_t part, const std::vector<std::uint32_t>& rows) {
    if (request_.report != nullptr) {
      request_.report->counters.distances += rows.size() * (begins_.size() - 1);
    }
    one_by_one_.compare(
        part, rows, [&](std::size_t query) { return collected_.limit(query); },
        [&](std::size_t query, const Hit& hit) {
          if (request_.range.contains(hit.distance)) collected_.add(query, hit);
        });
  }

  void search(const std::vector<EditTextTile>& tiles) {
    if (tiles.empty()) return;
    lasting_ = all_stay(tiles);
    attempt(tiles).search([&](compute::Device& device) { return search_on(device, tiles); });
    for (const EditTextTile& tile : tiles) compare_long_rows(tile);
  }

  // Says whether the cache has room for all of them; else they are made for one search.
  static bool all_stay(const std::vector<EditTextTile>& tiles) {
    std::size_t bytes = 0;
    for (const EditTextTile& tile : tiles) bytes += tile.memory().size();
    return bytes <= Residency::instance().limit();
  }

  void compare_long_rows(const EditTextTile& tile) {
    std::vector<std::uint32_t> rows = tile.texts->long_rows;
    std::erase_if(rows, [&](std::uint32_t row) { return !selected(tile.part, row); });
    compare_rows(tile.part, rows);
  }

  Attempt attempt(const std::vector<EditTextTile>& tiles) const {
    // Bytes of vectors that the CPU compares in the time for a cell of the dynamic programme.
    constexpr double kBytesOfCell = 0.25;
    double cells = 0;
    std::vector<Uploader::Item> uploads;
    for (const EditTextTile& tile : tiles) {
      cells += static_cast<double>(tile.texts->positions) * compute::kEditGroup;
      if (!tile.key.is_null()) uploads.push_back({tile.key, tile.bytes});
    }
    cells *= static_cast<double>(points_.size());
    return {{request_.device, Ability::edits(), cells * kBytesOfCell, request_.cancellation},
            Attempt::Use::kFirst,
            [&](Attempt::Devices devices) { return ready(*devices.front(), uploads); }};
  }

  Status search_on(compute::Device& device, const std::vector<EditTextTile>& tiles) {
    std::vector<std::shared_ptr<const compute::Buffer>> buffers(tiles.size());
    std::vector<compute::EditTile> searched;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      ask(request_.cancellation);
      const Status status =
          Residency::instance().buffer(device, tiles[i].key, tiles[i].bytes, &buffers[i]);
      if (!status.ok()) return status;
      searched.push_back(describe(tiles[i], *buffers[i]));
    }
    compute::EditWork work;
    work.tiles = searched;
    work.begins = begins_;
    work.points = points_;
    work.range = request_.range;
    work.cancellation = request_.cancellation;
    work.metric = request_.metric.get();
    if (request_.report != nullptr) work.counters = &request_.report->counters;
    return collected_.search(device, work);
  }

  compute::EditTile describe(const EditTextTile& tile, const compute::Buffer& buffer) const {
    compute::EditTile out;
    out.bytes = &buffer;
    if (lasting_ && !tile.key.is_null()) out.host = tile.memory().data();
    out.alphabet = tile.texts->alphabet;
    out.texts = tile.texts->texts;
    out.positions = tile.texts->positions;
    out.width = tile.texts->width;
    rows_.describe(view_, tile.part, out);
    return out;
  }

  const View& view_;
  const Selection& rows_;
  const EditRequest& request_;
  Collected& collected_;
  EditRows one_by_one_;
  std::vector<std::uint32_t> begins_{0}, points_;  // of the queries, as devices take them
  bool lasting_ = false;  // something may be made of the tiles, and kept with them
};

}  // namespace

void nearest_texts(const View& view, const Selection& rows, const EditRequest& request,
                   std::span<const CodePoints> queries, compute::HitTable& best) {
  if (queries.empty() || best.k() == 0) return;
  Nearest nearest(request.range, best);
  EditSearch(view, rows, request, queries, nearest).run();
}

compute::HitLists texts_within(const View& view, const Selection& rows,
                               const EditRequest& request, std::span<const CodePoints> queries,
                               const std::optional<Hit>& after) {
  EditRequest rest = request;
  if (after && after->distance > rest.range.low) {
    rest.range.low = after->distance;
    rest.range.low_open = false;
  }
  Within within(rest.range, queries.size());
  if (!queries.empty()) EditSearch(view, rows, rest, queries, within).run();
  compute::HitLists lists = within.take();
  if (after) {
    for (auto& hits : lists) std::erase_if(hits, [&](const Hit& hit) { return !(*after < hit); });
  }
  return lists;
}

}  // namespace warplite::engine
