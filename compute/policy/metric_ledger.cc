#include "compute/policy/metric_ledger.h"

#include "compute/edit_metric.h"
#include "compute/metric.h"

namespace warplite::compute {
namespace {

// Fewer rows may be such as are not sealed, whose buffer lives as long as nothing changes.
constexpr std::uint32_t kLasting = 8192;
// A search of fewer than one row in so many has no need of an index.
constexpr double kOneIn = 16;

// Returns what a builder takes for one of the distances it evaluates, with what it does beside
// (bench/kernels/NOTES.md).
double vector_distance(std::uint32_t dim) { return 4 + 0.25 * dim; }

// Returns what the distance of texts of such average lengths takes: columns of the dynamic
// programme, by blocks of 16 rows.
double text_distance(double length, double other) {
  constexpr double kBlock = 16;
  return 6 + 0.3 * length * std::ceil(std::max(other, 1.0) / kBlock);
}

}  // namespace

MissingMetric MissingMetric::of(const Workload& work, std::size_t block) {
  const Block& rows = work.blocks[block];
  const double distance = vector_distance(work.queries.dim);
  const double compared = static_cast<double>(work.queries.rows) * rows.live_rows;
  MissingMetric missing;
  missing.which = block;
  missing.making = work.metric->cost(rows.rows) * distance;
  missing.comparing = compared * distance;
  missing.at_once = rows.rows >= kLasting && compared * kOneIn >= rows.rows;
  return missing;
}

MissingMetric MissingMetric::of(const EditWork& work, std::size_t tile) {
  const EditTile& texts = work.tiles[tile];
  const double length = static_cast<double>(texts.positions) * kEditGroup / texts.texts;
  double query = 0;  // all of them with one text
  for (std::size_t q = 0; q < work.queries(); ++q) {
    query += text_distance(length, static_cast<double>(work.query(q).size()));
  }
  MissingMetric missing;
  missing.which = tile;
  missing.making = work.metric->cost(texts.texts) * text_distance(length, length);
  missing.comparing = query * texts.live_rows;
  missing.at_once =
      static_cast<double>(work.queries()) * texts.live_rows * kOneIn >= texts.texts;
  return missing;
}

}  // namespace warplite::compute
