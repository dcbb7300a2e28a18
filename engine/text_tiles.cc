#include "engine/text_tiles.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "compute/parallel.h"
#include "engine/common_cancellation.h"
#include "engine/derived_stamp.h"
#include "engine/parts.h"

namespace warplite::engine {
namespace {

// Tiles of parts that are not sealed, by part and column.
struct Memo {
  std::map<std::pair<std::uint32_t, std::size_t>, TextTile> tiles;
};

Memo& memo_of(const View& view) {
  std::shared_ptr<void>& memo = view.text_memo();
  if (memo == nullptr) memo = std::make_shared<Memo>();
  return *static_cast<Memo*>(memo.get());
}

index::Postings make_postings(const Column& texts, std::uint32_t rows,
                              const index::TextIndex& index, compute::Cancellation& cancellation) {
  index::TextEncoder encoder(index);
  index::PostingsBuilder builder;
  std::vector<compute::Keyword> keywords;
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (row % 64 == 0 && cancellation.requested()) {
      throw Error(ErrorKind::kInterrupted, "interrupted");
    }
    keywords.clear();
    if (!texts.is_null(row)) encoder.encode(texts.text(row), keywords);
    builder.add_row(keywords);
  }
  return builder.finish();
}

// What the bytes do not say of themselves.
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

// What is to be made: reading needs the connection, the rest does not.
struct Job {
  TextTile* tile;
  std::shared_ptr<const Column> texts;
  std::uint32_t rows;
  std::string owner;
};

// Whoever made the bytes owns them so.
void adopt(TextTile& tile, std::shared_ptr<const ResidentVectors> bytes) {
  const auto sizes = std::static_pointer_cast<const Sizes>(bytes->owner);
  tile.keywords = sizes->keywords;
  tile.postings = sizes->postings;
  tile.bytes = std::move(bytes);
}

void make_tile(const Job& job, const index::TextIndex& index,
               compute::Cancellation& cancellation) {
  const auto make = [&] {
    return as_resident(make_postings(*job.texts, job.rows, index, cancellation));
  };
  TextTile& tile = *job.tile;
  adopt(tile, tile.stamp.is_null()
                  ? std::make_shared<const ResidentVectors>(make())
                  : Residency::instance().bytes(tile.stamp, job.owner, 0, make));
}

class Loader {
 public:
  Loader(const View& view, std::size_t column, const index::TextIndex& index,
         compute::Cancellation* cancellation)
      : view_(view), column_(column), index_(index), cancellation_(cancellation) {}

  std::vector<TextTile> load(std::span<const std::uint32_t> parts) {
    tiles_.reserve(parts.size());  // jobs point into it
    for (const std::uint32_t part : parts) add(part);
    make_missing();
    std::erase_if(tiles_, [](const TextTile& tile) { return tile.bytes == nullptr; });
    return std::move(tiles_);
  }

 private:
  void add(std::uint32_t number) {
    const Part& part = view_.part(number);
    WARP_CHECK(part.rows() <= compute::kTileRows);
    const Stamp texts = part.plain_stamp(column_);
    TextTile tile{.part = number, .stamp = {}};
    if (!texts.is_null()) {
      tile.stamp = derived_stamp({&texts, 1}, Derived::kTile);
      if (auto known = Residency::instance().find(tile.stamp)) adopt(tile, std::move(known));
    } else if (const auto known = memo_of(view_).tiles.find({number, column_});
               known != memo_of(view_).tiles.end()) {
      tile = known->second;
    }
    tiles_.push_back(std::move(tile));
  }

  // Texts of a few parts at a time: they may be larger than the postings.
  void make_missing() {
    constexpr std::size_t kAtOnce = 16;
    std::vector<Job> jobs;
    for (TextTile& tile : tiles_) {
      if (tile.bytes != nullptr) continue;
      const Part& part = view_.part(tile.part);
      auto texts = part.plain(column_);
      if (texts == nullptr) continue;
      jobs.push_back({&tile, std::move(texts), part.rows(),
                      view_.name() + " segment " + std::to_string(part.segment()) +
                          " postings of column " + std::to_string(column_)});
      if (jobs.size() == kAtOnce) make(jobs);
    }
    make(jobs);
  }

  void make(std::vector<Job>& jobs) {
    compute::in_parallel(jobs.size(), 1, jobs.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) make_tile(jobs[i], index_, cancellation_);
    });
    for (const Job& job : jobs) {
      if (job.tile->stamp.is_null()) memo_of(view_).tiles[{job.tile->part, column_}] = *job.tile;
    }
    jobs.clear();
  }

  const View& view_;
  const std::size_t column_;
  const index::TextIndex& index_;
  CommonCancellation cancellation_;
  std::vector<TextTile> tiles_;
};

}  // namespace

std::vector<TextTile> load_text_tiles(const View& view, std::size_t column,
                                      const index::TextIndex& index,
                                      std::span<const std::uint32_t> parts,
                                      compute::Cancellation* cancellation) {
  return Loader(view, column, index, cancellation).load(parts);
}

}  // namespace warplite::engine
