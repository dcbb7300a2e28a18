// index=lsh as one of the kinds that learn: when, and from how many rows.
#include <algorithm>

#include "index/lsh/lsh.h"
#include "index/lsh/training.h"

namespace warplite::index {
namespace {

// Growth after which widths from a sample that was too small are chosen anew.
constexpr std::uint64_t kGrowth = 16;

class LshIndex : public Trained {
 public:
  LshIndex(const LshOptions& options, const ColumnShape& column)
      : options_(options), column_(column) {}

  std::size_t sample_rows(std::uint64_t rows) const override {
    return chooses() ? static_cast<std::size_t>(std::min<std::uint64_t>(kLshSampleRows, rows)) : 0;
  }

  bool wants_training(std::uint64_t rows, const Model* model) const override {
    if (model == nullptr) return rows >= kLshSampleRows;
    return chooses() && model->trained_on() < kLshSampleRows / 2 &&
           rows / kGrowth >= std::max<std::uint64_t>(1, model->table_rows());
  }

  std::shared_ptr<const Model> train(const compute::Devices&, const MatrixView& sample,
                                     const TableMoment& table, compute::Cancellation*,
                                     const Progress&) const override {
    return train_lsh(options_, column_, sample, table.rows);
  }
  double training_bytes(std::size_t) const override { return 0; }

  std::shared_ptr<const Model> open(std::span<const std::byte> bytes) const override {
    return open_lsh(bytes, column_, options_);
  }

  std::size_t default_refine() const override { return options_.refine; }

 private:
  // Says whether a width is chosen from a sample.
  bool chooses() const {
    switch (options_.family) {
      case LshFamily::kE2lsh: return options_.width == 0;
      case LshFamily::kRbh: return options_.sigma == 0;
      case LshFamily::kSimhash: return false;
    }
    return false;
  }

  const LshOptions options_;
  const ColumnShape column_;
};

std::unique_ptr<Index> make_lsh(const Spec& spec, const ColumnShape& column) {
  return std::make_unique<LshIndex>(parse_lsh(spec, column), column);
}

}  // namespace

Kind lsh_kind() { return {"lsh", make_lsh}; }

}  // namespace warplite::index
