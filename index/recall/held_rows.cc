#include "index/recall/held_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

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
      in_model_space(order.size() * sample.dim), scales_(order.size()) {
  model.queries_to_model_space(rows.view(), in_model_space.data(), scales_.data());
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

Twins HeldRows::twins(compute::HitTable& nearest, const Twins* of_all) const {
  Twins twins(nearest.queries());
  std::size_t apart = 0;
  for (std::size_t row = 0; row < twins.size(); ++row) {
    const bool repeated = of_all != nullptr && (*of_all)[row] == kRepeated;
    twins[row] = repeated ? kRepeated : this->twins(row, nearest.sorted(row));
    apart += twins[row] != kRepeated;
  }
  // Where nearly all rows are repeated, so are queries.
  if (of_all == nullptr && apart < kLeastHeld) std::ranges::replace(twins, kRepeated, 0u);
  return twins;
}

// Those before the last of the first gaps behind which rows are twice as far.
std::uint32_t HeldRows::twins(std::size_t row, std::span<const Hit> nearest) const {
  const std::size_t dim = rows.view().dim;
  double own = 0;  // what a product with itself is
  if (distance == Distance::kInnerProduct) {
    const float* const x = in_model_space.data() + row * dim;
    own = std::inner_product(x, x + dim, x, 0.0) / std::pow(static_cast<double>(scales_[row]), 2);
  }
  // Grows with the square of how far apart two rows are; of products, if they are equally long.
  const auto apart = [&](const Hit& hit) {
    return distance == Distance::kL2 ? hit.distance * hit.distance : own + hit.distance;
  };
  constexpr double kTwiceAsFar = 4;
  const double rounding = distance == Distance::kL2 ? 0 : 1e-6 * own + 1e-12;
  std::uint32_t twins = 0;
  for (std::uint32_t i = 0; i < nearest.size(); ++i) {
    const double here = apart(nearest[i]);
    if (here < -rounding) return 0;  // longer rows are found before its own
    if (i == kMostTwins) return here > rounding ? twins : kRepeated;
    if (i + 1 == nearest.size()) break;
    const double next = apart(nearest[i + 1]);
    if (next > rounding && next >= kTwiceAsFar * here) twins = i + 1;
  }
  return twins;
}

std::shared_ptr<const compute::Buffer> resident(compute::Device& device, const void* data,
                                                std::size_t size) {
  std::shared_ptr<const compute::Buffer> buffer;
  device.make_resident({nullptr, static_cast<const std::byte*>(data), size}, &buffer).raise();
  return buffer;
}

}  // namespace warplite::index
