#include "engine/match/tiles.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compute/host/parallel.h"
#include "engine/residency/common_cancellation.h"

namespace warplite::engine {
namespace {

// Tiles of parts that are not sealed, by part and column.
struct Memo {
  std::map<std::pair<std::uint32_t, std::size_t>, Tile> tiles;
};

Memo& memo_of(const View& view) { return view.derived().of<Memo>(); }

// Sizes of a tile that its bytes do not tell by themselves.
struct Sizes {
  std::uint32_t keywords, postings;
};

ResidentVectors as_resident(index::Postings postings) {
  ResidentVectors out;
  out.owner = std::make_shared<const Sizes>(Sizes{postings.keywords, postings.postings});
  out.block.memory = std::move(postings.bytes);
  const Bytes& bytes = out.block.memory;
  out.block.vectors = {bytes.data(), bytes.size(), 1, ElementType::kInt8};
  return out;
}

// A tile that is to be made: reading needs the connection, the rest does not.
struct Job {
  Tile* tile;
  TileMaker::Make make;
  std::size_t expected;
  std::string owner;
};

// Whoever made the bytes owns them so.
void adopt(Tile& tile, std::shared_ptr<const ResidentVectors> bytes) {
  const auto sizes = std::static_pointer_cast<const Sizes>(bytes->owner);
  tile.keywords = sizes->keywords;
  tile.postings = sizes->postings;
  tile.bytes = std::move(bytes);
}

void make_tile(const Job& job, const std::function<void()>& poll) {
  const auto make = [&] { return as_resident(job.make(poll)); };
  Tile& tile = *job.tile;
  adopt(tile, tile.key.is_null()
                  ? std::make_shared<const ResidentVectors>(make())
                  : Residency::instance().bytes(tile.key, job.owner, job.expected, make));
}

class Loader {
 public:
  Loader(const View& view, const TileMaker& maker, compute::Cancellation* cancellation)
      : view_(view), maker_(maker), cancellation_(cancellation) {}

  std::vector<Tile> load(std::span<const std::uint32_t> parts) {
    tiles_.reserve(parts.size());  // jobs point into it
    for (const std::uint32_t part : parts) add(part);
    make_missing();
    std::erase_if(tiles_, [](const Tile& tile) { return tile.bytes == nullptr; });
    return std::move(tiles_);
  }

 private:
  void add(std::uint32_t number) {
    const Part& part = view_.part(number);
    WARP_CHECK(part.rows() <= compute::kTileRows);
    Tile tile{.part = number, .key = maker_.key(part)};
    if (!tile.key.is_null()) {
      if (auto known = Residency::instance().find(tile.key)) adopt(tile, std::move(known));
    } else if (const auto known = memo_of(view_).tiles.find({number, maker_.column()});
               known != memo_of(view_).tiles.end()) {
      tile = known->second;
    }
    tiles_.push_back(std::move(tile));
  }

  // A few parts at a time: what tiles are made of may be larger than they are.
  void make_missing() {
    constexpr std::size_t kAtOnce = 16;
    std::vector<Job> jobs;
    for (Tile& tile : tiles_) {
      if (tile.bytes != nullptr) continue;
      const Part& part = view_.part(tile.part);
      auto make = maker_.read(part);
      if (!make) continue;
      tile.key = maker_.key(part);  // to read a content table again may have changed it
      jobs.push_back({&tile, std::move(make), maker_.bytes(part),
                      view_.name() + " segment " + std::to_string(part.segment()) + " " +
                          maker_.name()});
      if (jobs.size() == kAtOnce) make_all(jobs);
    }
    make_all(jobs);
  }

  void make_all(std::vector<Job>& jobs) {
    const std::function<void()> poll = [this] {
      if (cancellation_.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
    };
    compute::in_parallel(jobs.size(), 1, jobs.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) make_tile(jobs[i], poll);
    });
    for (const Job& job : jobs) {
      if (!job.tile->key.is_null()) continue;
      memo_of(view_).tiles[{job.tile->part, maker_.column()}] = *job.tile;
    }
    jobs.clear();
  }

  const View& view_;
  const TileMaker& maker_;
  CommonCancellation cancellation_;
  std::vector<Tile> tiles_;
};

}  // namespace

std::vector<Tile> load_tiles(const View& view, const TileMaker& maker,
                             std::span<const std::uint32_t> parts,
                             compute::Cancellation* cancellation) {
  return Loader(view, maker, cancellation).load(parts);
}

std::vector<Uploader::Item> uploads(std::span<const Tile> tiles) {
  std::vector<Uploader::Item> items;
  for (const Tile& tile : tiles) {
    if (!tile.key.is_null()) items.push_back({tile.key, tile.bytes});
  }
  return items;
}

void for_tiles(const View& view, const TileMaker& maker, std::span<const std::uint32_t> parts,
               compute::Cancellation* cancellation,
               const std::function<void(const std::vector<Tile>&)>& body) {
  constexpr std::size_t kMostTiles = 256;  // more than most tables have
  const std::size_t most_bytes = Residency::instance().limit() / 2;
  while (!parts.empty()) {
    std::size_t count = 0, bytes = 0;
    for (; count < std::min(kMostTiles, parts.size()); ++count) {
      bytes += maker.bytes(view.part(parts[count]));
      if (count != 0 && bytes > most_bytes) break;
    }
    body(load_tiles(view, maker, parts.first(count), cancellation));
    parts = parts.subspan(count);
  }
}

}  // namespace warplite::engine
