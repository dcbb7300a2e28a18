#include "engine/training/coding.h"

#include <algorithm>
#include <list>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/process/interruption.h"
#include "engine/residency/common_cancellation.h"

namespace warplite::engine {
namespace {

std::span<const std::byte> span_of(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

bool lacks_codes(const SegmentPart& part, std::size_t column, const Stamp& model) {
  return !part.info().vectors[column].is_null() && part.codes(column, model).is_null();
}

// Segments of a snapshot that get codes; those that do are replaced, the others shared. Codes are
// made for some segments, then written at once with everything that names them: between two such
// writes the tables are whole, and the rest may wait.
class Recoder {
 public:
  Recoder(const WriteContext& context, OnInterrupt on_interrupt, const index::Progress& progress)
      : context_(context),
        on_interrupt_(on_interrupt),
        progress_(progress),
        next_(std::make_shared<Snapshot>(*context.base)),
        parts_(context.base->segments()) {}

  void install(std::span<const NewModel> models) {
    for (const NewModel& one : models) {
      const Stamp before = one.same_codes ? next_->state.models[one.column] : Stamp{};
      context_.store.write_model(next_->state, one.column, one.model->bytes(), one.origin);
      if (one.same_codes) keep_codes(one.column, before);
    }
    write();
  }

  // While some segments are coded, vectors of the next ones are read.
  void code(std::size_t column, std::shared_ptr<const index::Model> model) {
    const ColumnModel by =
        column_model(context_.store, column, next_->state.models[column],
                     *context_.options.vectors[column].made, std::move(model));
    std::list<Begun> begun;
    for (std::size_t i = 0; i < parts_.size() && !waits_; ++i) {
      if (!lacks_codes(*parts_[i], column, next_->state.models[column])) continue;
      begin(i, column, by, begun);
      if (begun.size() > segments_at_once()) take_first(column, begun);
    }
    while (!begun.empty() && !waits_) take_first(column, begun);
  }

  CodingResult finish() {
    if (!waits_ && !coded_.empty()) write();
    if (!changed_) return {context_.base, !waits_};
    next_->list = std::make_shared<SegmentList>(std::move(parts_));
    return {next_, !waits_};
  }

 private:
  struct Begun {
    Begun(std::size_t number, const Part::Vectors& of_part, const ColumnModel& by)
        : part(number), vectors(of_part), codes([this, &by](compute::Cancellation* cancellation) {
            SegmentCodes made;
            made.push_back(encode(by, vectors.data, vectors.present, part, cancellation));
            return made;
          }) {}

    const std::size_t part;
    const Part::Vectors vectors;
    Encoding codes;  // last: it ends before what it uses
  };
  struct Coded {
    std::size_t part;
    std::size_t column;
    Bytes codes;
  };

  // Two for each device: the host does its part of one of them.
  static std::size_t segments_at_once() {
    if (!encodes_meanwhile()) return 0;
    return 2 * std::max<std::size_t>(1, compute::Registry::instance().accelerators().size());
  }

  // Codes by the model that had the stamp `before` are by the one that replaced it.
  void keep_codes(std::size_t column, const Stamp& before) {
    for (auto& part : parts_) {
      storage::SegmentInfo info = part->info();
      if (column >= info.codes.size() || info.codes[column].model != before) continue;
      info.codes[column].model = next_->state.models[column];
      context_.store.write_entry(info);
      part = std::make_shared<SegmentPart>(context_.store, context_.options, std::move(info));
    }
  }

  void begin(std::size_t i, std::size_t column, const ColumnModel& by, std::list<Begun>& begun) {
    or_wait([&] {
      ask(context_.cancellation);
      const std::optional<Part::Vectors> read = vectors_of(i, column);
      if (!read) return;
      const Part::Vectors& vectors = *read;
      // A content table may have none of the rows any more.
      if (vectors.present != nullptr && vectors.present->count() == 0) return;
      begun.emplace_back(i, vectors, by);
    });
  }

  // Nothing of a segment that is damaged, where the rest is to go on: searches say so.
  std::optional<Part::Vectors> vectors_of(std::size_t i, std::size_t column) {
    try {
      return parts_[i]->vectors(column);
    } catch (const Error& error) {
      if (on_interrupt_ == OnInterrupt::kFail || error.kind() != ErrorKind::kCorrupt) throw;
    }
    return std::nullopt;
  }

  void take_first(std::size_t column, std::list<Begun>& begun) {
    Begun& first = begun.front();
    or_wait([&] {
      Bytes codes = std::move(first.codes.take(context_.cancellation).front());
      bytes_ += codes.size();
      coded_.push_back({first.part, column, std::move(codes)});
    });
    if (waits_) return;
    const std::size_t done = first.part + 1;
    begun.pop_front();
    constexpr std::size_t kBytesAtOnce = std::size_t{8} << 20;
    if (bytes_ >= kBytesAtOnce) write();
    report(done);
  }

  // Does it, unless the rest waits.
  template <typename Body>
  void or_wait(const Body& body) {
    try {
      return body();
    } catch (const Error& error) {
      if (!may_wait(error.kind())) throw;
    } catch (const std::bad_alloc&) {
      if (on_interrupt_ == OnInterrupt::kFail) throw;
    }
    waits_ = true;
  }

  bool may_wait(ErrorKind kind) const {
    return on_interrupt_ == OnInterrupt::kWait &&
           (kind == ErrorKind::kInterrupted || kind == ErrorKind::kNoMemory);
  }

  // Asks in between, and goes on: all of it names each other. The rest is what waits, or fails.
  void write() {
    struct Later {
      compute::Cancellation* const cancellation;
      bool said = false;
      bool requested() {
        said = said || (cancellation != nullptr && cancellation->requested());
        return false;
      }
    } later{context_.cancellation};
    {
      const Interruptible scope(&later);
      write_now();
    }
    if (!later.said) return;
    if (on_interrupt_ == OnInterrupt::kFail) throw Error(ErrorKind::kInterrupted, "interrupted");
    waits_ = true;
  }

  void write_now() {
    if (context_.options.layout.codes_only) keep_vectors();
    for (Coded& one : coded_) {
      storage::SegmentInfo info = parts_[one.part]->info();
      context_.store.write_codes(info, one.column, next_->state.models[one.column],
                                 span_of(one.codes));
      if (context_.options.layout.codes_only) context_.store.erase_vectors(info, one.column);
      context_.store.write_entry(info);
      parts_[one.part] =
          std::make_shared<SegmentPart>(context_.store, context_.options, std::move(info));
    }
    coded_.clear();
    bytes_ = 0;
    next_->state.directory = {};
    for (const auto& part : parts_) next_->state.directory.add(part->digest());
    context_.store.write_state(next_->state);
    changed_ = true;
  }

  // Views in use may read them.
  void keep_vectors() const {
    std::vector<std::int64_t> segments;
    for (const Coded& one : coded_) segments.push_back(parts_[one.part]->info().id);
    keep_for(context_.readers, segments, Part::Loss::kEverything);
  }

  void report(std::size_t done) const {
    if (!progress_) return;
    progress_("coding: segment " + std::to_string(done) + " of " + std::to_string(parts_.size()),
              static_cast<double>(done) / static_cast<double>(parts_.size()));
  }

  const WriteContext& context_;
  const OnInterrupt on_interrupt_;
  const index::Progress& progress_;
  std::shared_ptr<Snapshot> next_;
  SegmentList::Parts parts_;
  std::vector<Coded> coded_;  // to be written
  std::size_t bytes_ = 0;     // of their codes
  bool waits_ = false;        // the rest is for later
  bool changed_ = false;
};

}  // namespace

const ColumnModel& Coder::known(std::size_t column) {
  ColumnModel& known = models_[column];
  if (known.model == nullptr) {
    const index::Index& index = *context_.options.vectors[column].made;
    const Stamp& stamp = state_.models[column];
    known = column_model(context_.store, column, stamp, index,
                         load_model(context_.store, column, stamp, *index.trained()));
  }
  return known;
}

Bytes Coder::encode(std::size_t column, const MatrixView& vectors, const Bitmap* present) {
  return engine::encode(known(column), vectors, present, 0, context_.cancellation);
}

const ColumnModels& Coder::models() {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (codes(i)) known(i);
  }
  return models_;
}

void Coder::code(storage::SegmentInfo& segment, std::span<const storage::RowRef> rows) {
  write(segment, encode_rows(context_.options.layout, models(), rows, 0, context_.cancellation));
}

void Coder::write(storage::SegmentInfo& segment, const SegmentCodes& codes) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i].size() == 0) continue;
    context_.store.write_codes(segment, i, state_.models[i], span_of(codes[i]));
  }
}

// Codes that there are; null: there are none, or damaged ones where there are vectors, too.
std::shared_ptr<const storage::OpaqueBlock> Coder::Collector::codes_of(const Part& part) const {
  if (part.codes(column_, coder_.state_.models[column_]).is_null()) return nullptr;
  try {
    auto block = part.load_codes(column_);
    coder_.model(column_).check_codes(block->payload, part.rows());
    return block;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt || part.decodes(column_)) throw;
  }
  return nullptr;
}

const Coder::Collector::Source& Coder::Collector::source(const Part& part) {
  const auto known = sources_.find(&part);
  if (known != sources_.end()) return known->second;
  Source source;
  if (const auto block = codes_of(part); block != nullptr) {
    source = {block, {block->payload, part.rows()}};
  } else {
    const Part::Vectors vectors = part.vectors(column_);
    if (!vectors.all_null) {
      const auto made = std::make_shared<const Bytes>(
          coder_.encode(column_, vectors.data, vectors.present));
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
  const bool all_null = segment.vectors[column_].is_null();
  if (all_null && !coder_.context_.options.layout.codes_only) return;
  const bool none = std::all_of(rows_.begin(), rows_.end(),
                                [](const index::CodedRow& row) { return row.block == nullptr; });
  if (none) return;
  std::vector<index::CodedRow> rows;
  rows.reserve(order.size());
  for (const std::uint32_t number : order) rows.push_back(rows_[number]);
  const Bytes codes = coder_.model(column_).gather(rows);
  coder_.context_.store.write_codes(segment, column_, coder_.state_.models[column_],
                                    span_of(codes));
}

CodingResult install_models(const WriteContext& context, std::span<const NewModel> models,
                            OnInterrupt on_interrupt, const index::Progress& progress) {
  for (const auto& view : context.readers) view->lose_models();
  Recoder recoder(context, on_interrupt, progress);
  recoder.install(models);
  for (const NewModel& one : models) recoder.code(one.column, one.model);
  return recoder.finish();
}

bool is_trained(const TableOptions& options, const storage::State& state) {
  for (std::size_t i = 0; i < state.models.size(); ++i) {
    const index::Trained* const index = options.vectors[i].made->trained();
    if (!state.models[i].is_null() && index != nullptr && index->inverted() != nullptr) return true;
  }
  return false;
}

bool all_coded(const Snapshot& snapshot, const TableOptions& options) {
  const std::vector<Stamp>& models = snapshot.state.models;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].is_null() || options.vectors[i].made->trained() == nullptr) continue;
    for (const auto& segment : snapshot.segments()) {
      if (lacks_codes(*segment, i, models[i])) return false;
    }
  }
  return true;
}

CodingResult code_missing(const WriteContext& context, OnInterrupt on_interrupt,
                          const index::Progress& progress) {
  Recoder recoder(context, on_interrupt, progress);
  const std::vector<Stamp>& models = context.base->state.models;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const index::Trained* index = context.options.vectors[i].made->trained();
    if (models[i].is_null() || index == nullptr) continue;
    recoder.code(i, load_model(context.store, i, models[i], *index));
  }
  return recoder.finish();
}

}  // namespace warplite::engine
