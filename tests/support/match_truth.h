// Searches of texts by match count on the CPU, compared with files of known results.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "compute/device.h"
#include "cpu/cpu_device.h"
#include "index/tiles/postings.h"
#include "tests/support/data_files.h"

namespace warplite::testing {

// Tiles of texts, as rows 0, 1, 2, …
template <class Encode>
class TextTiles {
 public:
  TextTiles(const std::vector<std::string>& texts, std::size_t tile_rows, Encode encode)
      : device_(cpu::make_cpu_device()), encode_(encode) {
    index::PostingsBuilder builder;
    for (std::size_t row = 0; row < texts.size(); ++row) {
      builder.add_row(encode_(texts[row]));
      if (builder.rows() == tile_rows || row + 1 == texts.size()) add_tile(builder);
    }
  }

  compute::HitTable search(const std::vector<std::string>& queries, std::size_t k) {
    std::vector<std::uint32_t> begins{0};
    std::vector<compute::MatchItem> items;
    for (const std::string& query : queries) {
      for (const compute::Keyword key : encode_(query)) items.push_back({key, key, 1});
      begins.push_back(static_cast<std::uint32_t>(items.size()));
    }
    compute::MatchWork work;
    work.tiles = tiles_;
    work.begins = begins;
    work.items = items;
    compute::HitTable best(queries.size(), k);
    device_->match(work, best).raise();
    return best;
  }

 private:
  void add_tile(index::PostingsBuilder& builder) {
    const auto postings = std::make_shared<index::Postings>(builder.finish());
    compute::MatchTile tile;
    device_->make_resident({postings, postings->bytes.data(), postings->bytes.size()},
                           &buffers_.emplace_back())
        .raise();
    tile.bytes = buffers_.back().get();
    tile.keywords = postings->keywords;
    tile.postings = postings->postings;
    tile.rows = tile.live_rows = postings->rows;
    tile.id = static_cast<std::uint32_t>(tiles_.size());
    tile.rowids.first = rows_;
    rows_ += postings->rows;
    tiles_.push_back(tile);
  }

  std::unique_ptr<compute::Device> device_;
  Encode encode_;
  std::vector<std::shared_ptr<const compute::Buffer>> buffers_;
  std::vector<compute::MatchTile> tiles_;
  RowId rows_ = 0;
};

// Lines of `truth` are (query, rank, row, count); those of `queries` end in the query's text.
template <class Encode>
void check_truth(const std::string& query_file, const std::string& truth_file, Encode encode) {
  const std::vector<std::string> texts = data_lines("titles_50k.txt");
  const std::vector<std::string> query_lines = data_lines(query_file);
  const std::vector<std::string> truth = data_lines(truth_file);
  if (texts.empty() || query_lines.empty() || truth.empty()) return;
  std::vector<std::string> queries;
  for (std::size_t i = 1; i < query_lines.size(); ++i) {
    queries.push_back(fields(query_lines[i]).back());
  }
  for (const std::size_t tile_rows : {20000, 65536}) {
    TextTiles<Encode> tiles(texts, tile_rows, encode);
    compute::HitTable best = tiles.search(queries, 100);
    std::vector<std::size_t> checked(queries.size());
    for (std::size_t i = 1; i < truth.size(); ++i) {
      const std::vector<std::string> line = fields(truth[i]);
      const std::size_t query = std::stoul(line[0]), rank = std::stoul(line[1]);
      REQUIRE_MESSAGE(rank < best.sorted(query).size(), "query ", query);
      const Hit& hit = best.sorted(query)[rank];
      CHECK_MESSAGE(hit.rowid == std::stol(line[2]), "query ", query, " rank ", rank);
      CHECK_MESSAGE(-hit.distance == std::stod(line[3]), "query ", query, " rank ", rank);
      ++checked[query];
    }
    for (std::size_t query = 0; query < queries.size(); ++query) {
      CHECK(checked[query] == best.sorted(query).size());
    }
  }
}

}  // namespace warplite::testing
