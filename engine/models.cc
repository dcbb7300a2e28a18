#include "engine/models.h"

#include "engine/fallback.h"
#include "engine/residency.h"

namespace warplite::engine {

std::shared_ptr<const index::Model> load_model(storage::Store& store, std::size_t column,
                                               const Stamp& stamp, const index::Trained& index) {
  const std::string name = store.schema() + "." + store.table();
  const std::string what = "model of vector column " + std::to_string(column);
  return Residency::instance().model(stamp, name + " " + what, [&] {
    const storage::OpaqueBlock block = store.load_model(stamp, column);
    try {
      return index.open(block.payload);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      throw Error(ErrorKind::kCorrupt, store.table() + ": " + what + ": " + error.what());
    }
  });
}

void on_worker(const Demand& demand, const std::function<void(compute::Device&)>& work) {
  compute::Device& host = compute::Registry::instance().host();
  compute::Device& device = choose_worker(demand);
  try {
    return work(device);
  } catch (const Error& error) {
    if (!is_devices_fault(error.kind()) || &device == &host) throw;
  }
  work(host);
}

Demand coding_demand(const index::Model& model, double vectors,
                     compute::Cancellation* cancellation) {
  return {{}, ElementType::kFloat32, Distance::kL2, vectors * model.coding_bytes(), cancellation};
}

}  // namespace warplite::engine
