// Models of columns whose index learns, as they are used: opened once, cached by their key.
// Threads: as the store. Errors: Error{kCorrupt} when the model is damaged.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/process/cache_key.h"
#include "engine/residency/device_choice.h"
#include "engine/residency/residency.h"
#include "index/trained.h"
#include "storage/storage.h"

namespace warplite::engine {

// Returns the key of the model's block, and of the model read from it.
CacheKey model_key(const storage::Store& store, std::size_t column, const Stamp& stamp,
                   const index::Index& index);
// "main.papers: model of column 2", as warp_residency() names it.
std::shared_ptr<const index::Model> load_model(storage::Store& store, std::size_t column,
                                               const Stamp& stamp, const index::Trained& index);

// Bytes of a model, in memory once for all who use them.
std::shared_ptr<const ResidentVectors> share_of_model(
    const std::shared_ptr<const index::Model>& model, const CacheKey& key, const std::string& name,
    const MatrixView& values);

// Models of one stamp that differ, of tables of one file, are somebody's who wants to deceive: of
// one there may be left in memory what does not fit the other.
[[noreturn]] void of_another_model(const std::string& name);

// The centroids of a column's model, under the key by which devices have copies; null: it has no
// lists.
struct SharedCentroids {
  CacheKey key;
  std::shared_ptr<const ResidentVectors> values;
};
// `model_key`: of model_key(). `name`: as warp_residency() has it.
SharedCentroids share_centroids(const std::shared_ptr<const index::Model>& model,
                                const CacheKey& model_key, const std::string& name);

// Returns what training and coding ask of devices: to compare vectors of models.
Ability training_ability();

// Has the best device there is do the work, from the beginning on another one when it fails
// (attempt.h). Throws what the work throws, else.
void on_worker(const Demand& demand, const std::function<void(compute::Device&)>& work);
// The same for work of which all devices like the best one have parts; compute::DeviceError says
// which of them failed, any other error is the first's.
void on_workers(const Demand& demand, const std::function<void(const compute::Devices&)>& work);

// Returns what coding so many vectors asks of a device.
Demand coding_demand(const index::Model& model, double vectors,
                     compute::Cancellation* cancellation);

}  // namespace warplite::engine
