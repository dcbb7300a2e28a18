#include "index/recall/held_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "index/clustering/matrix.h"

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
    : task(from),
      model(of),
      distance(by),
      rows(sample, order),
      in_model_space(order.size() * sample.dim),
      scales_(order.size()) {
  model.queries_to_model_space(rows.view(), in_model_space.data(), scales_.data());
}

HeldRows::HeldRows(const HeldRows& held, std::span<const std::size_t> some, Bitmap among)
    : task(held.task),
      model(held.model),
      distance(held.distance),
      rows(held.rows.view(), some),
      in_model_space(some.size() * held.rows.view().dim),
      live(std::move(among)),
      scales_(some.size()) {
  model.queries_to_model_space(rows.view(), in_model_space.data(), scales_.data());
}

compute::HitTable HeldRows::nearest(const compute::Buffer* buffer, const MatrixView& among,
                                    std::size_t held, std::size_t k) const {
  compute::Block block;
  block.vectors = buffer;
  block.host = among.data;
  block.rows = block.live_rows = static_cast<std::uint32_t>(among.rows);
  const LiveRows live_rows(*this, among.rows);
  live_rows.mark(block);
  compute::Workload work;
  work.distance = distance;
  work.queries = rows.first(held);
  work.blocks = {&block, 1};
  work.cancellation = task.cancellation();
  compute::HitTable best(held, std::min(k, among.rows));
  task.device().nearest(work, best).raise();
  return best;
}

double HeldRows::square_norm(std::size_t row) const {
  const std::size_t dim = rows.view().dim;
  const float* const x = in_model_space.data() + row * dim;
  return index::square_norm(x, dim) / std::pow(static_cast<double>(scales_[row]), 2);
}

LiveRows::LiveRows(const HeldRows& held, std::size_t rows) : live_(held.live) {
  if (live_.size() != 0) live_.resize(rows);
}

void LiveRows::mark(compute::Block& block) const {
  if (live_.size() == 0) return;
  block.live = live_.words();
  block.live_rows = static_cast<std::uint32_t>(live_.count());
}

std::shared_ptr<const compute::Buffer> resident(compute::Device& device, const void* data,
                                                std::size_t size) {
  std::shared_ptr<const compute::Buffer> buffer;
  device.make_resident({nullptr, static_cast<const std::byte*>(data), size}, &buffer).raise();
  return buffer;
}

}  // namespace warplite::index
