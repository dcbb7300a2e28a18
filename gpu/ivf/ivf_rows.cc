#include "gpu/ivf/ivf_rows.h"

#include "core/process/last_few.h"

namespace warplite::gpu {
namespace {

std::vector<compute::Block> blocks_of(const compute::IvfWork& work) {
  std::vector<compute::Block> blocks;
  for (const compute::IvfRun& run : work.runs) {
    blocks.insert(blocks.end(), run.blocks.begin(), run.blocks.end());
  }
  return blocks;
}

}  // namespace

IvfRows::IvfRows(const Gpu& gpu, Lane& lane, const compute::IvfWork& work)
    : key(work.rows),
      blocks_(blocks_of(work)),
      rows_(blocks_, work.queries),
      table_(rows_.upload_once(gpu, lane, work.filter)) {}

std::shared_ptr<const IvfRows> IvfRows::of(const Gpu& gpu, Lane& lane,
                                           const compute::IvfWork& work) {
  // Without a number for the filter nobody knows whose rows these are.
  const bool lasts = work.rows != 0 && work.filter != 0;
  auto& kept = gpu.derived().of<LastFew<IvfRows>>();
  std::shared_ptr<const IvfRows> known = lasts ? kept.find(work.rows) : nullptr;
  if (known != nullptr) return known;
  auto made = std::make_shared<const IvfRows>(gpu, lane, work);
  return lasts ? kept.add(std::move(made)) : made;
}

}  // namespace warplite::gpu
