// Times match counting over columns of codes on a GPU, inside the engine: 1,024 queries at once and
// single ones; hits of some queries are compared with the reference's.
//
//   gpu_codes_lab PLUGIN --adult adult_disc.csv [--copies 20] [--rounds 15]
//
// Rows of census data (numbers in 1,024 buckets), again and again; queries are rows, plus and minus
// 50 buckets where the column has numbers. Then columns of 65,536 different codes each. Also with
// rowids in disorder, with weights, and where one row in ten lives. Prints a JSON line per case.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/kernels/lab_rows.h"
#include "tests/reference/reference.h"

using namespace warplite;
using namespace warplite::bench;

namespace {

constexpr std::size_t kQueries = 1024, kCompared = 16, kK = 100;
constexpr int kNumbers = 24;  // a column with so many different values holds numbers

using Column = std::vector<int>;

std::vector<Column> read_columns(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::vector<Column> columns;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string field;
    for (std::size_t i = 0; std::getline(fields, field, ','); ++i) {
      if (columns.size() <= i) columns.emplace_back();
      columns[i].push_back(std::atoi(field.c_str()));
    }
  }
  if (columns.empty()) std::fprintf(stderr, "nothing in %s\n", path.c_str());
  return columns;
}

std::vector<Column> random_columns(std::size_t columns, std::size_t rows) {
  std::mt19937 random(3);
  std::vector<Column> out(columns, Column(rows));
  for (Column& column : out) {
    for (int& value : column) value = static_cast<int>(random() % 1000000);
  }
  return out;
}

// Rows are those of `columns`, `copies` times.
struct Data {
  std::vector<Column> columns;
  std::size_t copies;
  std::size_t rows() const { return columns[0].size() * copies; }
  int value(std::size_t column, std::size_t row) const {
    return columns[column][row % columns[0].size()];
  }
};

struct Tiles {
  std::vector<std::vector<std::vector<std::uint16_t>>> codes;  // [tile][column]
  std::vector<std::vector<Column>> values;                     // different ones, ascending
  std::vector<std::vector<std::shared_ptr<const Buffer>>> buffers;
  std::vector<std::vector<const Buffer*>> pointers;
  std::vector<const std::uint16_t*> host;
  std::vector<CodeTile> tiles;
  std::vector<RowId> disorder;
  std::vector<std::uint64_t> live;

  Tiles(const Data& data, Device& gpu) {
    const std::size_t count = (data.rows() + kTileRows - 1) / kTileRows;
    codes.resize(count), values.resize(count), buffers.resize(count), pointers.resize(count);
    for (std::size_t t = 0; t < count; ++t) make(data, t, gpu);
    for (RowId row = 0; row < static_cast<RowId>(count * kTileRows); ++row) {
      disorder.push_back(row ^ 1);
    }
    live.resize(kTileRows / 64);
    for (std::size_t row = 0; row < kTileRows; row += 10) {
      live[row / 64] |= std::uint64_t{1} << (row % 64);
    }
  }

  void make(const Data& data, std::size_t t, Device& gpu) {
    const std::size_t first = t * kTileRows;
    const std::size_t rows = std::min<std::size_t>(kTileRows, data.rows() - first);
    for (std::size_t c = 0; c < data.columns.size(); ++c) {
      Column own(rows);
      for (std::size_t row = 0; row < rows; ++row) own[row] = data.value(c, first + row);
      Column different = own;
      std::sort(different.begin(), different.end());
      different.erase(std::unique(different.begin(), different.end()), different.end());
      std::vector<std::uint16_t>& column = codes[t].emplace_back(code_slots(rows));
      for (std::size_t row = 0; row < rows; ++row) {
        column[row] = static_cast<std::uint16_t>(
            std::lower_bound(different.begin(), different.end(), own[row]) - different.begin());
      }
      values[t].push_back(std::move(different));
      const auto* bytes = reinterpret_cast<const std::byte*>(column.data());
      gpu.make_resident({nullptr, bytes, column.size() * 2}, &buffers[t].emplace_back()).raise();
      pointers[t].push_back(buffers[t].back().get());
      host.push_back(column.data());
    }
    CodeTile tile;
    tile.columns = pointers[t].data();
    tile.rows = static_cast<std::uint32_t>(rows);
    tile.id = static_cast<std::uint32_t>(t);
    tiles.push_back(tile);
  }

  void name_rows(bool in_disorder, bool tenth) {
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      tiles[t].rowids.first = static_cast<RowId>(t * kTileRows);
      tiles[t].rowids.list = in_disorder ? disorder.data() + t * kTileRows : nullptr;
      tiles[t].live = tenth ? live.data() : nullptr;
      tiles[t].live_rows = tenth ? (tiles[t].rows + 9) / 10 : tiles[t].rows;
    }
  }
};

struct Queries {
  std::vector<std::uint32_t> begins{0};
  std::vector<CodeItem> items;
  std::vector<CodeRange> ranges;

  Queries(const Data& data, const Tiles& tiles, int width, std::uint32_t weights) {
    const std::size_t columns = data.columns.size();
    std::vector<bool> numbers;
    for (const Column& column : data.columns) {
      Column different = column;
      std::sort(different.begin(), different.end());
      numbers.push_back(std::unique(different.begin(), different.end()) - different.begin() >
                        kNumbers);
    }
    for (std::size_t q = 0; q < kQueries; ++q) {
      for (std::uint32_t c = 0; c < columns; ++c) {
        items.push_back({c, 1 + static_cast<std::uint32_t>(q + c) % weights});
      }
      begins.push_back(static_cast<std::uint32_t>(items.size()));
    }
    for (std::size_t t = 0; t < tiles.tiles.size(); ++t) {
      for (std::size_t q = 0; q < kQueries; ++q) {
        for (std::size_t c = 0; c < columns; ++c) {
          const int value = data.value(c, q * 977 + 13), reach = numbers[c] ? width : 0;
          const Column& own = tiles.values[t][c];
          const auto low = std::lower_bound(own.begin(), own.end(), value - reach) - own.begin();
          const auto high = std::upper_bound(own.begin(), own.end(), value + reach) - own.begin();
          ranges.push_back(low == high ? CodeRange{}
                                       : CodeRange{static_cast<std::uint16_t>(low),
                                                   static_cast<std::uint16_t>(high - 1)});
        }
      }
    }
  }

  // The `n` queries from `first` on; their ranges are all there are, or are copied.
  CodeWork work(const Tiles& tiles, std::size_t first, std::size_t n,
                std::vector<std::uint32_t>& own_begins, std::vector<CodeRange>& own_ranges) const {
    const std::uint32_t begin = begins[first], count = begins[first + n] - begin;
    CodeWork made;
    made.tiles = tiles.tiles;
    made.columns = static_cast<std::uint32_t>(tiles.values[0].size());
    own_begins.clear(), own_ranges.clear();
    for (std::size_t q = 0; q <= n; ++q) own_begins.push_back(begins[first + q] - begin);
    for (std::size_t t = 0; t < tiles.tiles.size(); ++t) {
      const CodeRange* from = ranges.data() + t * items.size() + begin;
      own_ranges.insert(own_ranges.end(), from, from + count);
    }
    made.begins = own_begins;
    made.items = std::span(items).subspan(begin, count);
    made.ranges = own_ranges;
    return made;
  }
};

std::string compare(const Queries& queries, const Tiles& tiles, Device& gpu, std::size_t batch) {
  std::vector<std::uint32_t> begins;
  std::vector<CodeRange> ranges;
  const CodeWork all = queries.work(tiles, 0, batch, begins, ranges);
  HitTable found(batch, kK), expected(kCompared, kK);
  gpu.match_codes(all, found).raise();
  std::vector<std::uint32_t> own_begins;
  std::vector<CodeRange> own_ranges;
  reference_match_codes(queries.work(tiles, 0, kCompared, own_begins, own_ranges), tiles.host,
                        expected);
  return same(found, expected);
}

void measure(const std::string& name, const Queries& queries, const Tiles& tiles, Device& gpu,
             int rounds) {
  std::vector<std::uint32_t> begins;
  std::vector<CodeRange> ranges;
  const CodeWork all = queries.work(tiles, 0, kQueries, begins, ranges);
  const Timing batch = time(rounds, [&] {
    HitTable best(kQueries, kK);
    gpu.match_codes(all, best).raise();
  });
  std::vector<std::uint32_t> own_begins;
  std::vector<CodeRange> own_ranges;
  const CodeWork one = queries.work(tiles, 7, 1, own_begins, own_ranges);
  const Timing single = time(3 * rounds, [&] {
    HitTable best(1, kK);
    gpu.match_codes(one, best).raise();
  });
  std::printf("{\"case\": \"%s\", \"ms\": %.3f, \"least\": %.3f, \"one_ms\": %.4f, "
              "\"one_least\": %.4f, \"equal\": \"%s\", \"few equal\": \"%s\"}\n",
              name.c_str(), batch.median, batch.least, single.median, single.least,
              compare(queries, tiles, gpu, kQueries).c_str(),
              compare(queries, tiles, gpu, kCompared).c_str());
  std::fflush(stdout);
}

void run(const std::string& name, const Data& data, int width, Device& gpu, int rounds) {
  Tiles tiles(data, gpu);
  const Queries ones(data, tiles, width, 1), weighted(data, tiles, width, 3);
  const std::string rows = name + ", " + std::to_string(data.rows()) + " rows";
  tiles.name_rows(false, false);
  measure(rows, ones, tiles, gpu, rounds);
  measure(rows + ", weights", weighted, tiles, gpu, rounds);
  tiles.name_rows(false, true);
  measure(rows + ", 1 in 10 lives", ones, tiles, gpu, rounds);
  tiles.name_rows(true, false);
  measure(rows + ", rowids in disorder", ones, tiles, gpu, rounds);
}

}  // namespace

int main(int argc, char** argv) {
  std::string plugin = argc > 1 ? argv[1] : "", adult;
  std::size_t copies = 20;
  int rounds = 15;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--adult") adult = argv[i + 1];
    if (flag == "--copies") copies = std::strtoul(argv[i + 1], nullptr, 10);
    if (flag == "--rounds") rounds = std::atoi(argv[i + 1]);
  }
  Device& gpu = open_gpu(plugin);
  run("census", {read_columns(adult), copies}, 50, gpu, rounds);
  run("14 columns of numbers", {random_columns(14, 65536), 15}, 50000, gpu, rounds);
  return 0;
}
