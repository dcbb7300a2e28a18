// Compiled with -ffp-contract=off: a fused multiply-add would change the bits.
#include "tests/reference/rabitq.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/bfloat16.h"

namespace warplite::compute {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Σ16
float sum(const std::vector<float>& terms) {
  std::array<float, 16> sums{};
  for (std::size_t i = 0; i < terms.size(); ++i) sums[i % 16] += terms[i];
  for (std::size_t half = 8; half != 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

float distance_of(Distance distance, const float* y, const float* centroid, std::uint32_t dim) {
  std::vector<float> terms(dim);
  for (std::uint32_t i = 0; i < dim; ++i) {
    const float x = y[i] - centroid[i];
    terms[i] = distance == Distance::kInnerProduct ? y[i] * centroid[i] : x * x;
  }
  return distance == Distance::kInnerProduct ? 0.0f - sum(terms) : sum(terms);
}

int rounded(float x) {
  return static_cast<int>(x < 0 ? x - 0.5f : x + 0.5f);
}

float known(float score) {
  return std::isnan(score) ? kInfinity : score;
}

}  // namespace

RabitqPair::RabitqPair(const IvfShape& shape, Distance distance, const float* y,
                       const float* centroid, bool codes_decide)
    : shape_(shape),
      with_signs_(signs_count_by_elements(shape.planes, codes_decide)),
      coarse_(shape.dim),
      elements_(shape.dim) {
  d_ = distance_of(distance, y, centroid, shape.dim);
  norm_ = std::sqrt(distance_of(Distance::kL2, y, centroid, shape.dim));
  float top = 0;
  for (std::uint32_t i = 0; i < shape.dim; ++i) {
    top = std::max(top, std::fabs(y[i] - centroid[i]));
  }
  if (!(top >= kLeastTop) || std::isinf(top)) return;
  unit_ = top / 31;
  fine_ = top / 254;
  for (std::uint32_t i = 0; i < shape.dim; ++i) {
    const float x = y[i] - centroid[i];
    coarse_[i] = rounded(x * (31 / top));
    elements_[i] = rounded(x * (127 / top));
  }
}

// U of one element.
int RabitqPair::level(const std::byte* group, const std::byte* record, std::uint32_t place,
                      std::uint32_t element) const {
  const unsigned both = std::to_integer<unsigned>(group[element / 4 * 16 + place % 16]);
  const unsigned four = place < 16 ? both & 15 : both >> 4;
  unsigned code = (four >> (element % 4)) & 1;
  for (std::uint32_t p = 1; p < shape_.planes; ++p) {
    const std::byte* plane = record + RabitqRecord::kPlanes + (p - 1) * plane_bytes(shape_.dim);
    code = code * 2 + ((std::to_integer<unsigned>(plane[element / 8]) >> (element % 8)) & 1);
  }
  return static_cast<int>(code);
}

float RabitqPair::signs_product(const std::vector<int>& code) const {
  int total = 0;
  for (std::uint32_t i = 0; i < shape_.dim; ++i) {
    total += code[i] >> (shape_.planes - 1) != 0 ? coarse_[i] : -coarse_[i];
  }
  return unit_ * static_cast<float>(total);
}

float RabitqPair::product(const std::vector<int>& code) const {
  const int levels = 1 << (with_signs_ ? shape_.planes : shape_.planes - 1);
  std::int64_t dot = 0, all = 0;
  for (std::uint32_t i = 0; i < shape_.dim; ++i) {
    dot += std::int64_t{code[i] % levels} * elements_[i];
    all += elements_[i];
  }
  const float fine = fine_ * static_cast<float>(2 * dot - (levels - 1) * all);
  if (with_signs_) return fine;
  return static_cast<float>(std::exp2(shape_.planes - 2.0)) * signs_product(code) + fine;
}

float RabitqPair::score(const std::byte* run, const IvfLayout& at, std::uint32_t position,
                        std::uint32_t* ordinal) const {
  const RabitqGroup layout(shape_.m);
  const std::byte* group =
      run + at.codes + std::size_t{position / RabitqGroup::kRows} * layout.size;
  const std::byte* record =
      run + at.records + std::size_t{position} * RabitqRecord::size(shape_.dim, shape_.planes);
  const std::uint32_t place = position % RabitqGroup::kRows;
  const auto factor = [&](std::uint32_t array) {
    return bfloat16_to_float(load<std::uint16_t>(group + array + place * 2));
  };
  *ordinal = load<std::uint32_t>(run + at.ordinals + std::size_t{position} * 4);
  std::vector<int> code(shape_.dim);
  for (std::uint32_t i = 0; i < shape_.dim; ++i) code[i] = level(group, record, place, i);
  const float signs = (d_ + factor(layout.bias)) + factor(layout.f) * signs_product(code);
  if (shape_.planes == 1) return known(signs - factor(layout.g) * 0.0f);
  const float low = signs - factor(layout.g) * norm_;
  const float bias = load<float>(record + RabitqRecord::kBias);
  const float all = (d_ + bias) + load<float>(record + RabitqRecord::kFine) * product(code);
  return std::max(known(low), known(all));
}

namespace {

// Every centroid by its D, where there are no groups; else by its code in its group.
std::vector<RabitqProbe> all_probes(const IvfWork& work, const float* query,
                                    const IvfHostModel& model) {
  const IvfShape& shape = work.model.shape;
  std::vector<RabitqProbe> probes;
  for (std::uint32_t list = 0; list < shape.lists && shape.groups == 0; ++list) {
    probes.push_back(
        {known(distance_of(work.distance, query, model.centroids + list * shape.dim, shape.dim)), list});
  }
  const IvfShape coarse = shape.coarse();
  const IvfLayout at = IvfLayout::of(coarse, work.model.coarse_positions);
  for (std::uint32_t group = 0; group < shape.groups; ++group) {
    const RabitqPair pair(coarse, work.distance, query,
                          model.centroids + (std::size_t{shape.lists} + group) * shape.dim,
                          false);
    const auto begin = load<std::uint32_t>(model.coarse + at.begins + group * 4);
    const auto end = load<std::uint32_t>(model.coarse + at.ends + group * 4);
    for (std::uint32_t p = begin; p < end; ++p) {
      std::uint32_t list;
      const float score = pair.score(model.coarse, at, p, &list);
      probes.push_back({score, list});
    }
  }
  return probes;
}

}  // namespace

std::vector<RabitqProbe> rabitq_probes(const IvfWork& work, const float* query,
                                       const IvfHostModel& model) {
  std::vector<RabitqProbe> probes = all_probes(work, query, model);
  std::sort(probes.begin(), probes.end(), [](const RabitqProbe& a, const RabitqProbe& b) {
    return a.score != b.score ? a.score < b.score : a.list < b.list;
  });
  const std::size_t most = work.model.shape.coarse_candidates(work.nprobe);
  probes.resize(std::min(probes.size(), most));
  if (work.model.shape.planes == 0) return probes;
  probes.resize(work.steps().probes_of(probes.size(), [&](std::size_t place) { return probes[place].score; }));
  return probes;
}

}  // namespace warplite::compute
