#include "index/ivf/ivf.h"

#include <algorithm>
#include <cmath>

#include "index/ivf/model.h"
#include "index/ivf/options.h"
#include "index/ivf/training.h"
#include "index/trained.h"

namespace warplite::index {
namespace {

// A table without a model learns by itself from so many rows on.
constexpr std::uint64_t kRowsPerGivenList = 64;
constexpr std::uint64_t kLeastRows = 1024;
// Of 50,000 the newest may not be sealed.
constexpr std::uint64_t kRowsUnasked = 40000;
// Where codes need nothing but lists, and the recall that is asked for says how far to look, fewer rows do, if their
// vectors are long: it learns as soon as to compare them all takes a core a fifth of a millisecond (Zen 3). Fewer than
// these fill few lists, and the newest so many are compared in any case.
constexpr std::uint64_t kBytesUnasked = kRowsUnasked * 128;
constexpr std::uint64_t kFewestUnasked = 8192;
// The same where it can learn but once, since the vectors go.
constexpr std::uint64_t kRowsUnaskedOnce = 1000000;
// Growth after which lists of our choosing are too few: a quarter of those wanted. Of 150,000 rows of 128 dimensions, whose
// lists were learnt from 10,000, a query takes 161 us at a recall of 0.95, and 139 where all were learnt from.
constexpr std::uint64_t kGrowth = 16;
constexpr std::uint32_t kLeastProbes = 8;
constexpr double kProbesOfRoot = 1.2;  // of √lists
// The part of training that learns, about; then recall is measured.
constexpr double kLearning = 0.5;

class IvfIndex : public InvertedIndex {
 public:
  IvfIndex(const IvfOptions& options, const ColumnShape& column)
      : options_(options), column_(column) {}

  std::size_t sample_rows(std::uint64_t rows) const override {
    return training_rows(options_, rows);
  }

  bool wants_training(std::uint64_t rows, const Model* model) const override {
    if (model != nullptr) {
      return !column_.codes_only && options_.lists == 0 &&
             rows / kGrowth >= std::max<std::uint64_t>(1, model->table_rows());
    }
    if (options_.lists == 0) return rows >= rows_unasked();
    return rows >= std::max(kRowsPerGivenList * options_.lists, kLeastRows);
  }

  std::shared_ptr<const Model> train(const compute::Devices& devices, const MatrixView& sample,
                                     const TableMoment& table,
                                     compute::Cancellation* cancellation,
                                     const Progress& progress) const override {
    const TrainingTask task(devices, cancellation, progress);
    const IvfParts parts =
        train_ivf(task.part(0, kLearning), options_, column_, sample, table.rows);
    const auto model = make_ivf_model(column_, parts);
    Calibration calibration = calibrate(task.part(kLearning, 1), *model, column_.distance, sample, table.rows);
    calibration.table = table;
    calibration.usual_nprobe = usual_nprobe(*model, calibration, table.rows);
    calibration.trained = calibration.present = usual(*model, calibration, table.rows);
    return make_ivf_model(column_, parts, calibration);
  }

  std::size_t measured_rows(std::uint64_t rows) const override {
    const std::size_t most = calibration_rows(bytes_per_vector(column_.type, column_.dim));
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(rows, most));
    return held_rows(wanted) == 0 ? 0 : wanted;
  }

  std::shared_ptr<const InvertedModel> measure(const compute::Devices& devices,
                                               const InvertedModel& model,
                                               const MatrixView& sample, std::size_t newer,
                                               const TableMoment& table,
                                               compute::Cancellation* cancellation,
                                               const Progress& progress) const override {
    if (held_rows(sample.rows) == 0) return nullptr;
    const TrainingTask task(devices, cancellation, progress);
    Calibration calibration =
        calibrate(task, model, column_.distance, sample, table.rows, newer);
    calibration.table = table;
    Calibration then = model.calibration() != nullptr ? *model.calibration() : Calibration();
    if (then.usual_nprobe == 0) {  // it does not say when it was measured: when the model was trained
      then.usual_nprobe = usual_nprobe(model, then, model.table_rows());
      then.trained = usual(model, then, model.table_rows());
    }
    calibration.usual_nprobe = then.usual_nprobe;
    calibration.trained = then.trained;
    calibration.present = usual(model, calibration, table.rows);
    return with_calibration(model, calibration);
  }

  std::string plan(std::uint64_t rows) const override {
    return std::to_string(lists_for(options_, rows)) + " lists";
  }

  // k-means by groups compares each row of the sample with the lists of about as many groups as it
  // makes iterations in its own (index/clustering/grouped_kmeans.cc).
  double training_bytes(std::size_t sample_rows) const override {
    constexpr double kGroups = 60;
    const auto rows = static_cast<double>(sample_rows);
    const double lists = lists_for(options_, sample_rows);
    return rows * kGroups * std::sqrt(lists) * column_.dim * sizeof(float);
  }

  std::shared_ptr<const Model> open(std::span<const std::byte> bytes) const override {
    return open_ivf_model(bytes, column_, options_);
  }

  std::uint32_t default_nprobe(const InvertedModel& model) const override {
    const std::uint32_t lists = model.shape().lists;
    if (options_.nprobe != 0) return std::min(options_.nprobe, lists);
    const auto some = static_cast<std::uint32_t>(std::lround(kProbesOfRoot * std::sqrt(lists)));
    return std::min(std::max(kLeastProbes, some), lists);
  }

  std::size_t default_refine() const override { return options_.refine; }
  std::optional<double> default_recall() const override { return options_.recall; }

 private:
  std::uint64_t rows_unasked() const {
    if (column_.codes_only) return kRowsUnaskedOnce;
    if (options_.planes == 0 || !options_.recall) return kRowsUnasked;
    const std::uint64_t rows = kBytesUnasked / bytes_per_vector(column_.type, column_.dim);
    return std::clamp(rows, kFewestUnasked, kRowsUnasked);
  }

  // How the usual search looks, by which models are compared with themselves: as the table says;
  // else far enough for the recall that most ask for, since beyond it lists hold nearly all in any
  // model.
  std::uint32_t usual_nprobe(const InvertedModel& model, Calibration calibration,
                             std::uint64_t rows) const {
    constexpr float kUsualRecall = 0.95f;
    if (options_.nprobe == 0) {
      for (const std::uint32_t nprobe : calibration.lists.looks) {
        calibration.usual_nprobe = nprobe;
        if (usual(model, calibration, rows).part >= kUsualRecall) return nprobe;
      }
    }
    return default_nprobe(model);
  }

  // What it finds of the nearest 10.
  Found usual(const InvertedModel& model, const Calibration& calibration,
              std::uint64_t rows) const {
    if (calibration.lists.shares.empty()) return {0, 1};
    constexpr std::size_t kNearest = 10;
    const double most = static_cast<double>(calibration.lists.shares.back());
    const double share = std::min(static_cast<double>(kNearest) / static_cast<double>(rows), most);
    const Found lists = calibration.lists.at(share, calibration.usual_nprobe);
    if (model.shape().m == 0) return lists;
    const Expected both(lists, calibration.by_codes(share, kNearest, options_.refine));
    return {static_cast<float>(both.recall), static_cast<float>(both.error)};
  }

  const IvfOptions options_;
  const ColumnShape column_;
};

std::unique_ptr<Index> make_ivfflat(const Spec& spec, const ColumnShape& column) {
  return std::make_unique<IvfIndex>(parse_ivfflat(spec, column), column);
}

std::unique_ptr<Index> make_ivfpq(const Spec& spec, const ColumnShape& column) {
  return std::make_unique<IvfIndex>(parse_ivfpq(spec, column), column);
}

std::unique_ptr<Index> make_ivfrabitq(const Spec& spec, const ColumnShape& column) {
  return std::make_unique<IvfIndex>(parse_ivfrabitq(spec, column), column);
}

std::unique_ptr<Index> make_approximate(const Spec& spec, const ColumnShape& column) {
  const IvfOptions options = parse_approximate(spec, column);
  if (is_bits(column.type) || !info(column.distance).product) return std::make_unique<Index>();
  return std::make_unique<IvfIndex>(options, column);
}

}  // namespace

Kind ivfflat_kind() { return {"ivfflat", make_ivfflat}; }
Kind ivfpq_kind() { return {"ivfpq", make_ivfpq, true}; }
Kind approximate_kind() { return {"approximate", make_approximate}; }
Kind ivfrabitq_kind() { return {"ivfrabitq", make_ivfrabitq, true}; }

}  // namespace warplite::index
