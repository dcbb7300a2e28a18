#include "engine/text/edit_tiles.h"

#include <map>
#include <string>
#include <utility>

#include "compute/host/parallel.h"
#include "engine/residency/common_cancellation.h"
#include "engine/residency/derived_key.h"

namespace warplite::engine {
namespace {

// Tiles of parts that are not sealed, by part and column.
struct Memo {
  using Key = std::pair<std::uint32_t, std::size_t>;
  std::map<Key, EditTextTile> tiles;
  std::map<Key, std::size_t> compared;  // texts that were, without a tile
};

Memo& memo_of(const View& view) { return view.derived().of<Memo>(); }

CacheKey key_of(const View& view, const EditColumn& column, std::uint32_t part) {
  const CacheKey texts = view.part(part).plain_key(column.column);
  if (texts.is_null()) return {};
  return derive(Derived::kEdit, {&texts, 1}).add(column.fold).add(column.normalization).key();
}

// Whoever made the bytes owns them so.
void adopt(EditTextTile& tile, std::shared_ptr<const ResidentVectors> bytes) {
  tile.texts = std::static_pointer_cast<const index::EditTexts>(bytes->owner);
  tile.bytes = std::move(bytes);
}

// Returns what is there already of a part's tile.
EditTextTile find_tile(const View& view, const EditColumn& column, std::uint32_t part) {
  EditTextTile tile{.part = part, .key = key_of(view, column, part)};
  if (!tile.key.is_null()) {
    if (auto known = Residency::instance().find(tile.key)) adopt(tile, std::move(known));
    return tile;
  }
  const auto& tiles = memo_of(view).tiles;
  const auto known = tiles.find({part, column.column});
  return known == tiles.end() ? tile : known->second;
}

// A tile that is to be made: reading needs the connection, the rest does not.
struct Job {
  EditTextTile* tile;
  std::shared_ptr<const Column> texts;
  std::uint32_t rows;
  std::string owner;
};

ResidentVectors make_texts(const Job& job, const EditColumn& column,
                           compute::Cancellation& cancellation) {
  constexpr std::size_t kBytesBetweenPolls = 1 << 16;
  index::EditTileBuilder builder;
  CodePoints points;
  std::size_t bytes = 0;
  for (std::uint32_t row = 0; row < job.rows; ++row) {
    if (job.texts->is_null(row)) {
      builder.skip_row();
      continue;
    }
    column.read(job.texts->text(row), points);
    builder.add_row(points);
    bytes += points.size() + 16;
    if (bytes < kBytesBetweenPolls) continue;
    bytes = 0;
    if (cancellation.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
  }
  index::EditTexts texts = builder.finish();
  ResidentVectors out;
  out.block.memory = std::move(texts.bytes);
  const Bytes& memory = out.block.memory;
  out.block.vectors = {memory.data(), memory.size(), 1, ElementType::kInt8};
  out.beside = texts.long_rows.size() * sizeof texts.long_rows[0];
  out.owner = std::make_shared<const index::EditTexts>(std::move(texts));
  return out;
}

void make_tile(const Job& job, const EditColumn& column, compute::Cancellation& cancellation) {
  const auto make = [&] { return make_texts(job, column, cancellation); };
  EditTextTile& tile = *job.tile;
  adopt(tile, tile.key.is_null()
                  ? std::make_shared<const ResidentVectors>(make())
                  : Residency::instance().bytes(tile.key, job.owner, 0, make));
}

}  // namespace

bool worth_a_tile(const View& view, const EditColumn& column, std::uint32_t part,
                  std::size_t comparisons) {
  if (find_tile(view, column, part).bytes != nullptr) return true;
  const std::size_t rows = view.part(part).rows();
  if (!key_of(view, column, part).is_null()) return comparisons > rows / 8;
  // A view of rows that are not sealed is often asked once.
  std::size_t& compared = memo_of(view).compared[{part, column.column}];
  if (compared + comparisons > 2 * rows) return true;
  compared += comparisons;
  return false;
}

std::vector<EditTextTile> load_edit_tiles(const View& view, const EditColumn& column,
                                          std::span<const std::uint32_t> parts,
                                          compute::Cancellation* cancellation) {
  constexpr std::size_t kAtOnce = 16;  // texts in memory beside their tiles
  CommonCancellation common(cancellation);
  std::vector<EditTextTile> tiles;
  tiles.reserve(parts.size());  // jobs point into it
  std::vector<Job> jobs;
  const auto make_all = [&] {
    compute::in_parallel(jobs.size(), 1, jobs.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) make_tile(jobs[i], column, common);
    });
    for (const Job& job : jobs) {
      if (!job.tile->key.is_null()) continue;
      memo_of(view).tiles[{job.tile->part, column.column}] = *job.tile;
    }
    jobs.clear();
  };
  for (const std::uint32_t number : parts) {
    const Part& part = view.part(number);
    WARP_CHECK(part.rows() <= compute::kTileRows);
    tiles.push_back(find_tile(view, column, number));
    auto texts = tiles.back().bytes != nullptr ? nullptr : part.plain(column.column);
    if (texts == nullptr) continue;
    // Reading a content table again may have changed the key.
    tiles.back().key = key_of(view, column, number);
    jobs.push_back({&tiles.back(), std::move(texts), part.rows(),
                    view.name() + " segment " + std::to_string(part.segment()) +
                        " characters of column " + std::to_string(column.column)});
    if (jobs.size() == kAtOnce) make_all();
  }
  make_all();
  std::erase_if(tiles, [](const EditTextTile& tile) { return tile.bytes == nullptr; });
  return tiles;
}

}  // namespace warplite::engine
