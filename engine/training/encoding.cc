#include "engine/training/encoding.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "index/training_task.h"

namespace warplite::engine {
namespace {

// How often whoever waits for codes asks whether that is to end.
constexpr std::chrono::milliseconds kBetweenQuestions{5};

}  // namespace

ColumnModel column_model(const storage::Store& store, std::size_t column, const Stamp& stamp,
                         const index::Index& index, std::shared_ptr<const index::Model> model) {
  return {std::move(model), model_key(store, column, stamp, index),
          store.schema() + "." + store.table() + " centroids of vector column " +
              std::to_string(column)};
}

// A device with memory of its own keeps the centroids for the next segment: of many lists they are
// more than its rows.
Bytes encode(const ColumnModel& by, const MatrixView& vectors, const Bitmap* present,
             std::size_t turn, compute::Cancellation* cancellation) {
  Bytes codes;
  Demand demand = coding_demand(*by.model, static_cast<double>(vectors.rows), cancellation);
  demand.turn = turn;
  on_worker(demand, [&](compute::Device& device) {
    SharedCentroids centroids;
    std::shared_ptr<const compute::Buffer> there;
    if (device.own_memory()) {
      Background::end_before_drivers();
      centroids = share_centroids(by.model, by.key, by.name);
    }
    if (centroids.values != nullptr) {
      Residency::instance().buffer(device, centroids.key, centroids.values, &there).raise();
    }
    codes = by.model->encode(device, vectors, present, cancellation, there.get());
  });
  return codes;
}

SegmentCodes encode_rows(const Layout& layout, const ColumnModels& models,
                         std::span<const storage::RowRef> rows, std::size_t turn,
                         compute::Cancellation* cancellation) {
  SegmentCodes codes(models.size());
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].model == nullptr) continue;
    const storage::VectorBlock block = storage::gather_vectors(layout, rows, i);
    const Bitmap* present = block.present.size() != 0 ? &block.present : nullptr;
    if (present != nullptr && present->count() == 0) continue;
    codes[i] = encode(models[i], block.vectors, present, turn, cancellation);
  }
  return codes;
}

Encoding::Encoding(Make make) : make_(std::move(make)) {
  if (!encodes_meanwhile()) return;
  try {
    work_.emplace([this] {
      index::HelperCancellation cancellation;
      codes_ = make_(&cancellation);
    });
  } catch (const std::system_error&) {
    // There is no further thread.
  }
}

SegmentCodes Encoding::take(compute::Cancellation* cancellation) {
  if (!work_ || !work_->is_here()) return make_(cancellation);
  while (!work_->wait(kBetweenQuestions)) {
    if (cancellation != nullptr && cancellation->requested()) {
      throw Error(ErrorKind::kInterrupted, "interrupted");
    }
  }
  work_->rethrow();
  return std::move(codes_);
}

bool encodes_meanwhile() {
  return compute::thread_count() > 1;
}

}  // namespace warplite::engine
