#include "engine/match/tile_search.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/residency/attempt.h"
#include "engine/residency/common_cancellation.h"
#include "engine/residency/readiness.h"

namespace warplite::engine {
namespace {

class TileSearch {
 public:
  TileSearch(const View& view, const Selection& rows, const TileRequest& request,
             compute::HitTable& best)
      : view_(view), rows_(rows), request_(request), best_(best) {}

  void search(const std::vector<Tile>& tiles) {
    if (tiles.empty()) return;
    double bytes = 0;
    for (const Tile& tile : tiles) bytes += static_cast<double>(tile.memory().size());
    Attempt attempt({request_.device, Ability::postings(),
                     bytes * request_.share * static_cast<double>(best_.queries()),
                     request_.cancellation},
                    Attempt::Use::kFirst, [&](Attempt::Devices devices) {
                      return ready(*devices.front(), uploads(tiles));
                    });
    compute::HitTable found(0, 0);
    attempt.search([&](compute::Device& device) {
      found = compute::HitTable(best_.queries(), best_.k());
      return count(device, tiles, found);
    });
    best_.merge(std::move(found));
  }

 private:
  Status count(compute::Device& device, const std::vector<Tile>& tiles,
               compute::HitTable& found) const {
    std::vector<std::shared_ptr<const compute::Buffer>> buffers(tiles.size());
    std::vector<compute::MatchTile> searched;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      ask(request_.cancellation);
      const Status status =
          Residency::instance().buffer(device, tiles[i].key, tiles[i].bytes, &buffers[i]);
      if (!status.ok()) return status;
      searched.push_back(describe(tiles[i], *buffers[i]));
    }
    compute::MatchWork work;
    work.tiles = searched;
    work.begins = request_.begins;
    work.items = request_.items;
    work.cancellation = request_.cancellation;
    return device.match(work, found);
  }

  compute::MatchTile describe(const Tile& tile, const compute::Buffer& buffer) const {
    compute::MatchTile out;
    out.bytes = &buffer;
    out.keywords = tile.keywords;
    out.postings = tile.postings;
    rows_.describe(view_, tile.part, out);
    return out;
  }

  const View& view_;
  const Selection& rows_;
  const TileRequest& request_;
  compute::HitTable& best_;
};

}  // namespace

void search_tiles(const View& view, const Selection& rows, const TileMaker& maker,
                  const TileRequest& request, compute::HitTable& best) {
  // Here, since where no row has a keyword no device is asked for anything.
  excludes_host(request.device, Ability::postings(), request.cancellation);
  std::vector<std::uint32_t> selected;
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    if (rows.part(i).count != 0) selected.push_back(i);
  }
  TileSearch search(view, rows, request, best);
  for_tiles(view, maker, selected, request.cancellation,
            [&](const std::vector<Tile>& tiles) { search.search(tiles); });
}

}  // namespace warplite::engine
