// Match counts of relational data through SQL, beside an inverted index on the CPU that counts into
// an array: with a partial sort of it (CPU-Idx of the GENIE paper), and with a histogram instead.
//
//   match_lab --data adult_disc.csv --load build/release/warplite [--queries 1024] [--k 100]
//             [--rounds 9]
//
// Queries are rows of the table, each column widened by 50 (columns of few values: not at all).
// Prints a JSON line for each way: µs a query, the best of the rounds, in which they take turns;
// and the sum of the matches found, which must be the same. Warplite's time includes SQL: parsing
// the queries, and returning rows. Pin the process to one core for figures that can be compared.
#include <algorithm>
#include <cstdio>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/host.h"

namespace warplite::bench {
namespace {

constexpr int kFewValues = 64;
constexpr int kReach = 50;

struct Table {
  std::vector<std::string> names;
  std::vector<std::vector<int>> columns;
  std::size_t rows() const { return columns[0].size(); }
};

Table read_table(const std::string& path) {
  std::ifstream file(path);
  Table table;
  std::string line, field;
  if (!std::getline(file, line)) throw std::runtime_error("cannot read " + path);
  std::istringstream header(line);
  while (std::getline(header, field, ',')) table.names.push_back(field);
  table.columns.resize(table.names.size());
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    for (auto& column : table.columns) {
      std::getline(fields, field, ',');
      column.push_back(std::stoi(field));
    }
  }
  return table;
}

struct Range {
  int low, high;
};
using Query = std::vector<Range>;  // one for each column

std::vector<Query> make_queries(const Table& table, std::size_t count) {
  std::vector<Query> queries(count);
  for (const std::vector<int>& column : table.columns) {
    const int reach = *std::max_element(column.begin(), column.end()) < kFewValues ? 0 : kReach;
    for (std::size_t q = 0; q < count; ++q) {
      const int value = column[q * 47 % table.rows()];
      queries[q].push_back({value - reach, value + reach});
    }
  }
  return queries;
}

// Postings of each column, in the order of its values.
class InvertedIndex {
 public:
  explicit InvertedIndex(const Table& table) : counts_(table.rows()), keys_(table.rows()) {
    for (const std::vector<int>& column : table.columns) {
      std::vector<std::uint32_t> rows(column.size());
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i);
      std::stable_sort(rows.begin(), rows.end(),
                       [&](auto a, auto b) { return column[a] < column[b]; });
      std::vector<int> values;
      for (const std::uint32_t row : rows) values.push_back(column[row]);
      rows_.push_back(std::move(rows));
      values_.push_back(std::move(values));
    }
  }

  std::uint64_t partial_sort(const Query& query, std::size_t k) {
    count(query);
    for (std::size_t row = 0; row < counts_.size(); ++row) {
      keys_[row] = std::uint64_t{255u - counts_[row]} << 32 | row;
    }
    const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(k);
    std::partial_sort(keys_.begin(), end, keys_.end());
    std::uint64_t sum = 0;
    for (auto at = keys_.begin(); at != end; ++at) sum += 255 - (*at >> 32);
    return sum;
  }

  std::uint64_t histogram(const Query& query, std::size_t k) {
    count(query);
    std::size_t rows_with[256] = {};
    for (const std::uint8_t count : counts_) ++rows_with[count];
    std::size_t least = 255, more = 0;
    while (least > 1 && more + rows_with[least] < k) more += rows_with[least--];
    std::vector<std::uint64_t> hits;
    std::size_t ties = k - more;
    for (std::size_t row = 0; row < counts_.size(); ++row) {
      if (counts_[row] < least || (counts_[row] == least && ties == 0)) continue;
      if (counts_[row] == least) --ties;
      hits.push_back(std::uint64_t{255u - counts_[row]} << 32 | row);
    }
    std::sort(hits.begin(), hits.end());
    std::uint64_t sum = 0;
    for (const std::uint64_t hit : hits) sum += 255 - (hit >> 32);
    return sum;
  }

 private:
  void count(const Query& query) {
    std::fill(counts_.begin(), counts_.end(), std::uint8_t{0});
    for (std::size_t c = 0; c < query.size(); ++c) {
      const std::vector<int>& values = values_[c];
      const auto low = std::lower_bound(values.begin(), values.end(), query[c].low);
      const auto high = std::upper_bound(low, values.end(), query[c].high);
      const std::uint32_t* const rows = rows_[c].data();
      for (auto at = low - values.begin(); at != high - values.begin(); ++at) ++counts_[rows[at]];
    }
  }

  std::vector<std::vector<std::uint32_t>> rows_;
  std::vector<std::vector<int>> values_;
  std::vector<std::uint8_t> counts_;
  std::vector<std::uint64_t> keys_;
};

void fill(Host& host, const Table& table, const std::vector<Query>& queries) {
  std::string columns;
  for (const std::string& name : table.names) columns += ", " + name + " INTEGER";
  host.exec("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY" + columns + ")");
  host.exec("CREATE TABLE q(id INTEGER PRIMARY KEY, query TEXT)");
  std::string sql = "BEGIN";
  for (std::size_t row = 0; row < table.rows(); ++row) {
    sql += (row % 500 == 0 ? ";INSERT INTO t VALUES (" : "),(") + std::to_string(row);
    for (const auto& column : table.columns) sql += "," + std::to_string(column[row]);
    if (row % 500 == 499 || row + 1 == table.rows()) sql += ")";
  }
  host.exec(sql + ";COMMIT");
  for (std::size_t q = 0; q < queries.size(); ++q) {
    std::string json = "{";
    for (std::size_t c = 0; c < table.names.size(); ++c) {
      json += (c == 0 ? "\"" : ",\"") + table.names[c] + "\":[" +
              std::to_string(queries[q][c].low) + "," + std::to_string(queries[q][c].high) + "]";
    }
    host.exec("INSERT INTO q VALUES (" + std::to_string(q) + ", '" + json + "}')");
  }
}

struct Way {
  const char* name;
  double ms = 1e300;
  std::uint64_t sum = 0;

  template <typename Body>
  void time(const Body& body) {
    const Stopwatch watch;
    sum = body();
    ms = std::min(ms, watch.ms());
  }
};

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const std::size_t k = arguments.number("k", 100), rounds = arguments.number("rounds", 9);
  const Table table = read_table(arguments.get("data", ""));
  const std::vector<Query> queries = make_queries(table, arguments.number("queries", 1024));
  Host host(":memory:");
  host.load_extension(arguments.get("load", ""));
  fill(host, table, queries);
  const std::string top = std::to_string(k);
  Statement batch(host, "SELECT rank, matches FROM warp_match_join('t', 'SELECT id, query FROM q', " +
                            top + ")");
  Statement alone(host, "SELECT m.rank, m.matches FROM q, warp_match_count('t', q.query, " + top +
                            ") m");
  InvertedIndex index(table);
  Way ways[] = {{"warp_match_join"}, {"warp_match_count"}, {"count array, partial sort"},
                {"count array, histogram"}};
  const auto of_all = [&](auto&& one) {
    std::uint64_t sum = 0;
    for (const Query& query : queries) sum += one(query);
    return sum;
  };
  for (std::size_t round = 0; round < rounds; ++round) {
    ways[0].time([&] { return static_cast<std::uint64_t>(batch.run().sum); });
    ways[1].time([&] { return static_cast<std::uint64_t>(alone.run().sum); });
    ways[2].time([&] { return of_all([&](const Query& q) { return index.partial_sort(q, k); }); });
    ways[3].time([&] { return of_all([&](const Query& q) { return index.histogram(q, k); }); });
  }
  for (const Way& way : ways) {
    std::printf("{\"way\": \"%s\", \"us_per_query\": %.1f, \"matches\": %llu}\n", way.name,
                way.ms * 1000 / static_cast<double>(queries.size()),
                static_cast<unsigned long long>(way.sum));
  }
  return 0;
}

}  // namespace
}  // namespace warplite::bench

int main(int argc, char** argv) {
  return warplite::bench::run_program("match_lab", warplite::bench::run, argc, argv);
}
