#include "cpu/edit.h"

#include <numeric>
#include <vector>

#include "cpu/edit/distances.h"
#include "cpu/edit/scan.h"
#include "cpu/metric/edit_metric.h"

namespace warplite::cpu {
namespace {

void search(compute::Device& host, const compute::EditWork& work, std::size_t k,
            EditResults& results) {
  if (work.metric != nullptr) return search_edit_metric(host, work, k, results);
  std::vector<std::uint32_t> queries(work.queries());
  std::iota(queries.begin(), queries.end(), 0u);
  scan_texts(work, queries, work.tiles, results);
}

}  // namespace

void search_edit_nearest(compute::Device& host, const compute::EditWork& work,
                         compute::HitTable& best) {
  if (best.k() == 0 || work.queries() == 0 || work.tiles.empty()) return;
  EditResults results(work, best);
  search(host, work, best.k(), results);
}

void search_edit_within(compute::Device& host, const compute::EditWork& work,
                        compute::HitLists& out) {
  if (work.queries() == 0 || work.tiles.empty()) return;
  EditResults results(work, out);
  search(host, work, 0, results);
}

void text_distances(std::span<const std::uint32_t> text, const compute::MetricTexts& texts,
                    std::uint32_t width, std::uint16_t* out) {
  ItemLoop loop(nullptr);
  EditDistances distances(loop, 0);
  distances.load(text);
  for (std::size_t i = 0; i < texts.groups; ++i) {
    distances.begin(group_of(texts, width, nullptr, i), width);
    const std::int16_t* const sums = distances.compare(distances.queries()[0]);
    for (std::size_t at = 0; at < compute::kEditGroup; ++at) {
      *out++ = static_cast<std::uint16_t>(static_cast<std::ptrdiff_t>(text.size()) + sums[at]);
    }
  }
}

}  // namespace warplite::cpu
