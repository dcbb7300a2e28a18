// Bytes that are handed over to a device: it alone holds them, and the host their head, which is what it needs of
// them to search.
// Threads: any, but for Refusals, which belong to what keeps them.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/bitmap.h"
#include "core/bytes.h"
#include "core/error.h"
#include "engine/residency/residency.h"

namespace warplite::engine {

// A device has no room for what was handed over to it, or failed to take it.
struct NotTaken : Error {
  using Error::Error;
};

// Has the device hold the bytes in memory of its own. The host lets go of its own ones, unless somebody uses them.
// Throws NotTaken.
Residency::CopyOnDevice hand_over(compute::Device& device, const CacheKey& key,
                                  std::shared_ptr<const ResidentVectors> bytes);

// The head of vectors: which rows have one, and what the file says in front of them, which has their checksum.
Bytes head_of(const storage::VectorBlock& block);
// Empty: all of them.
Bitmap rows_with_vector(const Bytes& head, std::size_t rows);

// Devices that had less room than they said. They are left alone for a while.
class Refusals {
 public:
  // This lasts much longer than it `took` to find out.
  void note(const compute::Device& device, std::chrono::steady_clock::duration took);
  bool include(const compute::Device& device) const;

 private:
  struct Refusal {
    const compute::Device* device;
    std::chrono::steady_clock::time_point ends;
  };
  std::vector<Refusal> refusals_;
};

}  // namespace warplite::engine
