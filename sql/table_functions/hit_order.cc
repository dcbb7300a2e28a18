#include "sql/table_functions/hit_order.h"

#include <algorithm>

#include "compute/host/parallel.h"

namespace warplite::sql {
namespace {

constexpr std::size_t kHitsAtOnce = std::size_t{1} << 16;
constexpr std::size_t kHitsPerThread = std::size_t{1} << 12;

}  // namespace

void each_sorted(compute::HitTable& table, std::size_t first, std::size_t count,
                 const std::function<void(std::size_t, std::span<const Hit>)>& take) {
  const std::size_t k = std::max<std::size_t>(table.k(), 1);
  compute::in_parallel(count, kHitsPerThread / k / 4 + 1, count * k / kHitsPerThread,
                       [&](std::size_t begin, std::size_t end) {
                         for (std::size_t i = first + begin; i < first + end; ++i) {
                           take(i, table.sorted(i));
                         }
                       });
}

std::size_t sort_ahead(compute::HitTable& table, std::size_t first) {
  const std::size_t k = std::max<std::size_t>(table.k(), 1);
  const std::size_t count = std::min(table.queries() - first, kHitsAtOnce / k + 1);
  each_sorted(table, first, count, [](std::size_t, std::span<const Hit>) {});
  return first + count;
}

}  // namespace warplite::sql
