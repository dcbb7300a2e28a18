#include "cpu/ivf/scan.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu/ivf/live_masks.h"
#include "cpu/ivf/pq_kernels.h"

namespace warplite::cpu {
namespace {

// Rows between looking at their sums and at their scores; a whole number of fast-scan groups.
constexpr std::size_t kRows = 256;

static_assert(products_are({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}));

std::size_t groups_of(std::size_t positions) {
  return (positions + compute::kFastScanRows - 1) / compute::kFastScanRows;
}

double distance_of_code(Distance distance, double score) {
  if (distance == Distance::kInnerProduct) return score;
  return distance == Distance::kL2 ? std::sqrt(std::max(0.0, score)) : std::max(0.0, score / 2);
}

}  // namespace

void FlatScan::scan(std::span<const IvfSpan> spans, std::span<const Visit> visits) {
  for (const IvfSpan& span : spans) scan_span(span, visits);
}

// Few rows of a list may take part: those of several lists are compared together.
void FlatScan::scan_span(const IvfSpan& span, std::span<const Visit> visits) {
  if (visits.size() != 1 || visits[0].query != waiting_) compare_waiting();
  add_rows(span);
  if (visits.size() == 1) {
    waiting_ = visits[0].query;
    if (rows_.size() >= kTogether) compare_waiting();
    return;
  }
  targets_.clear();
  for (const Visit& visit : visits) targets_.push_back({visit.query->number, &visit.query->best});
  scorer_.add(rows_, targets_);
  rows_.clear();
}

void FlatScan::add_rows(const IvfSpan& span) {
  const IvfRunView& run = context_.run(span.run);
  const RowMap& rows = context_.rows();
  const std::uint32_t first = rows.first_of(span.run);
  if (const std::uint32_t* const live = context_.live(span)) {
    using Group = compute::RabitqGroup;
    for (const std::size_t g : LiveGroups(live, span.groups())) {
      const std::uint32_t group = Group::first_of(span.begin) + static_cast<std::uint32_t>(g);
      const std::uint32_t* const ordinals = run.ordinals + std::size_t{group} * Group::kRows;
      std::uint32_t bits = live[g] & Group::rows_of(span.begin, span.end, group);
      for (; bits != 0; bits &= bits - 1) {
        rows_.push_back(rows.at(first + ordinals[std::countr_zero(bits)]));
      }
    }
    return;
  }
  for (std::uint32_t p = span.begin; p < span.end; ++p) {
    const std::uint32_t ordinal = first + run.ordinals[p];
    if (rows.lives(ordinal)) rows_.push_back(rows.at(ordinal));
  }
}

void FlatScan::compare_waiting() {
  if (waiting_ == nullptr) return;
  const RowScorer::Target target{waiting_->number, &waiting_->best};
  scorer_.add(rows_, {&target, 1});
  rows_.clear();
  waiting_ = nullptr;
}

// A Part is up to kRows positions of a run.
struct CodeScan::Part {
  const IvfRunView& run;
  std::uint32_t first;     // ordinal of the run's first row
  std::uint32_t position;
  std::size_t n;
};

CodeScan::CodeScan(const IvfContext& context)
    : context_(context),
      refiner_(context),
      scores_(kRows),
      sums_(kRows),
      other_sums_(kRows),
      wide_(kRows),
      places_(kRows) {}

// Codes that queries read together spare memory; tables of 8 bits are as large as a list.
bool CodeScan::together(const IvfContext& context) {
  const compute::IvfShape& shape = context.shape();
  if (shape.listwise) return false;  // a query has tables of one list at a time
  const std::size_t tables = std::size_t{shape.m} * shape.codewords();
  const std::size_t list = std::size_t{context.rows().rows()} / shape.lists * shape.code_stride();
  return list > 4 * tables;
}

void CodeScan::begin(std::size_t number, Query& query) {
  query.number = number;
  query.list = kNoList;
  query.candidates.clear();
  if (context_.shape().listwise) return;
  const bool product = context_.work().distance == Distance::kInnerProduct;
  make_tables(product ? nullptr : context_.work().model.mean, query);
}

// Tables of z, the query as it is seen from `origin`; null: as it is.
void CodeScan::make_tables(const float* origin, Query& query) {
  const compute::IvfShape& shape = context_.shape();
  const std::size_t entries = std::size_t{shape.m} * shape.codewords();
  if (query.entries.size() == 0) query.entries = Bytes(entries);
  query.tables.entries = reinterpret_cast<std::uint8_t*>(query.entries.data());
  scratch_.resize(entries + shape.m + shape.dim);
  const float* z = context_.model_query(query.number);
  if (origin != nullptr) {
    float* centred = &scratch_[entries + shape.m];
    for (std::uint32_t i = 0; i < shape.dim; ++i) centred[i] = z[i] - origin[i];
    z = centred;
  }
  const bool product = context_.work().distance == Distance::kInnerProduct;
  pq_kernels().tables(context_.codebook(), z, product ? -1.0f : -2.0f, scratch_.data(),
                      query.tables);
}

void CodeScan::join(const Query& first, Query& query) {
  query.number = first.number;
  query.tables = first.tables;
  query.list = kNoList;
  query.candidates.clear();
}

void CodeScan::scan(std::span<const IvfSpan> spans, std::span<const Visit> visits) {
  for (const IvfSpan& span : spans) scan_span(span, visits);
}

void CodeScan::scan_span(const IvfSpan& span, std::span<const Visit> visits) {
  for (const Visit& visit : visits) {
    if (!context_.shape().listwise || visit.query->list == visit.probe.list) continue;
    make_tables(context_.centroid(visit.probe.list), *visit.query);
    visit.query->list = visit.probe.list;
  }
  const IvfRunView& run = context_.run(span.run);
  const std::uint32_t first = context_.rows().first_of(span.run);
  const bool pairs = context_.shape().bits == 4 && context_.shape().m <= kSummedSpaces;
  for (std::uint32_t at = span.begin; at < span.end;) {
    const Part part{run, first, at, std::min<std::size_t>(kRows, span.end - at)};
    std::size_t i = 0;
    for (; pairs && i + 2 <= visits.size(); i += 2) scan_two(part, &visits[i]);
    for (; i < visits.size(); ++i) scan_one(part, visits[i]);
    at += static_cast<std::uint32_t>(part.n);
  }
}

void CodeScan::scan_two(const Part& part, const Visit* visits) {
  const std::uint32_t m = context_.shape().m;
  const std::uint8_t* const entries[2] = {visits[0].query->tables.entries,
                                          visits[1].query->tables.entries};
  std::uint16_t* const sums[2] = {sums_.data(), other_sums_.data()};
  pq_kernels().sum_nibbles_of_two(entries, part.run.codes + std::size_t{part.position} * m / 2,
                                  std::size_t{m} * 16, m, groups_of(part.n), sums);
  for (int i : {0, 1}) keep(part, visits[i], sums[i]);
}

void CodeScan::scan_one(const Part& part, const Visit& visit) {
  sum(part, visit.query->tables);
  keep(part, visit, sums_.data());
}

// Adds the entries into sums_, or into wide_ when 16 bits do not hold them.
void CodeScan::sum(const Part& part, const PqTables& tables) {
  const compute::IvfShape& shape = context_.shape();
  const PqKernels& kernels = pq_kernels();
  const bool wide = shape.m > kSummedSpaces;
  if (wide) std::fill_n(wide_.begin(), part.n, 0u);
  for (std::uint32_t s = 0; s < shape.m; s += kSummedSpaces) {
    const std::uint32_t m = std::min(kSummedSpaces, shape.m - s);
    const std::uint8_t* entries = tables.entries + std::size_t{s} * shape.codewords();
    if (shape.bits == 8) {
      const std::size_t stride = shape.code_stride();
      kernels.sum_bytes(entries, part.run.codes + part.position * stride + s, stride, m, part.n,
                        sums_.data());
    } else {
      const std::size_t stride = std::size_t{shape.m} * 16;
      const std::size_t group = part.position / compute::kFastScanRows;
      kernels.sum_nibbles(entries, part.run.codes + group * stride + s * 16, stride, m,
                          groups_of(part.n), sums_.data());
    }
    for (std::size_t i = 0; wide && i < part.n; ++i) wide_[i] += sums_[i];
  }
}

void CodeScan::keep(const Part& part, const Visit& visit, const std::uint16_t* sums) {
  const RowMap& rows = context_.rows();
  const PqTables& tables = visit.query->tables;
  Candidates& candidates = visit.query->candidates;
  const bool wide = context_.shape().m > kSummedSpaces;
  const PqScores scores{sums, wide ? wide_.data() : nullptr, part.run.bias + part.position,
                        part.n, tables.step, visit.probe.a + tables.offset};
  const std::size_t found = pq_kernels().survivors(scores, candidates.limit(),
                                                            scores_.data(), places_.data());
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t ordinal = part.run.ordinals[part.position + places_[i]];
    if (!rows.lives(part.first + ordinal)) continue;
    candidates.push(scores_[places_[i]], part.first + ordinal);
  }
}

void Refiner::finish(std::size_t number, Candidates& candidates, TopK& best) {
  if (float* const left = context_.work().left; left != nullptr) {
    left[number] = std::min(left[number], candidates.left());
  }
  const std::vector<std::uint64_t>& keys = candidates.by_ordinal();
  rows_.clear();
  rows_.reserve(keys.size());
  for (const std::uint64_t key : keys) {
    rows_.push_back(context_.rows().at(Candidates::ordinal_of(key)));
  }
  if (context_.work().refine != 0) {
    const RowScorer::Target target{number, &best};
    return scorer_.add(rows_, {&target, 1});
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const RowPlace& row = rows_[i];
    const double score = static_cast<double>(Candidates::score_of(keys[i]));
    best.push({distance_of_code(context_.work().distance, score), row.block->rowids[row.row],
               row.block->id, row.row});
  }
}

}  // namespace warplite::cpu
