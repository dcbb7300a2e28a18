#include "cpu/ivf/context.h"

#include <algorithm>

#include "cpu/scan/search.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {
namespace {

// Bytes of a list that are read between two questions whether to go on.
constexpr std::size_t kSpanBytes = std::size_t{256} << 10;

const std::byte* bytes_of(const compute::Buffer* buffer) {
  return CpuBuffer::of(buffer).data();
}

compute::Workload flat_work(const compute::IvfWork& work) {
  compute::Workload flat;
  flat.distance = work.distance;
  flat.queries = work.queries;
  flat.cancellation = work.cancellation;
  return flat;
}

IvfRunView view_of(const compute::IvfRun& run, const compute::IvfShape& shape) {
  const compute::IvfLayout at = compute::IvfLayout::of(shape, run.positions);
  const std::byte* bytes = bytes_of(run.bytes);
  return {reinterpret_cast<const std::uint32_t*>(bytes + at.begins),
          reinterpret_cast<const std::uint32_t*>(bytes + at.ordinals),
          reinterpret_cast<const float*>(bytes + at.bias),
          reinterpret_cast<const std::uint8_t*>(bytes + at.codes)};
}

// Kept with the buffer, since a codebook serves many searches.
std::shared_ptr<const PqCodebook> codebook_of(const compute::IvfModelBuffers& model) {
  const compute::IvfShape& shape = model.shape;
  const CpuBuffer& buffer = CpuBuffer::of(model.codebooks);
  const auto make = [&] {
    return std::make_shared<const PqCodebook>(reinterpret_cast<const float*>(buffer.data()),
                                              shape.m, shape.codewords(), shape.sub_dim());
  };
  auto codebook = buffer.derived().get<const PqCodebook>(make);
  const PqCodebookView& view = codebook->view();
  const bool same = view.m == shape.m && view.codewords == shape.codewords() &&
                    view.sub_dim == shape.sub_dim();
  return same ? codebook : make();
}

}  // namespace

IvfContext::IvfContext(const compute::IvfWork& work, std::size_t k)
    : work_(work),
      kernels_(scan_kernels()),
      k_(k),
      flat_(flat_work(work)),
      rows_(work.runs),
      queries_(flat_, kernels_) {
  if (Screen::suits(flat_, kernels_)) screen_.emplace(flat_, kernels_);
  for (const compute::IvfRun& run : work.runs) runs_.push_back(view_of(run, shape()));
  const std::size_t refine = std::max<std::size_t>(1, work.refine);
  keep_ = k_ > rows_.rows() / refine ? rows_.rows() : k_ * refine;
  keep_ = std::max<std::size_t>(keep_, 1);
  const std::size_t row = shape().m == 0 ? work.queries.stride() : shape().code_stride();
  span_rows_ = static_cast<std::uint32_t>(std::max<std::size_t>(1, kSpanBytes / row / 256)) * 256;
  if (shape().m != 0) codebook_ = codebook_of(work.model);
  choose_lists();
}

void IvfContext::choose_lists() {
  compute::Block centroids;
  centroids.vectors = work_.model.centroids;
  centroids.rows = centroids.live_rows = shape().lists;
  compute::Workload coarse;
  coarse.distance =
      work_.distance == Distance::kInnerProduct ? Distance::kInnerProduct : Distance::kL2;
  coarse.queries = {reinterpret_cast<const std::byte*>(work_.model_queries), work_.queries.rows,
                    shape().dim, ElementType::kFloat32};
  coarse.blocks = {&centroids, 1};
  coarse.cancellation = work_.cancellation;
  compute::HitTable nearest(work_.queries.rows, work_.nprobe);
  search_nearest(coarse, nearest);
  for (std::size_t q = 0; q < work_.queries.rows; ++q) lists_.push_back(nearest.sorted(q));
}

void IvfContext::add_spans(std::uint32_t list, std::vector<IvfSpan>& out) const {
  for (std::uint32_t r = 0; r < runs_.size(); ++r) {
    const std::uint32_t end = runs_[r].begins[list + 1];
    for (std::uint32_t at = runs_[r].begins[list]; at < end;) {
      const std::uint32_t rows = std::min(end - at, span_rows_);
      out.push_back({r, at, at + rows});
      at += rows;
    }
  }
}

}  // namespace warplite::cpu
