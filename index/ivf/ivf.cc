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
constexpr std::uint64_t kRowsUnasked = 50000;
// The same where it can learn but once, since the vectors go.
constexpr std::uint64_t kRowsUnaskedOnce = 1000000;
// Growth after which lists of our choosing are too few: a quarter of those wanted.
constexpr std::uint64_t kGrowth = 16;
constexpr std::uint32_t kLeastProbes = 8;
constexpr double kProbesOfRoot = 1.2;  // of √lists
// The part of training that learns; then recall is measured.
constexpr double kLearning = 0.95;

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
    if (options_.lists == 0) {
      return rows >= (column_.codes_only ? kRowsUnaskedOnce : kRowsUnasked);
    }
    return rows >= std::max(kRowsPerGivenList * options_.lists, kLeastRows);
  }

  std::shared_ptr<const Model> train(compute::Device& device, const MatrixView& sample,
                                     std::uint64_t table_rows,
                                     compute::Cancellation* cancellation,
                                     const Progress& progress) const override {
    const TrainingTask task(device, cancellation, progress);
    const IvfParts parts =
        train_ivf(task.part(0, kLearning), options_, column_, sample, table_rows);
    const TrainingTask rest = task.part(kLearning, 1);
    const auto model = make_ivf_model(column_, parts);
    return make_ivf_model(column_, parts, calibrate(rest, *model, column_.distance, sample));
  }

  std::string plan(std::uint64_t rows) const override {
    return std::to_string(lists_for(options_, rows)) + " lists";
  }

  // k-means by groups compares each row of the sample with the lists of about as many groups as it
  // makes iterations in its own (index/ivf/grouped_kmeans.cc).
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
