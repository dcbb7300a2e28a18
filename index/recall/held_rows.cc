#include "index/recall/held_rows.h"

#include <algorithm>
#include <cstring>

namespace warplite::index {

PickedRows::PickedRows(const MatrixView& sample, std::span<const std::size_t> order)
    : bytes_(order.size() * sample.stride(), Bytes::Fill::kGradual), view_(sample) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::memcpy(bytes_.data() + i * sample.stride(), sample.row(order[i]), sample.stride());
  }
  view_.data = bytes_.data();
  view_.rows = order.size();
}

MatrixView PickedRows::first(std::size_t rows) const {
  MatrixView some = view_;
  some.rows = std::min(rows, view_.rows);
  return some;
}

HeldRows::HeldRows(const TrainingTask& from, const InvertedModel& of, Distance by,
                   const MatrixView& sample, std::span<const std::size_t> order)
    : task(from), model(of), distance(by), rows(sample, order),
      in_model_space(order.size() * sample.dim) {
  std::vector<float> scales(order.size());
  model.queries_to_model_space(rows.view(), in_model_space.data(), scales.data());
}

compute::HitTable HeldRows::nearest(const compute::Buffer* buffer, const MatrixView& among,
                                    std::size_t held, std::size_t k) const {
  compute::Block block;
  block.vectors = buffer;
  block.host = among.data;
  block.rows = block.live_rows = static_cast<std::uint32_t>(among.rows);
  compute::Workload work;
  work.distance = distance;
  work.queries = rows.first(held);
  work.blocks = {&block, 1};
  work.cancellation = task.cancellation();
  compute::HitTable best(held, std::min(k, among.rows));
  task.device().nearest(work, best).raise();
  return best;
}

std::shared_ptr<const compute::Buffer> resident(compute::Device& device, const void* data,
                                                std::size_t size) {
  std::shared_ptr<const compute::Buffer> buffer;
  device.make_resident({nullptr, static_cast<const std::byte*>(data), size}, &buffer).raise();
  return buffer;
}

}  // namespace warplite::index
