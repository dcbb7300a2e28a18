#include "engine/text_search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/device_choice.h"
#include "engine/readiness.h"
#include "engine/text_tiles.h"
#include "index/keyword_hash.h"

namespace warplite::engine {
namespace {

// Queries as devices take them.
struct Items {
  std::vector<std::uint32_t> begins{0};
  std::vector<compute::MatchItem> items;
  std::vector<bool> hashed;  // by query: counts may be too high, once in 2⁶³

  Items(const index::TextIndex& index, std::span<const std::string_view> queries) {
    index::TextEncoder encoder(index);
    std::vector<compute::Keyword> keywords;
    for (const std::string_view query : queries) {
      encoder.encode(query, keywords);
      for (const compute::Keyword keyword : keywords) items.push_back({keyword, keyword, 1});
      begins.push_back(static_cast<std::uint32_t>(items.size()));
      hashed.push_back(std::any_of(keywords.begin(), keywords.end(), index::is_hashed));
    }
  }
};

// How many rows of a tile have a keyword.
std::uint32_t rows_with(const TextTile& tile, compute::Keyword keyword) {
  const auto at = compute::TileLayout::of(tile.keywords, tile.postings);
  const std::byte* const bytes = tile.memory().data();
  const auto* keys = reinterpret_cast<const compute::Keyword*>(bytes + at.keys);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* found = std::lower_bound(keys, keys + tile.keywords, keyword);
  if (found == keys + tile.keywords || *found != keyword) return 0;
  return begins[found - keys + 1] - begins[found - keys];
}

class TextSearch {
 public:
  TextSearch(const View& view, const Selection& rows, const TextRequest& request,
             std::span<const std::string_view> queries, std::size_t k)
      : view_(view), rows_(rows), request_(request), items_(request.index, queries),
        best_(queries.size(), k) {}

  compute::HitTable run() {
    std::vector<std::uint32_t> all, selected;
    for (std::uint32_t i = 0; i < view_.parts(); ++i) {
      if (view_.part(i).live_rows() != 0) all.push_back(i);
      if (rows_.part(i).count != 0) selected.push_back(i);
    }
    if (request_.by_rarity) weigh(all);
    for_tiles(selected, [&](const std::vector<TextTile>& tiles) { search(tiles); });
    return std::move(best_);
  }

  bool hashed(std::size_t query) const { return items_.hashed[query]; }

 private:
  static compute::Device& host() { return compute::Registry::instance().host(); }

  template <typename Body>
  void for_tiles(std::span<const std::uint32_t> parts, const Body& body) const {
    // Tiles in memory at a time; more than most tables have.
    constexpr std::size_t kGroup = 256;
    for (std::size_t first = 0; first < parts.size(); first += kGroup) {
      const auto group = parts.subspan(first, std::min(kGroup, parts.size() - first));
      body(load_text_tiles(view_, request_.column, request_.index, group, request_.cancellation));
    }
  }

  void weigh(std::span<const std::uint32_t> parts) {
    std::vector<std::uint64_t> having(items_.items.size());
    std::uint64_t rows = 0;
    for_tiles(parts, [&](const std::vector<TextTile>& tiles) {
      for (const TextTile& tile : tiles) {
        rows += view_.part(tile.part).rows();
        for (std::size_t i = 0; i < having.size(); ++i) {
          having[i] += rows_with(tile, items_.items[i].low);
        }
      }
    });
    for (std::size_t i = 0; i < having.size(); ++i) {
      const double rarity = static_cast<double>(rows) /
                            static_cast<double>(std::max<std::uint64_t>(having[i], 1));
      items_.items[i].weight =
          static_cast<std::uint32_t>(std::lround(kWeightUnit * std::log1p(rarity)));
    }
  }

  void search(const std::vector<TextTile>& tiles) {
    if (tiles.empty()) return;
    compute::Device* device = &choose(tiles);
    compute::HitTable found(best_.queries(), best_.k());
    Status status = count(*device, tiles, found);
    const bool devices_fault = status.kind == ErrorKind::kDevice ||
                               status.kind == ErrorKind::kNoMemory ||
                               status.kind == ErrorKind::kUnsupported;
    if (!status.ok() && devices_fault && device != &host()) {
      Residency::instance().release_idle(*device);
      if (insisted_) throw Error(status.kind, device->describe().name + ": " + status.message);
      device = &host();
      found = compute::HitTable(best_.queries(), best_.k());
      status = count(*device, tiles, found);
    }
    status.raise();
    device->count_search();
    for (std::size_t i = 0; i < best_.queries(); ++i) best_.row(i).merge(found.row(i));
  }

  compute::Device& choose(const std::vector<TextTile>& tiles) {
    // Of the postings a query meets a few, those of its own keywords.
    constexpr double kShare = 1.0 / 64;
    double bytes = 0;
    for (const TextTile& tile : tiles) bytes += static_cast<double>(tile.memory().size());
    const DeviceChoice choice = choose_devices(
        {request_.device, ElementType::kFloat32, Distance::kL2,
         bytes * kShare * static_cast<double>(best_.queries()), request_.cancellation});
    insisted_ = choice.insisted;
    for (compute::Device* device : choice.devices) {
      if (!device->supports_match()) continue;
      if (!choice.ready_only || ready(*device, uploads(tiles))) return *device;
    }
    if (insisted_) {
      const bool cpu = std::find(choice.devices.begin(), choice.devices.end(), &host()) !=
                       choice.devices.end();
      if (!cpu) {
        throw Error(ErrorKind::kUnsupported, request_.device + " does not count matches");
      }
    }
    return host();
  }

  static std::vector<Uploader::Item> uploads(const std::vector<TextTile>& tiles) {
    std::vector<Uploader::Item> items;
    for (const TextTile& tile : tiles) {
      if (!tile.stamp.is_null()) items.push_back({tile.stamp, tile.bytes});
    }
    return items;
  }

  Status count(compute::Device& device, const std::vector<TextTile>& tiles,
               compute::HitTable& found) const {
    std::vector<std::shared_ptr<const compute::Buffer>> buffers(tiles.size());
    std::vector<compute::MatchTile> searched;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      if (Status status = place(device, tiles[i], &buffers[i]); !status.ok()) return status;
      searched.push_back(describe(tiles[i], *buffers[i]));
    }
    compute::MatchWork work;
    work.tiles = searched;
    work.begins = items_.begins;
    work.items = items_.items;
    work.cancellation = request_.cancellation;
    return device.match(work, found);
  }

  static Status place(compute::Device& device, const TextTile& tile,
                      std::shared_ptr<const compute::Buffer>* out) {
    if (!tile.stamp.is_null()) {
      return Residency::instance().buffer(device, tile.stamp, tile.bytes, out);
    }
    const Bytes& bytes = tile.memory();
    return device.make_resident({tile.bytes, bytes.data(), bytes.size()}, out);
  }

  compute::MatchTile describe(const TextTile& tile, const compute::Buffer& buffer) const {
    const Part& part = view_.part(tile.part);
    const Selection::Rows& selected = rows_.part(tile.part);
    compute::MatchTile out;
    out.bytes = &buffer;
    out.keywords = tile.keywords;
    out.postings = tile.postings;
    out.rows = part.rows();
    out.id = tile.part;
    out.rowids = part.rowids();
    out.live = selected.all ? nullptr : selected.bits.words();
    out.live_rows = selected.count;
    return out;
  }

  const View& view_;
  const Selection& rows_;
  const TextRequest& request_;
  Items items_;
  compute::HitTable best_;
  bool insisted_ = false;
};

void poll(const TextRequest& request) {
  if (request.cancellation != nullptr && request.cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

std::uint32_t true_count(const View& view, const TextRequest& request, const Hit& hit,
                         std::string_view query) {
  poll(request);
  const auto texts = view.part(hit.block).plain(request.column);
  return index::common_keywords(request.index, texts->text(hit.row), query);
}

// The counts of a query whose keywords may be mistaken for others, from the texts themselves.
void count_texts(const View& view, const Selection& rows, const TextRequest& request,
                 std::string_view query, TopK& best) {
  best = TopK(best.k());
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    const Selection::Rows& selected = rows.part(i);
    const auto texts = selected.count == 0 ? nullptr : view.part(i).plain(request.column);
    if (texts == nullptr) continue;
    const RowIdView rowids = view.part(i).rowids();
    for (std::uint32_t row = 0; row < view.part(i).rows(); ++row) {
      if ((!selected.all && !selected.bits.test(row)) || texts->is_null(row)) continue;
      if (row % 64 == 0) poll(request);
      const auto count = index::common_keywords(request.index, texts->text(row), query);
      if (count != 0) best.push({-static_cast<double>(count), rowids[row], i, row});
    }
  }
}

}  // namespace

compute::HitTable most_common(const View& view, const Selection& rows, const TextRequest& request,
                              std::span<const std::string_view> queries, std::size_t k) {
  k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count()));
  if (k == 0 || queries.empty()) return compute::HitTable(queries.size(), k);
  TextSearch search(view, rows, request, queries, k);
  compute::HitTable best = search.run();
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (!search.hashed(i) || request.by_rarity) continue;
    const std::vector<Hit>& hits = best.sorted(i);
    // A count is never too low: when those of the best are right, no other row comes before them.
    const bool right = std::all_of(hits.begin(), hits.end(), [&](const Hit& hit) {
      return -hit.distance == true_count(view, request, hit, queries[i]);
    });
    if (!right) count_texts(view, rows, request, queries[i], best.row(i));
  }
  return best;
}

}  // namespace warplite::engine
