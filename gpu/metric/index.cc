#include "gpu/metric/index.h"

#include <utility>

namespace warplite::gpu {

using compute::kMetricGroup;

namespace {

// `out` stays where it is until the upload is sent.
void add_texts(MetricUpload& upload, const compute::MetricTexts& texts, MetricGroupsView& out) {
  const std::size_t positions = texts.begins.empty() ? 0 : texts.begins[texts.groups];
  upload.add(texts.begins.data(), texts.begins.size(), &out.begins);
  upload.add(texts.lengths.data(), texts.lengths.size(), &out.lengths);
  upload.add(reinterpret_cast<const std::uint8_t*>(texts.symbols.data()),
             positions * compute::kEditGroup, &out.symbols);
}

}  // namespace

DeviceBytes MetricUpload::send(Lane& lane) const {
  DeviceBytes memory(plan_.size(), lane.pool(), lane.stream());
  for (const Part& part : parts_) {
    part.point(Arena(memory.data()));
    if (part.size == 0) continue;
    check(cudaMemcpyAsync(memory.data() + part.at, part.from, part.size, cudaMemcpyHostToDevice,
                          lane.stream()),
          "sending a metric index");
  }
  check(cudaStreamSynchronize(lane.stream()), "sending a metric index");
  return memory;
}

bool MetricIndexes::claim(const compute::MissingMetric& missing, bool at_once) {
  const std::lock_guard lock(mutex_);
  if (making_ || made_ || !ledger_.worth_making(missing, at_once)) return false;
  return making_ = true;
}

void MetricIndexes::give_up() {
  const std::lock_guard lock(mutex_);
  ledger_.given_up();
  making_ = false;
}

const MetricBlockView* MetricIndexes::vectors() const {
  const std::lock_guard lock(mutex_);
  return made_ ? &vectors_ : nullptr;
}

const MetricTextsView* MetricIndexes::texts() const {
  const std::lock_guard lock(mutex_);
  return made_ ? &texts_ : nullptr;
}

void MetricIndexes::finish(const compute::VectorMetric& metric, std::uint32_t dim, Lane& lane) {
  const std::size_t group = std::size_t{dim} * kMetricGroup;
  MetricBlockView view{};
  MetricUpload upload;
  upload.add(metric.outliers.data(), metric.outliers.size(), &view.outliers);
  view.outlier_count = static_cast<std::uint32_t>(metric.outliers.size());
  view.pivots = metric.pivots != nullptr;
  if (view.pivots) {
    const compute::VectorPivots& from = *metric.pivots;
    view.count = from.count;
    view.places = from.places;
    upload.add(from.pivots.group(0), from.pivots.groups * group, &view.points);
    upload.add(from.rows.data(), from.rows.size(), &view.rows);
    upload.add(from.table.data(), from.table.size(), &view.rings);
  } else {
    const compute::VectorClusters& from = *metric.clusters;
    view.count = from.count;
    const std::size_t groups = from.count == 0 ? 0 : from.begins.back();
    upload.add(from.centres.group(0), from.centres.groups * group, &view.points);
    upload.add(from.cover.data(), from.cover.size(), &view.cover);
    upload.add(from.inner.data(), from.inner.size(), &view.inner);
    upload.add(from.begins.data(), from.begins.size(), &view.begins);
    upload.add(from.members.group(0), groups * group, &view.members);
    upload.add(from.rows.data(), groups * kMetricGroup, &view.rows);
    upload.add(from.rings.data(), groups * kMetricGroup, &view.rings);
  }
  keep(upload.send(lane), view, {});
}

void MetricIndexes::finish(const compute::TextMetric& metric, Lane& lane) {
  MetricTextsView view{};
  MetricUpload upload;
  view.pivots = metric.pivots != nullptr;
  const compute::MetricTexts& members =
      view.pivots ? metric.pivots->members : metric.clusters->members;
  view.groups = members.groups;
  add_texts(upload, members, view.members);
  if (view.pivots) {
    const compute::TextPivots& from = *metric.pivots;
    view.count = from.count;
    add_texts(upload, from.pivots, view.points);
    upload.add(from.rows.data(), from.rows.size(), &view.rows);
    upload.add(from.table.data(), from.table.size(), &view.table);
  } else {
    const compute::TextClusters& from = *metric.clusters;
    view.count = from.count;
    add_texts(upload, from.centres, view.points);
    upload.add(from.cover.data(), from.cover.size(), &view.cover);
    upload.add(from.inner.data(), from.inner.size(), &view.inner);
    upload.add(from.begins.data(), from.begins.size(), &view.begins);
    upload.add(from.rows.data(), from.rows.size(), &view.rows);
    upload.add(from.rings.data(), from.rings.size(), &view.rings);
  }
  keep(upload.send(lane), {}, view);
}

void MetricIndexes::keep(DeviceBytes memory, const MetricBlockView& vectors,
                         const MetricTextsView& texts) {
  const std::lock_guard lock(mutex_);
  memory_ = std::move(memory);
  vectors_ = vectors;
  texts_ = texts;
  used_ += memory_.size();
  made_ = true;
  making_ = false;
}

}  // namespace warplite::gpu
