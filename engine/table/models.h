// Models of columns whose index learns, as they are used: opened once, cached by their key.
// Threads: as the store. Errors: Error{kCorrupt} when the model is damaged.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/process/cache_key.h"
#include "engine/residency/device_choice.h"
#include "index/trained.h"
#include "storage/storage.h"

namespace warplite::engine {

// Returns the key of the model's block, and of the model read from it.
CacheKey model_key(const storage::Store& store, std::size_t column, const Stamp& stamp,
                   const index::Index& index);
// "main.papers: model of column 2", as warp_residency() names it.
std::shared_ptr<const index::Model> load_model(storage::Store& store, std::size_t column,
                                               const Stamp& stamp, const index::Trained& index);

// Returns what training and coding ask of devices: to compare vectors of models.
Ability training_ability();

// Has the best device there is do the work, from the beginning on another one when it fails
// (attempt.h). Throws what the work throws, else.
void on_worker(const Demand& demand, const std::function<void(compute::Device&)>& work);

// Returns what coding so many vectors asks of a device.
Demand coding_demand(const index::Model& model, double vectors,
                     compute::Cancellation* cancellation);

}  // namespace warplite::engine
