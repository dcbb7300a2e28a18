// Stamps of what follows from the content of other stamps, so that the cache names it as it names
// blocks of the file.
#pragma once

#include <cstdint>
#include <span>

#include "core/stamp.h"
#include "storage/checksum.h"

namespace warplite::engine {

// What is made of the same blocks is told apart by this.
enum class Derived : std::uint64_t { kRun = 1, kCentroids, kCodebooks, kDecoded, kTile, kColumnCodes, kEdit,
  kContentVersion, kContent,
};

// Two checksums of 64 bits.
inline Stamp derived_stamp(std::span<const Stamp> from, Derived what) {
  const auto bytes = std::as_bytes(from);
  const auto salt = static_cast<std::uint64_t>(what);
  return {storage::checksum(bytes, 2 * salt), storage::checksum(bytes, 2 * salt + 1)};
}

}  // namespace warplite::engine
