// A 64-bit checksum of stored bytes, to find damage (not forgery): eight lanes of
// multiply and shift over 64-byte stripes, which an ordinary core runs at memory
// speed. docs/file_format.md defines it exactly; it is persisted and never changes.
// Any change within one 8-byte word changes the result.
// Threads: functions of their arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace warplite::storage {

class Checksum {
 public:
  static constexpr std::size_t kStripe = 64;

  explicit Checksum(std::uint64_t seed = 0);
  // REQUIRES: in all calls but the last, the size is a multiple of kStripe.
  void update(std::span<const std::byte> bytes);
  std::uint64_t finish() const;

 private:
  void stripe(const std::byte* at);

  std::array<std::uint64_t, 8> lanes_;
  std::uint64_t length_ = 0;
};

inline std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0) {
  Checksum sum(seed);
  sum.update(bytes);
  return sum.finish();
}

}  // namespace warplite::storage
