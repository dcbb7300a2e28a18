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
  for (const compute::IvfRun& run : work.runs) {
    runs_.push_back(IvfRunView::of(shape(), bytes_of(run.bytes), run.positions));
  }
  const std::size_t refine = std::max<std::size_t>(1, work.refine);
  keep_ = k_ > rows_.rows() / refine ? rows_.rows() : k_ * refine;
  keep_ = std::max<std::size_t>(keep_, 1);
  row_bytes_ = shape().m == 0 ? work.queries.stride() : shape().code_stride();
  span_rows_ =
      static_cast<std::uint32_t>(std::max<std::size_t>(1, kSpanBytes / row_bytes_ / 256)) * 256;
  if (shape().has_codebooks()) codebook_ = codebook_of(work.model);
  lists_ = choose_lists(work);
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
