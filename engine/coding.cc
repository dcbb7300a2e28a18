#include "engine/coding.h"

#include <algorithm>
#include <string>
#include <utility>

namespace warplite::engine {
namespace {

// The codes of a segment's column.
Bytes encode(const index::Model& model, const MatrixView& vectors, const Bitmap* present,
             compute::Cancellation* cancellation) {
  Bytes codes;
  on_worker(coding_demand(model, static_cast<double>(vectors.rows), cancellation),
            [&](compute::Device& device) {
              codes = model.encode(device, vectors, present, cancellation);
            });
  return codes;
}

std::span<const std::byte> span_of(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

// Segments of a snapshot that get codes; those that do are replaced, the others shared.
class Recoder {
 public:
  Recoder(const WriteContext& context, const index::Progress& progress)
      : context_(context),
        progress_(progress),
        next_(std::make_shared<Snapshot>(*context.base)),
        parts_(context.base->segments()) {}

  storage::State& state() { return next_->state; }

  void code(std::size_t column, const index::Model& model) {
    const Stamp& stamp = next_->state.models[column];
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const SegmentPart& part = *parts_[i];
      if (part.info().vectors[column].is_null()) continue;
      if (!part.codes(column, stamp).is_null()) continue;
      check_cancelled();
      storage::SegmentInfo info = part.info();
      {
        const Part::Vectors vectors = part.vectors(column);
        // A content table may have none of the rows any more.
        if (vectors.present != nullptr && vectors.present->count() == 0) continue;
        const Bytes codes = encode(model, vectors.data, vectors.present, context_.cancellation);
        context_.store.write_codes(info, column, stamp, span_of(codes));
      }
      if (context_.options.layout.codes_only) context_.store.erase_vectors(info, column);
      context_.store.write_entry(info);
      parts_[i] = std::make_shared<SegmentPart>(context_.store, context_.options, std::move(info));
      changed_ = true;
      report(i + 1);
    }
  }

  std::shared_ptr<const Snapshot> finish(bool state_changed) {
    if (!changed_ && !state_changed) return context_.base;
    next_->list = std::make_shared<SegmentList>(std::move(parts_));
    next_->state.directory = next_->directory();
    context_.store.write_state(next_->state);
    return next_;
  }

 private:
  void check_cancelled() const {
    if (context_.cancellation != nullptr && context_.cancellation->requested()) {
      throw Error(ErrorKind::kInterrupted, "interrupted");
    }
  }
  void report(std::size_t done) const {
    if (!progress_) return;
    progress_("coding: segment " + std::to_string(done) + " of " + std::to_string(parts_.size()),
              static_cast<double>(done) / static_cast<double>(parts_.size()));
  }

  const WriteContext& context_;
  const index::Progress& progress_;
  std::shared_ptr<Snapshot> next_;
  SegmentList::Parts parts_;
  bool changed_ = false;
};

}  // namespace

const index::Model& Coder::model(std::size_t column) {
  std::shared_ptr<const index::Model>& known = models_[column];
  if (known == nullptr) {
    known = load_model(context_.store, column, state_.models[column],
                       *context_.options.vectors[column].made->trained());
  }
  return *known;
}

void Coder::code(storage::SegmentInfo& segment, std::span<const storage::RowRef> rows) {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (!codes(i)) continue;
    const storage::VectorBlock block = storage::gather_vectors(context_.options.layout, rows, i);
    const Bitmap* present = block.present.size() != 0 ? &block.present : nullptr;
    if (present != nullptr && present->count() == 0) continue;
    const Bytes codes = encode(model(i), block.vectors, present, context_.cancellation);
    context_.store.write_codes(segment, i, state_.models[i], span_of(codes));
  }
}

const Coder::Collector::Source& Coder::Collector::source(const Part& part) {
  const auto known = sources_.find(&part);
  if (known != sources_.end()) return known->second;
  Source source;
  if (!part.codes(column_, coder_.state_.models[column_]).is_null()) {
    const auto block = part.load_codes(column_);
    source = {block, {block->payload, part.rows()}};
    coder_.model(column_).check_codes(block->payload, part.rows());
  } else {
    const Part::Vectors vectors = part.vectors(column_);
    if (!vectors.all_null) {
      const auto made = std::make_shared<const Bytes>(encode(
          coder_.model(column_), vectors.data, vectors.present, coder_.context_.cancellation));
      source = {made, {span_of(*made), part.rows()}};
    }
  }
  return sources_.emplace(&part, std::move(source)).first->second;
}

void Coder::Collector::add(const Part& part, std::uint32_t row) {
  const Source& from = source(part);
  rows_.push_back({from.owner == nullptr ? nullptr : &from.block, row});
}

void Coder::Collector::write(storage::SegmentInfo& segment, std::span<const std::uint32_t> order) {
  const bool none = std::all_of(rows_.begin(), rows_.end(),
                                [](const index::CodedRow& row) { return row.block == nullptr; });
  if (none) return;
  std::vector<index::CodedRow> rows;
  rows.reserve(order.size());
  for (const std::uint32_t number : order) rows.push_back(rows_[number]);
  const Bytes codes = coder_.model(column_).inverted()->gather(rows);
  coder_.context_.store.write_codes(segment, column_, coder_.state_.models[column_],
                                    span_of(codes));
}

std::shared_ptr<const Snapshot> install_models(const WriteContext& context,
                                               std::span<const NewModel> models,
                                               const index::Progress& progress) {
  for (const auto& view : context.readers) view->lose_models();
  if (context.options.layout.codes_only) {
    std::vector<std::int64_t> all;
    for (const auto& segment : context.base->segments()) all.push_back(segment->info().id);
    keep_for(context.readers, all, Part::Loss::kEverything);
  }
  Recoder recoder(context, progress);
  for (const NewModel& one : models) {
    context.store.write_model(recoder.state(), one.column, one.model->bytes());
    recoder.code(one.column, *one.model);
  }
  return recoder.finish(true);
}

std::shared_ptr<const Snapshot> code_missing(const WriteContext& context) {
  const index::Progress silent;
  Recoder recoder(context, silent);
  const std::vector<Stamp>& models = context.base->state.models;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const index::Trained* index = context.options.vectors[i].made->trained();
    if (models[i].is_null() || index == nullptr) continue;
    recoder.code(i, *load_model(context.store, i, models[i], *index));
  }
  return recoder.finish(false);
}

}  // namespace warplite::engine
