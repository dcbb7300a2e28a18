// Keys of what follows from other things that have keys, and of how it is made of them.
#pragma once

#include <cstdint>
#include <span>

#include "core/process/cache_key.h"

namespace warplite::engine {

// Kinds of things made of blocks, which tell apart what is made of the same blocks.
enum class Derived : std::uint8_t {
  kModel,
  kCodes,
  kRun,
  kCentroids,
  kCodebooks,
  kCoarse,
  kDecoded,
  kPieces,
  kTextTile,
  kSignatureTile,
  kSignatureBits,
  kColumnCodes,
  kEdit,
  kSparseTile,
  kContentVersion,
  kContent,
};

// Begins the key of something made of `from`; the caller may add whatever else it depends on. It goes
// with the first of them.
inline KeyWriter derive(Derived what, std::span<const CacheKey> from) {
  KeyWriter key;
  key.add(what).add(from.size()).made_of(from.front());
  for (const CacheKey& one : from) key.add(one);
  return key;
}

inline CacheKey derived_key(Derived what, const CacheKey& from) {
  return derive(what, {&from, 1}).key();
}

}  // namespace warplite::engine
