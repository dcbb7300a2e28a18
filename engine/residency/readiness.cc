#include "engine/residency/readiness.h"

#include <memory>
#include <utility>

namespace warplite::engine {

bool nearly_all(std::size_t lacking, std::size_t bytes) {
  constexpr std::size_t kSmall = std::size_t{64} << 20;
  return lacking <= bytes / 4 || lacking < kSmall;
}

bool ready(compute::Device& device, std::vector<Uploader::Item> items) {
  if (!device.own_memory()) return true;
  std::vector<Residency::Want> wants;
  std::size_t bytes = 0;
  for (const Uploader::Item& item : items) {
    const MatrixView& matrix = item.vectors->block.vectors;
    wants.push_back({item.key, matrix.rows * matrix.stride()});
    bytes += wants.back().bytes;
  }
  const auto has = std::make_unique<bool[]>(items.size());
  const Residency::Holding holding =
      Residency::instance().holding(device, wants, {has.get(), items.size()});
  if (holding.budget < bytes && !holding.maps) return false;
  if (nearly_all(bytes - holding.present, bytes)) return true;
  std::vector<Uploader::Item> missing;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!has[i]) missing.push_back(std::move(items[i]));
  }
  Uploader::instance().request(device, std::move(missing));
  return false;
}

}  // namespace warplite::engine
