#include "cpu/ivf/context.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu/ivf/rabitq_kernels.h"
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

// Groups of a list that hold rows that take part, where any do alike: some hold several of them.
double groups_with_any(const compute::ProbedList& list) {
  const double groups = std::ceil(static_cast<double>(list.rows) / compute::kFastScanRows);
  return list.rows == 0 ? 0 : groups * (1 - std::exp(-static_cast<double>(list.live) / groups));
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
  const bool same =
      view.m == shape.m && view.codewords == shape.codewords() && view.sub_dim == shape.sub_dim();
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
  runs_.reserve(work.runs.size());
  for (const compute::IvfRun& run : work.runs) {
    runs_.push_back(IvfRunView::of(shape(), bytes_of(run.bytes), run.positions));
  }
  if (!rows_.all_live()) find_live();
  const std::size_t refine = std::max<std::size_t>(1, work.refine);
  keep_ = k_ > rows_.rows() / refine ? rows_.rows() : k_ * refine;
  keep_ = std::max<std::size_t>(keep_, 1);
  row_bytes_ = shape().m == 0 ? work.queries.stride() : shape().code_stride();
  span_rows_ =
      static_cast<std::uint32_t>(std::max<std::size_t>(1, kSpanBytes / row_bytes_ / 256)) * 256;
  if (shape().has_codebooks()) codebook_ = codebook_of(work.model);
  lists_ = choose_lists(work);
}

// By position where that is known, or where the filter comes again, or each list is looked into about once.
void IvfContext::find_live() {
  const bool at_once = work_.queries.rows * work_.nprobe >= shape().lists;
  bool known = work_.filter != 0 && shape().planes != 0;
  if (known) masks_.resize(runs_.size());
  for (std::uint32_t r = 0; known && r < runs_.size(); ++r) {
    const auto make = [&] {
      rows_.gather_live();
      return masks_of(r);
    };
    masks_[r] =
        CpuBuffer::of(work_.runs[r].bytes).derived().of<LiveMasks>().get(work_.filter, at_once, make);
  }
  known = known && std::ranges::none_of(masks_, [](const auto& masks) { return masks == nullptr; });
  if (!known) rows_.gather_live();
}

// Measured on a core of Granite Rapids, rows of 512 bytes and codes of 128 elements: 100 ns a row that
// takes part (60 where all of those are in the cache); or 300 a list, 100 a group of codes, and 530 a
// candidate. On a Zen 4 codes take less: both ways take as long with 115 ns a row.
bool IvfContext::compares_all() const {
  if (!work_.may_compare_all || work_.refine == 0 || masks_.empty()) return false;
  if (std::ranges::any_of(masks_, [](const auto& masks) { return masks == nullptr; })) return false;
  constexpr std::size_t kCounted = 1024;  // lists of a query, about
  double rows = 0, lists = 0, groups = 0;
  for (std::size_t q = 0; q < lists_.size(); ++q) {
    const std::span<const Probe> probes = this->lists(q);
    const std::size_t step = 1 + probes.size() / kCounted;
    for (std::size_t i = 0; i < probes.size(); i += step) {
      compute::ProbedList counted;
      count_list(probes[i].list, counted);
      const auto many = static_cast<double>(std::min(step, probes.size() - i));
      rows += many * counted.live;
      lists += counted.live != 0 ? many : 0;
      groups += many * groups_with_any(counted);
    }
  }
  const double candidates =
      std::min(rows, static_cast<double>(work_.queries.rows) * static_cast<double>(keep_));
  const auto bytes = static_cast<double>(work_.queries.stride());
  const double dim = shape().dim;
  return rows * (22 + 0.18 * bytes) <=
         lists * (180 + dim) + groups * (10 + 0.7 * dim) + candidates * (450 + 0.16 * bytes);
}

LiveMasks::Masks IvfContext::masks_of(std::uint32_t run) const {
  LiveMasks::Masks masks;
  masks.groups.resize(work_.runs[run].positions / compute::kFastScanRows);
  rabitq_kernels().live(runs_[run].ordinals, masks.groups.size(), rows_.live(),
                        rows_.first_of(run), masks.groups.data());
  masks.lists.reserve(shape().lists);
  for (std::uint32_t list = 0; list < shape().lists; ++list) {
    masks.lists.push_back(count_list(run, list, masks.groups.data()));
  }
  return masks;
}

compute::ProbedList IvfContext::count_list(std::uint32_t run, std::uint32_t list,
                                           const std::uint32_t* live) const {
  const IvfRunView& of = runs_[run];
  const std::uint32_t begin = of.begins[list], end = of.ends[list];
  compute::ProbedList counted{.rows = end - begin};
  if (rows_.all_live()) {
    counted.live = counted.rows;
  } else if (live == nullptr) {
    counted.live = rows_.count_live({of.ordinals + begin, end - begin}, rows_.first_of(run));
  }
  if (live == nullptr || begin == end) return counted;
  using Group = compute::RabitqGroup;
  for (std::uint32_t g = Group::first_of(begin); g < Group::end_of(end); ++g) {
    counted.live +=
        static_cast<std::uint32_t>(std::popcount(live[g] & Group::rows_of(begin, end, g)));
  }
  return counted;
}

void IvfContext::count_list(std::uint32_t list, compute::ProbedList& out) const {
  for (std::uint32_t r = 0; r < runs_.size(); ++r) {
    const compute::ProbedList counted =
        live(r) != nullptr ? masks_[r]->lists[list] : count_list(r, list, nullptr);
    out.rows += counted.rows;
    out.live += counted.live;
  }
}

void IvfContext::ask_for_count(std::uint32_t list) const {
  if (rows_.all_live()) return;
  for (std::uint32_t r = 0; r < runs_.size(); ++r) {
    const std::uint32_t end = live(r) != nullptr ? 0 : runs_[r].ends[list];
    if (end != 0) __builtin_prefetch(runs_[r].ordinals + end - 1);
  }
}

void IvfContext::add_spans(std::uint32_t list, std::vector<IvfSpan>& out) const {
  for (std::uint32_t r = 0; r < runs_.size(); ++r) {
    if (live(r) != nullptr && masks_[r]->lists[list].live == 0) continue;
    const std::uint32_t end = runs_[r].ends[list];
    for (std::uint32_t at = runs_[r].begins[list]; at < end;) {
      // One ends where a group does, if the list goes on.
      const std::uint32_t rows = std::min(end - at, span_rows_ - at % span_rows_);
      out.push_back({r, at, at + rows});
      at += rows;
    }
  }
}

}  // namespace warplite::cpu
