// The name of bytes that a process keeps in memory: a hash of everything that they follow from and
// were checked against. What comes from elsewhere, or has another shape, has another name, also in
// files that were made to deceive: the hash (SipHash-2-4 of 128 bits) depends on a secret that each
// process draws, so that nobody can prepare two things of one name.
// Threads: a key is a value; a writer belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/process/stamp.h"

namespace warplite {

struct CacheKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  // The same for what is made of one thing, so that it can go when that does.
  std::uint64_t source = 0;

  // Names nothing.
  bool is_null() const { return high == 0 && low == 0; }
  friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

struct CacheKeyHash {
  std::size_t operator()(const CacheKey& key) const { return static_cast<std::size_t>(key.low); }
};

// Takes what a key is made from, in an order that its kind fixes.
class KeyWriter {
 public:
  // A number, an enum, a Stamp or a CacheKey.
  template <typename T>
  KeyWriter& add(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  KeyWriter& add_text(std::string_view text) {
    add(text.size());
    bytes_.append(text);
    return *this;
  }
  // What it is made of; else it is a source itself.
  KeyWriter& made_of(const CacheKey& one) {
    source_ = one.source;
    return *this;
  }
  CacheKey key() const;

 private:
  std::string bytes_;
  std::uint64_t source_ = 0;
};

// The hash, under a secret of the caller's.
CacheKey keyed_hash(const Stamp& secret, std::span<const std::byte> bytes);

}  // namespace warplite
