// Keys of what follows from other things that have keys, and of how it is made of them.
#pragma once

#include <cstdint>
#include <span>

#include "core/cache_key.h"

namespace warplite::engine {

// What is made of the same blocks is told apart by this.
enum class Derived : std::uint8_t {
  kModel,
  kCodes,
  kRun,
  kCentroids,
  kCodebooks,
  kDecoded,
  kTextTile,
  kSignatureTile,
  kSignatureBits,
  kColumnCodes,
  kEdit,
  kContentVersion,
  kContent,
};

// To which what else matters may be added.
inline KeyWriter derive(Derived what, std::span<const CacheKey> from) {
  KeyWriter key;
  key.add(what).add(from.size());
  for (const CacheKey& one : from) key.add(one);
  return key;
}

inline CacheKey derived_key(Derived what, const CacheKey& from) {
  return derive(what, {&from, 1}).key();
}

}  // namespace warplite::engine
