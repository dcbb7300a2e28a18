// What a table learns: when, from which rows, and whether that still suits them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>
#include <utility>

#include "engine/collection_impl.h"
#include "engine/training/training.h"
#include "index/recall/calibration.h"

namespace warplite::engine {
namespace {

// Parts of the rows that are gone, and halves of those that are new, when recall is measured again:
// at the end of a transaction, so that a table measures whenever it has grown by its own size, and
// when somebody asks.
constexpr double kChangedBetweenCommits = 0.25;
constexpr double kChangedBetweenOptimizes = 1.0 / 64;
// The part that is new when it is asked whether these rows are unlike the others, for then recall is
// measured again, too: the first time since the index learnt, and after that, since rows may come
// sorted, each unlike all before it. Where 12,000 rows of 64 or 128 dimensions come to 60,000, to
// insert them takes 60 ms of a core, to ask 1 to 10, and to measure 2,300 to 3,200: as long as to learn.
constexpr double kNewUnlikeLearnt = 1.0 / 32;
constexpr double kNewUnlikeMeasured = 1.0 / 8;

std::string hundredths(float part) {
  char text[8];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(part));
  return text;
}

}  // namespace

// As what is said in the host's log begins.
std::string Collection::Impl::subject(std::size_t column) const {
  return "warp: " + store.schema() + "." + store.table() + "." + options.vectors[column].name + ": ";
}

// Learns, and says in the host's log that it does and how long it took.
NewModel Collection::Impl::learn_column(std::size_t column, std::uint32_t seconds,
                                        const index::Progress& progress) {
  using Clock = std::chrono::steady_clock;
  const index::Trained& index = *options.vectors[column].made->trained();
  const Snapshot& base = *transaction.base();
  const std::string subject = this->subject(column);
  const std::uint64_t rows = sealed_rows(base, column) + base.tail.live;
  const std::string plan = index.plan(rows);
  store.notice(subject + "training on " + std::to_string(rows) + " rows" +
               (plan.empty() ? "" : ", " + plan));
  const Clock::time_point begin = Clock::now();
  const auto took = [&] {
    const std::chrono::duration<double> time = Clock::now() - begin;
    return std::to_string(std::lround(time.count() * 1000)) + " ms";
  };
  try {
    NewModel model{column, learn(base, options, column, index, seconds, cancellation, progress)};
    store.notice(subject + "trained in " + took());
    return model;
  } catch (const std::exception& error) {
    store.notice(subject + "training ended after " + took() + ": " + error.what());
    throw;
  }
}

// Returns what the column's index learns from the current base; nothing when there is too little
// for it.
std::optional<NewModel> Collection::Impl::try_to_learn(std::size_t column, std::uint32_t seconds,
                                                       const index::Progress& progress) {
  try {
    return learn_column(column, seconds, progress);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid && error.kind() != ErrorKind::kNoMemory) throw;
  } catch (const std::bad_alloc&) {
  }
  return std::nullopt;
}

// The same, within the limit of time there is.
std::optional<NewModel> Collection::Impl::learn_in_time(std::size_t column,
                                                        const index::Progress& progress) {
  const std::uint32_t seconds = training_limit();
  TimeLimit limit(cancellation, seconds);
  const Serving limited(cancellation, &limit);
  try {
    return try_to_learn(column, seconds, progress);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted || !limit.passed()) throw;
  }
  remember_late(*transaction.base(), column);
  store.notice(subject(column) + "it took longer than training_seconds, " +
               std::to_string(seconds) + "; INSERT INTO " + store.table() + "(" + store.table() +
               ") VALUES('train') has no limit");
  return std::nullopt;
}

// False: some of the coding waits.
bool Collection::Impl::install(const std::vector<NewModel>& models, OnInterrupt on_interrupt,
                               const index::Progress& progress) {
  bool complete = false;
  write_tables([&](const WriteContext& context) {
    CodingResult result = install_models(context, models, on_interrupt, progress);
    complete = result.complete;
    return FlushResult{std::move(result.snapshot), Pending(options.layout)};
  });
  return complete;
}

// Gives codes to the segments that a flush left without, or an interrupt. False: some of it waits.
bool Collection::Impl::code_segments(OnInterrupt on_interrupt, const index::Progress& progress) {
  if (all_coded(*transaction.base(), options)) return true;
  bool complete = false;
  write_tables([&](const WriteContext& context) {
    CodingResult result = code_missing(context, on_interrupt, progress);
    complete = result.complete;
    return FlushResult{std::move(result.snapshot), Pending(options.layout)};
  });
  return complete;
}

// REQUIRES: the column has a model.
storage::ModelOrigin Collection::Impl::origin(std::size_t column) {
  return store.model_origin(transaction.base()->state.models[column], column);
}

// Says whether vectors of the column went for codes: it cannot learn again.
bool Collection::Impl::gone(std::size_t column) const {
  const SegmentList::Parts& segments = transaction.base()->segments();
  return std::any_of(segments.begin(), segments.end(),
                     [&](const auto& segment) { return segment->decodes(column); });
}

// The model there is; null: there is none that can be measured.
std::shared_ptr<const index::InvertedModel> Collection::Impl::measurable(std::size_t column) {
  const index::Trained* index = options.vectors[column].made->trained();
  const std::vector<Stamp>& models = transaction.base()->state.models;
  if (index == nullptr || index->inverted() == nullptr || gone(column)) return nullptr;
  if (column >= models.size() || models[column].is_null()) return nullptr;
  try {
    return index::inverted(load_model(store, column, models[column], *index));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    return nullptr;  // searches say so
  }
}

// Says whether so large a part of the rows that the model's recall was measured with has gone, or
// twice that part of the rows is newer, that it is to be measured again: most tables grow by rows
// like those before. Fewer do where they are unlike those.
bool Collection::Impl::recall_is_dated(std::size_t column, const index::InvertedModel& model,
                                       double changed) {
  const Snapshot& base = *transaction.base();
  const index::Calibration* const known = model.calibration();
  const Change change =
      change_since(base, column, known == nullptr ? index::TableMoment() : known->table);
  const index::InvertedIndex& index = *options.vectors[column].made->trained()->inverted();
  if (index.measured_rows(change.rows) == 0) return false;
  const auto is_part = [&](std::uint64_t rows, double part) {
    return static_cast<double>(rows) >= part * static_cast<double>(change.rows);
  };
  if (is_part(change.newer, 2 * changed) || is_part(change.gone, changed)) return true;
  compared_rows.resize(options.vectors.size());
  std::uint64_t& compared = compared_rows[column];
  if (compared > change.newer) compared = 0;  // it was measured since
  const bool learnt = known != nullptr && known->table.rows == model.table_rows();
  if (!is_part(change.newer - compared, learnt ? kNewUnlikeLearnt : kNewUnlikeMeasured)) return false;
  compared = change.newer;
  return newer_drifted(base, options, column, model, cancellation);
}

// Measures what a model finds of the rows there are, once such a part of them has changed; says in
// the host's log when that is less than it was.
std::optional<NewModel> Collection::Impl::measure_column(std::size_t column, double changed,
                                                         const index::Progress& progress) {
  const auto model = measurable(column);
  if (model == nullptr) return std::nullopt;
  const Snapshot& base = *transaction.base();
  const index::InvertedIndex& index = *options.vectors[column].made->trained()->inverted();
  if (!recall_is_dated(column, *model, changed)) return std::nullopt;
  auto measured = measure(base, options, column, index, *model, cancellation, progress);
  if (measured == nullptr) return std::nullopt;
  const index::Calibration& now = *measured->calibration();
  if (now.fell()) {
    store.notice(subject(column) + "a search that found " + hundredths(now.trained.part) +
                 " of the nearest 10 when the index learnt finds " + hundredths(now.present.part) +
                 " of them now; INSERT INTO " + store.table() + "(" +
                 store.table() + ") VALUES('optimize') has it learn again");
  }
  return NewModel{column, std::move(measured), true, origin(column)};
}

// The same, within the limit of time there is.
std::optional<NewModel> Collection::Impl::measure_in_time(std::size_t column, double changed,
                                                          const index::Progress& progress) {
  TimeLimit limit(cancellation, training_limit());
  const Serving limited(cancellation, &limit);
  try {
    return measure_column(column, changed, progress);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted || !limit.passed()) throw;
  }
  remember_late(*transaction.base(), column);
  return std::nullopt;
}

// What the model there is gives way to: one that learns from the rows there are now, where its
// recall fell, or itself with what was measured. Where it is known that it fell, it learns at once: by
// now segments were merged, and it is not to be seen which rows are newer.
std::optional<NewModel> Collection::Impl::restore_recall(std::size_t column,
                                                         const index::Progress& progress) {
  const auto fell = [](const index::InvertedModel& model) {
    return model.calibration() != nullptr && model.calibration()->fell();
  };
  const auto before = measurable(column);
  if (before == nullptr) return std::nullopt;
  const bool fell_before = fell(*before);
  const bool may_learn =
      training_limit() != 0 && origin(column) != storage::ModelOrigin::kGiven;
  if (may_learn && fell_before) {
    if (auto learnt = learn_in_time(column, progress)) return learnt;
  }
  auto measured = measure_column(column, kChangedBetweenOptimizes, progress);
  if (!may_learn || fell_before || !measured || !fell(*index::inverted(measured->model))) {
    return measured;
  }
  auto learnt = learn_in_time(column, progress);
  return learnt ? learnt : measured;
}

// Says whether the rows that are sealed ask for a model, or for another one.
bool Collection::Impl::wants_model(std::size_t column) {
  const index::Trained* index = options.vectors[column].made->trained();
  const std::vector<Stamp>& models = transaction.base()->state.models;
  if (index == nullptr || gone(column)) return false;
  const std::uint64_t rows = sealed_rows(*transaction.base(), column);
  if (rows / 2 < trained_in_vain[column]) return false;
  if (column >= models.size() || models[column].is_null()) {
    return index->wants_training(rows, nullptr);
  }
  try {
    const auto model = load_model(store, column, models[column], *index);
    if (!index->wants_training(rows, model.get())) return false;
    if (origin(column) == storage::ModelOrigin::kLearnt) return true;
    trained_in_vain[column] = rows;  // to be asked again when there are twice as many
    return false;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    return false;  // searches say so
  }
}

// What the body returns; nothing where rows that are there cannot be read: others need not wait for
// that. A line in the host's log says so, and it is not tried again until there are twice as many.
template <typename Body>
std::optional<NewModel> Collection::Impl::unless_damaged(std::size_t column, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    remember_late(*transaction.base(), column);
    store.notice(subject(column) + "nothing is learnt or measured before there are twice as many rows: " +
                 error.what());
  }
  return std::nullopt;
}

// Runs at the end of a transaction that made new segments: tail rows are not coded. Rows do not
// need it: what an interrupt ends goes on at the end of the next transaction that writes.
void Collection::Impl::train_when_worthwhile(const index::Progress& progress) {
  const std::int64_t next = transaction.base()->state.next_segment;
  if (considered_segment == next) return;
  trained_in_vain.resize(options.vectors.size());
  std::vector<NewModel> models;
  try {
    if (!values_are_there(options)) return;
    for (std::size_t i = 0; i < options.vectors.size(); ++i) {
      if (training_limit() == 0 || was_late(*transaction.base(), i)) continue;
      const bool learns = wants_model(i);
      auto model = unless_damaged(i, [&] {
        return learns ? learn_in_time(i, progress)
                      : measure_in_time(i, kChangedBetweenCommits, progress);
      });
      if (learns) trained_in_vain[i] = model ? 0 : sealed_rows(*transaction.base(), i);
      if (model) models.push_back(std::move(*model));
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupted) return;
    throw;
  }
  bool complete = models.empty() || install(models, OnInterrupt::kWait, progress);
  complete = complete && code_segments(OnInterrupt::kWait, progress);
  if (!complete) return;
  merge_small_segments();
  considered_segment = transaction.base()->state.next_segment;
}

// Rows that were there when recall was measured last stay in segments of their own: by their numbers it is
// known which are newer. It takes little time, and is not interrupted: it would cost the transaction.
void Collection::Impl::merge_small_segments() {
  if (keeps_small_segments(options.layout) || !is_trained(options, transaction.base()->state)) return;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < options.vectors.size(); ++i) {
    const auto model = measurable(i);
    if (model == nullptr || model->calibration() == nullptr) continue;
    first = std::max(first, model->calibration()->table.next_segment);
  }
  const Serving uninterrupted(cancellation, nullptr);
  write_tables([&](const WriteContext& context) {
    return FlushResult{merge_small(context, first), Pending(options.layout)};
  });
}

// Trains again after a rewrite that left segments without codes. Damage of an old model does not
// matter.
void Collection::Impl::train_again(const index::Progress& progress) {
  std::vector<NewModel> models;
  const storage::State& state = transaction.base()->state;
  for (std::size_t i = 0; i < options.vectors.size(); ++i) {
    const index::Trained* index = options.vectors[i].made->trained();
    if (index == nullptr) continue;
    const bool known = i < state.models.size() && !state.models[i].is_null();
    if (!known && !index->wants_training(sealed_rows(*transaction.base(), i), nullptr)) continue;
    if (auto model = try_to_learn(i, 0, progress)) models.push_back(std::move(*model));
  }
  if (!models.empty()) install(models, OnInterrupt::kFail, progress);
  code_segments(OnInterrupt::kFail, progress);
}

// Trains what the end of a transaction would, or had no time for, and what finds less than it did.
void Collection::Impl::train_what_waits(const index::Progress& progress) {
  if (!values_are_there(options)) return;
  trained_in_vain.assign(options.vectors.size(), 0);
  std::vector<NewModel> models;
  for (std::size_t i = 0; i < options.vectors.size(); ++i) {
    auto model = wants_model(i) ? try_to_learn(i, 0, progress) : restore_recall(i, progress);
    if (model) models.push_back(std::move(*model));
  }
  if (!models.empty()) install(models, OnInterrupt::kFail, progress);
  code_segments(OnInterrupt::kFail, progress);
}

// Forgets what was found out about segments that exist no longer.
void Collection::Impl::forget_thoughts() noexcept {
  considered_segment = 0;
  trained_in_vain.clear();
  compared_rows.clear();
}

void Collection::train(compute::Cancellation* cancellation, const index::Progress& progress) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  impl_->look_again();
  impl_->flush_pending(FlushScope::kAll);
  std::vector<NewModel> models;
  std::optional<Error> failure;  // of the first column that cannot learn
  bool gone = false;
  for (std::size_t i = 0; i < impl_->options.vectors.size(); ++i) {
    const index::Trained* index = impl_->options.vectors[i].made->trained();
    if (index == nullptr) continue;
    if (impl_->gone(i)) {
      gone = true;
      continue;
    }
    try {
      models.push_back(impl_->learn_column(i, 0, progress));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalid) throw;
      if (failure) continue;
      failure.emplace(ErrorKind::kInvalid,
                      table() + "." + impl_->options.vectors[i].name + ": " + error.what());
    }
  }
  if (models.empty() && failure) throw *failure;
  if (models.empty() && !gone) {
    throw Error(ErrorKind::kInvalid, table() + ": no column has an index that is trained");
  }
  impl_->rewrite_segments(RewriteScope::kTail);
  if (!models.empty()) impl_->install(models, OnInterrupt::kFail, progress);
  impl_->code_segments(OnInterrupt::kFail, progress);
}

void Collection::use_model(std::size_t column, std::span<const std::byte> bytes,
                           compute::Cancellation* cancellation, const index::Progress& progress) {
  const Serving serving(impl_->cancellation, cancellation);
  impl_->prepare_write();
  const std::string name = table() + "." + impl_->options.vectors[column].name;
  const index::Trained* index = impl_->options.vectors[column].made->trained();
  if (index == nullptr) {
    throw Error(ErrorKind::kInvalid, name + " takes no model: its index does not learn");
  }
  const std::vector<Stamp>& models = impl_->transaction.base()->state.models;
  if (column < models.size() && !models[column].is_null()) {
    throw Error(ErrorKind::kInvalid, name + " takes no model: its index has one already");
  }
  NewModel given{column, nullptr, false, storage::ModelOrigin::kGiven};
  try {
    given.model = index->open(bytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kInvalid,
                name + " takes no such model; it must be whole, and of a column declared alike: " +
                    error.what());
  }
  impl_->look_again();
  impl_->flush_pending(FlushScope::kAll);
  impl_->install({given}, OnInterrupt::kFail, progress);
}

}  // namespace warplite::engine
