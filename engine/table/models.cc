#include "engine/table/models.h"

#include "engine/residency/attempt.h"
#include "engine/residency/derived_key.h"
#include "engine/residency/residency.h"

namespace warplite::engine {

CacheKey model_key(const storage::Store& store, std::size_t column, const Stamp& stamp,
                   const index::Index& index) {
  const CacheKey from[] = {store.model_key(stamp, column), index.key()};
  return derive(Derived::kModel, from).key();
}

std::shared_ptr<const index::Model> load_model(storage::Store& store, std::size_t column,
                                               const Stamp& stamp, const index::Trained& index) {
  const std::string name = store.schema() + "." + store.table();
  const std::string what = "model of vector column " + std::to_string(column);
  return Residency::instance().model(model_key(store, column, stamp, index), name + " " + what, [&] {
    const storage::OpaqueBlock block = store.load_model(stamp, column);
    try {
      return index.open(block.payload);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      throw Error(ErrorKind::kCorrupt, store.table() + ": " + what + ": " + error.what());
    }
  });
}

void of_another_model(const std::string& name) {
  throw Error(ErrorKind::kCorrupt, name + ": what is in memory is of another model");
}

std::shared_ptr<const ResidentVectors> share_of_model(
    const std::shared_ptr<const index::Model>& model, const CacheKey& key, const std::string& name,
    const MatrixView& values) {
  auto found = Residency::instance().bytes(key, name, 0, [&] {
    ResidentVectors shared;
    shared.block.vectors = values;
    shared.owner = model;
    return shared;
  });
  if (found->block.vectors.rows != values.rows) of_another_model(name);
  return found;
}

SharedCentroids share_centroids(const std::shared_ptr<const index::Model>& model,
                                const CacheKey& model_key, const std::string& name) {
  const index::InvertedModel* const lists = model->inverted();
  if (lists == nullptr) return {};
  const compute::IvfShape& shape = lists->shape();
  const MatrixView values{reinterpret_cast<const std::byte*>(lists->centroids()),
                          std::size_t{shape.lists} + shape.groups, shape.dim,
                          ElementType::kFloat32};
  const CacheKey key = derived_key(Derived::kCentroids, model_key);
  return {key, share_of_model(model, key, name, values)};
}

Ability training_ability() { return Ability::vectors(ElementType::kFloat32, Distance::kL2); }

namespace {

void attempt_work(const Demand& demand, Attempt::Use use,
                  const std::function<void(const compute::Devices&)>& work) {
  await_for_long_work(demand);
  Attempt attempt(demand, use, nullptr);
  attempt.run([&](Attempt::Devices devices, compute::Device*& failed) -> Status {
    try {
      work({devices.begin(), devices.end()});
      return {};
    } catch (const Error& error) {
      if (!is_devices_fault(error.kind())) throw;
      if (const auto* of = dynamic_cast<const compute::DeviceError*>(&error)) failed = of->device;
      return {error.kind(), error.what()};
    }
  });
}

}  // namespace

void on_worker(const Demand& demand, const std::function<void(compute::Device&)>& work) {
  attempt_work(demand, Attempt::Use::kFirst,
               [&](const compute::Devices& devices) { work(*devices.front()); });
}

void on_workers(const Demand& demand, const std::function<void(const compute::Devices&)>& work) {
  attempt_work(demand, Attempt::Use::kAlike, work);
}

Demand coding_demand(const index::Model& model, double vectors,
                     compute::Cancellation* cancellation) {
  return {{}, training_ability(), vectors * model.coding_bytes(), cancellation};
}

}  // namespace warplite::engine
