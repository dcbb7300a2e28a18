// What locality-sensitive hashing finds in data sets of the kinds that the paper has
// (papers/genie-2018 §VI-D1), by match counts of all rows.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/data_files.h"
#include "tests/support/lsh_fixture.h"

using namespace warplite;
using namespace warplite::index;
using namespace warplite::testing;

namespace {

// Vectors of bytes, as float32; empty, with a message, when the file is not there.
Floats data_vectors(const std::string& file_name) {
  const char* directory = std::getenv("WARPLITE_DATA");
  const std::string path =
      (directory != nullptr ? std::string(directory) : WARPLITE_SOURCE_DIR "/../shared/data") +
      "/" + file_name;
  std::ifstream file(path, std::ios::binary);
  Floats out;
  std::int32_t dim = 0;
  while (file.read(reinterpret_cast<char*>(&dim), sizeof dim)) {
    std::vector<char> row(static_cast<std::size_t>(dim));
    if (!file.read(row.data(), dim)) break;
    out.dim = static_cast<std::uint32_t>(dim);
    for (const char value : row) out.values.push_back(static_cast<unsigned char>(value));
  }
  if (out.dim == 0) MESSAGE("skipped: there is no ", path);
  return out;
}

std::string data_bytes(const std::string& file_name) {
  std::string all;
  for (const std::string& line : data_lines(file_name)) all += line + '\n';
  return all;
}

// Rows by match count, larger first, ties by row.
std::vector<std::uint32_t> best_rows(const std::vector<std::uint32_t>& rows,
                                     const std::uint32_t* query, std::uint32_t m, std::size_t k) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> counts;
  for (std::uint32_t row = 0; row < rows.size() / m; ++row) {
    counts.push_back({m - lsh_matches(rows.data() + std::size_t{row} * m, query, m), row});
  }
  std::partial_sort(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(k), counts.end());
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < k; ++i) out.push_back(counts[i].second);
  return out;
}

}  // namespace

TEST_CASE("lsh: digits by their nearest in the Laplacian kernel") {
  use_worker_threads();
  const Floats base = data_vectors("mnist5k_base.bvecs");
  const Floats queries = data_vectors("mnist5k_query.bvecs");
  const std::string base_labels = data_bytes("mnist5k_base_labels.u8");
  const std::string labels = data_bytes("mnist5k_query_labels.u8");
  if (base.dim == 0 || queries.dim == 0 || base_labels.empty() || labels.empty()) return;
  const ColumnShape column{ElementType::kFloat32, base.dim, Distance::kL1};
  const LshOptions given = parse_lsh(spec("lsh", "family=rbh"), column);
  const auto model = train_lsh(given, column, base.view(), base.rows());
  const std::vector<std::uint32_t> rows = lsh_signatures(*model, base.view());
  const std::vector<std::uint32_t> asked = lsh_signatures(*model, queries.view());
  double right = 0, exact = 0;
  for (std::size_t q = 0; q < queries.rows(); ++q) {
    const std::uint32_t found = best_rows(rows, &asked[q * given.m], given.m, 1)[0];
    right += base_labels[found] == labels[q] ? 1 : 0;
    std::pair<double, std::size_t> nearest{1e30, 0};
    for (std::size_t i = 0; i < base.rows(); ++i) {
      double sum = 0;
      for (std::uint32_t d = 0; d < base.dim; ++d) {
        sum += static_cast<double>(std::fabs(base.row(i)[d] - queries.row(q)[d]));
      }
      nearest = std::min(nearest, {sum, i});
    }
    exact += base_labels[nearest.second] == labels[q] ? 1 : 0;
  }
  right /= static_cast<double>(queries.rows());
  exact /= static_cast<double>(queries.rows());
  MESSAGE("sigma ", model->scale(), ": accuracy of 1-NN ", right, ", by exact distances ", exact);
  CHECK(right > 0.8374);  // that of the paper's digits (Table V)
}

TEST_CASE("lsh: the nearest of SIFT descriptors among those with most matches") {
  use_worker_threads();
  const Floats base = data_vectors("sift50k_base.bvecs");
  Floats queries = data_vectors("sift50k_query.bvecs");
  if (base.dim == 0 || queries.dim == 0) return;
  constexpr std::size_t kQueries = 100, kCandidates = 80, kK = 10;
  queries.values.resize(kQueries * queries.dim);
  const ColumnShape column{ElementType::kFloat32, base.dim, Distance::kL2};
  const LshOptions given = parse_lsh(spec("lsh", ""), column);
  const auto model = train_lsh(given, column, base.view(), base.rows());
  const std::vector<std::uint32_t> rows = lsh_signatures(*model, base.view());
  const std::vector<std::uint32_t> asked = lsh_signatures(*model, queries.view());
  double first = 0, among = 0, recall = 0, ratio = 0;
  for (std::size_t q = 0; q < kQueries; ++q) {
    std::vector<std::pair<double, std::uint32_t>> truth, found;
    for (std::uint32_t i = 0; i < base.rows(); ++i) {
      truth.push_back({square_distance(base.row(i), queries.row(q), base.dim), i});
    }
    const auto best = best_rows(rows, &asked[q * given.m], given.m, kCandidates);
    for (const std::uint32_t row : best) found.push_back(truth[row]);
    std::partial_sort(truth.begin(), truth.begin() + kK, truth.end());
    first += found[0].first == truth[0].first ? 1 : 0;
    std::sort(found.begin(), found.end());
    among += found[0].first == truth[0].first ? 1 : 0;
    for (std::size_t i = 0; i < kK; ++i) {
      recall += found[i].first <= truth[kK - 1].first ? 1.0 / kK : 0;
      ratio += truth[i].first > 0 ? std::sqrt(found[i].first / truth[i].first) / kK : 1.0 / kK;
    }
  }
  MESSAGE("width ", model->scale(), ": the nearest first ", first / kQueries, ", among ",
          kCandidates, " ", among / kQueries, "; recall@10 of them ", recall / kQueries,
          ", approximation ratio ", ratio / kQueries);
  CHECK(among / kQueries > 0.8);
  CHECK(recall / kQueries > 0.7);
}
