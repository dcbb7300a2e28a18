#include "engine/ivf/ivf_set.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "core/process/process.h"
#include "engine/residency/common_cancellation.h"

namespace warplite::engine {

std::vector<Extent> IvfBlocks::extents(compute::Device& device) const {
  std::vector<Extent> extents(runs.size(), Extent::kAll);
  if (handed_to != nullptr || !device.own_memory()) return extents;
  const Residency::Holding holding = Residency::instance().holding(device, {});
  std::size_t bytes = model_bytes(*model.model);
  for (const LoadedRun& run : runs) bytes += run.bytes != nullptr ? run.bytes->size() : 0;
  for (std::size_t i = 0; holding.maps && bytes > holding.budget && i < runs.size(); ++i) {
    if (runs[i].bytes == nullptr) continue;
    extents[i] = Extent::kHot;
    bytes -= runs[i].bytes->size() - runs[i].bytes->size(Extent::kHot);
  }
  return extents;
}

std::vector<Uploader::Item> IvfBlocks::items(compute::Device& device) const {
  const std::vector<Extent> extent = extents(device);
  std::vector<Uploader::Item> items = {{model.centroids.key, model.centroids.values}};
  if (model.codebooks != nullptr) items.push_back({model.codebooks_key, model.codebooks});
  if (model.coarse != nullptr) items.push_back({model.coarse_key, model.coarse});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].bytes == nullptr) continue;
    items.push_back({coded->runs[i].key, runs[i].bytes, extent[i]});
  }
  for (const Part::Vectors& one : vectors) {
    if (one.resident != nullptr) items.push_back({one.key, one.resident});
  }
  return items;
}

double IvfBlocks::crowding() const {
  const std::uint32_t lists = model.model->shape().lists;
  std::vector<double> rows(lists);
  for (const LoadedRun& run : runs) {
    if (run.lists() == nullptr) continue;
    const auto* const begins = reinterpret_cast<const std::uint32_t*>(run.lists());
    for (std::uint32_t list = 0; list < lists; ++list) rows[list] += begins[list + 1] - begins[list];
  }
  double all = 0, squares = 0;
  for (const double each : rows) {
    all += each;
    squares += each * each;
  }
  return all == 0 ? 0 : squares / (all * all);
}

std::shared_ptr<const IvfBlocks> load_ivf_blocks(const View& view, std::size_t column,
                                                 const index::Trained& index,
                                                 std::shared_ptr<const CodedParts> coded,
                                                 const std::vector<bool>& wanted,
                                                 bool with_vectors, compute::Device* onto) {
  auto loaded = std::make_shared<IvfBlocks>();
  loaded->handed_to = onto;
  loaded->model = load_model_bytes(view, column, index);
  BlockReader reader;
  // What one run was made from is kept if the next one takes as much.
  std::optional<Bytes::Reuse> reuse;
  for (std::size_t i = 0; i < coded->runs.size(); ++i) {
    const CodedParts::Run& run = coded->runs[i];
    const bool more = i + 1 < coded->runs.size() && coded->runs[i + 1].rows >= run.rows;
    if (more && !reuse) reuse.emplace();
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(run.first);
    const auto end = first + static_cast<std::ptrdiff_t>(run.count);
    const bool any = std::find(first, end, true) != end;
    loaded->runs.push_back(
        any ? load_run(view, column, *coded, run, *loaded->model.model, reader, onto)
            : LoadedRun{});
    if (!more) reuse.reset();
  }
  if (with_vectors) {
    std::vector<const Part*> parts;
    for (std::size_t i = 0; i < coded->parts.size(); ++i) {
      if (wanted[i]) parts.push_back(&view.part(coded->parts[i]));
    }
    read_ahead(std::move(parts), Part::Ahead::kVectors, column);
  }
  for (std::size_t i = 0; i < coded->parts.size(); ++i) {
    const Part& part = view.part(coded->parts[i]);
    compute::Block& block = loaded->blocks.emplace_back();
    block.rows = part.rows();
    block.id = coded->parts[i];
    block.rowids = part.rowids();
    if (with_vectors) {
      loaded->vectors.push_back(wanted[i] ? part.vectors(column) : Part::Vectors{});
    }
  }
  loaded->coded = std::move(coded);
  loaded->wanted = wanted;
  return loaded;
}

IvfSet::IvfSet(compute::Device& device, std::shared_ptr<const IvfBlocks> blocks)
    : HeldSet(device),
      blocks_(std::move(blocks)),
      holds_all_(std::find(blocks_->wanted.begin(), blocks_->wanted.end(), false) ==
                 blocks_->wanted.end()) {}

std::shared_ptr<IvfSet> IvfSet::create(compute::Device& device,
                                       std::shared_ptr<const IvfBlocks> blocks,
                                       compute::Cancellation* cancellation, Status& status) {
  WARP_CHECK(blocks->handed_to == nullptr || blocks->handed_to == &device);
  const std::shared_ptr<IvfSet> set(new IvfSet(device, std::move(blocks)));
  status = set->fill(cancellation);
  return status.ok() ? set : nullptr;
}

Status IvfSet::place(const CacheKey& key, const std::shared_ptr<const ResidentVectors>& bytes,
                     const compute::Buffer*& out, Extent extent) {
  out = nullptr;
  if (bytes == nullptr) return {};
  bool in_place = false;
  std::shared_ptr<const compute::Buffer> buffer;
  Status status = Residency::instance().buffer(device(), key, bytes, &buffer, &in_place, extent);
  if (!status.ok()) return status;
  if (in_place) lasting_ = false;
  hold(key, std::move(buffer), out);
  return status;
}

void IvfSet::hold(const CacheKey& key, std::shared_ptr<const compute::Buffer> buffer,
                  const compute::Buffer*& out) {
  out = buffer.get();
  buffers_.push_back(std::move(buffer));
  add(key);
}

Status IvfSet::fill(compute::Cancellation* cancellation) {
  const LoadedModel& model = blocks_->model;
  model_ = model.model->buffers();
  Status status = place(model.centroids.key, model.centroids.values, model_.centroids);
  if (status.ok()) status = place(model.codebooks_key, model.codebooks, model_.codebooks);
  if (status.ok()) status = place(model.coarse_key, model.coarse, model_.coarse);
  const std::vector<Extent> extents = blocks_->extents(device());
  runs_.resize(blocks_->runs.size());
  for (std::size_t i = 0; status.ok() && i < runs_.size(); ++i) {
    ask(cancellation);
    const LoadedRun& run = blocks_->runs[i];
    const CacheKey& key = blocks_->coded->runs[i].key;
    if (run.buffer != nullptr) {
      hold(key, run.buffer, runs_[i]);
    } else {
      status = place(key, run.bytes, runs_[i], extents[i]);
    }
  }
  vectors_.resize(blocks_->blocks.size());
  for (std::size_t i = 0; status.ok() && i < blocks_->vectors.size(); ++i) {
    ask(cancellation);
    const Part::Vectors& vectors = blocks_->vectors[i];
    status = place(vectors.key, vectors.resident, vectors_[i]);
  }
  return status;
}

// Blocks of which the selected rows take part.
void IvfSet::cut_down(const Selection& rows, Told& out) const {
  const auto some = std::find_if(vectors_.begin(), vectors_.end(),
                                 [](const compute::Buffer* buffer) { return buffer != nullptr; });
  std::uint32_t longest = 0;
  for (const compute::Block& block : blocks_->blocks) longest = std::max(longest, block.rows);
  out.none.assign(longest / 64 + 1, 0);
  out.blocks = blocks_->blocks;
  for (std::size_t i = 0; i < out.blocks.size(); ++i) {
    compute::Block& block = out.blocks[i];
    const Selection::Rows& selected = rows.part(block.id);
    block.live_rows = blocks_->wanted[i] ? selected.count : 0;
    if (block.live_rows == 0) {
      block.live = out.none.data();
    } else if (!selected.all) {
      block.live = selected.bits.words();
    }
    // Vectors of rows that take no part are not read, whose ever they are.
    block.vectors = vectors_[i];
    if (block.vectors == nullptr && some != vectors_.end()) block.vectors = *some;
  }
}

std::shared_ptr<const IvfSet::Told> IvfSet::told_of(const Selection& rows) const {
  if (auto known = told_.find(rows.number())) return known;
  auto told = std::make_shared<Told>();
  told->key = rows.number();
  told->number = new_number();
  cut_down(rows, *told);
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const CodedParts::Run& run = blocks_->coded->runs[i];
    const auto of_run = std::span(told->blocks).subspan(run.first, run.count);
    const bool any = std::any_of(of_run.begin(), of_run.end(),
                                 [](const compute::Block& block) { return block.live_rows != 0; });
    if (runs_[i] == nullptr || !any) continue;
    told->runs.push_back({runs_[i], blocks_->runs[i].positions, blocks_->runs[i].longest, of_run});
  }
  return told_.add(std::move(told));
}

Status IvfSet::search(const Selection& rows, compute::IvfWork work,
                      compute::HitTable& best) const {
  const std::shared_ptr<const Told> told = told_of(rows);
  if (told->runs.empty()) return {};
  work.model = model_;
  work.runs = told->runs;
  work.rows = told->number;
  return device().ivf_nearest(work, best);
}

// As compute/ivf.h says which lists are probed.
Status IvfSet::lists_of(const compute::IvfWork& work, compute::HitTable& lists) const {
  compute::Block centroids;
  centroids.vectors = model_.centroids;
  centroids.rows = centroids.live_rows = model_.shape.lists;
  compute::Workload all;
  all.distance = work.distance == Distance::kInnerProduct ? work.distance : Distance::kL2;
  all.queries = {reinterpret_cast<const std::byte*>(work.model_queries), work.queries.rows,
                 model_.shape.dim, ElementType::kFloat32};
  all.blocks = {&centroids, 1};
  all.cancellation = work.cancellation;
  return model_.shape.groups == 0 ? device().nearest(all, lists) : grouped_lists_of(all, lists);
}

// Each list has one row, which is its centroid.
Status IvfSet::grouped_lists_of(const compute::Workload& all, compute::HitTable& lists) const {
  compute::IvfRun run;
  run.positions = model_.shape.lists;
  run.longest = 1;
  run.blocks = all.blocks;
  const compute::IvfLayout at = compute::IvfLayout::of(model_.shape, run.positions);
  auto bytes = std::make_shared<Bytes>(at.size);
  auto* const begins = reinterpret_cast<std::uint32_t*>(bytes->data() + at.begins);
  std::iota(begins, begins + run.positions + 1, 0u);
  std::copy_n(begins, run.positions, reinterpret_cast<std::uint32_t*>(bytes->data() + at.ordinals));
  std::shared_ptr<const compute::Buffer> resident;
  Status status = device().make_resident({bytes, bytes->data(), bytes->size()}, &resident);
  if (!status.ok()) return status;
  run.bytes = resident.get();
  compute::IvfWork search;
  search.distance = all.distance;
  search.queries = all.queries;
  search.model_queries = reinterpret_cast<const float*>(all.queries.data);
  search.model = model_;
  search.runs = {&run, 1};
  search.nprobe = static_cast<std::uint32_t>(lists.k());
  search.cancellation = all.cancellation;
  return device().ivf_nearest(search, lists);
}

void IvfSet::visit_list(const Selection& rows, std::size_t run, std::uint32_t list,
                        std::size_t query, compute::ProbedList& seen, const Visit& visit) const {
  const LoadedRun& loaded = blocks_->runs[run];
  if (loaded.bytes == nullptr) return;
  const std::byte* const bytes = loaded.bytes->block.vectors.data;
  const compute::IvfLayout at = compute::IvfLayout::of(model_.shape, loaded.positions);
  const auto* const begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* const ends = reinterpret_cast<const std::uint32_t*>(bytes + at.ends);
  const auto* const ordinals = reinterpret_cast<const std::uint32_t*>(bytes + at.ordinals);
  const CodedParts::Run& of = blocks_->coded->runs[run];
  // Ordinals ascend within a list.
  std::size_t i = of.first;
  std::uint32_t before = 0;  // rows of the run's blocks before the i-th
  seen.rows += ends[list] - begins[list];
  for (std::uint32_t p = begins[list]; p < ends[list]; ++p) {
    while (ordinals[p] - before >= blocks_->blocks[i].rows) before += blocks_->blocks[i++].rows;
    const compute::Block& block = blocks_->blocks[i];
    const std::uint32_t row = ordinals[p] - before;
    if (!blocks_->wanted[i] || !rows.part(block.id).test(row)) continue;
    ++seen.live;
    visit(query, {0, block.rowids[row], block.id, row});
  }
}

Status IvfSet::rows_of_lists(const Selection& rows, const compute::IvfWork& work,
                             const Visit& visit) const {
  compute::HitTable lists(work.queries.rows, work.nprobe);
  if (Status status = lists_of(work, lists); !status.ok()) return status;
  const auto d = [product = work.distance == Distance::kInnerProduct](const Hit& list) {
    return static_cast<float>(product ? list.distance : list.distance * list.distance);
  };
  for (std::size_t q = 0; q < lists.queries(); ++q) {
    ask(work.cancellation);
    const std::span<const Hit> nearest = lists.sorted(q);
    const std::size_t probes =
        work.steps().probes_of(nearest.size(), [&](std::size_t i) { return d(nearest[i]); });
    for (std::size_t i = 0; i < nearest.size(); ++i) {
      compute::ProbedList seen;
      for (std::size_t run = 0; i < probes && run < runs_.size(); ++run) {
        visit_list(rows, run, nearest[i].row, q, seen, visit);
      }
      if (work.probed == nullptr || i >= work.told() || !work.counts_list(i)) continue;
      compute::ProbedList& probed = work.probed_of(q)[i];
      probed.rows += seen.rows;
      probed.live += seen.live;
      probed.list = nearest[i].row;
      probed.a = d(nearest[i]);
    }
  }
  return {};
}

IvfMemo::Column& IvfMemo::column(std::size_t number) {
  if (columns_.size() <= number) columns_.resize(number + 1);
  return columns_[number];
}

std::shared_ptr<const CodedParts> IvfMemo::coded(const View& view, std::size_t number) {
  std::shared_ptr<const CodedParts>& known = column(number).coded;
  if (known == nullptr) {
    known = std::make_shared<const CodedParts>(find_coded_parts(view, number));
  }
  return known;
}

std::shared_ptr<const index::InvertedModel> IvfMemo::model(const View& view, std::size_t number,
                                                           const index::Trained& index) {
  std::weak_ptr<const index::InvertedModel>& known = column(number).model;
  if (auto model = known.lock()) return model;
  auto model = index::inverted(view.load_model(number, index));
  known = model;
  return model;
}

}  // namespace warplite::engine
