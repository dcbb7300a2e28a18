#include "core/process/cache_key.h"

#include <bit>
#include <cstring>

namespace warplite {
namespace {

// SipHash-2-4, J.-P. Aumasson and D. J. Bernstein, 2012, in its form of 128 bits.
class SipHash {
 public:
  explicit SipHash(const Stamp& secret)
      : v0_(secret.high ^ 0x736f6d6570736575),
        v1_(secret.low ^ 0x646f72616e646f6d ^ kWide),
        v2_(secret.high ^ 0x6c7967656e657261),
        v3_(secret.low ^ 0x7465646279746573) {}

  void word(std::uint64_t m) {
    v3_ ^= m;
    rounds(2);
    v0_ ^= m;
  }

  CacheKey finish() {
    v2_ ^= kWide;
    rounds(4);
    const std::uint64_t high = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xdd;
    rounds(4);
    return {high, v0_ ^ v1_ ^ v2_ ^ v3_};
  }

 private:
  static constexpr std::uint64_t kWide = 0xee;

  void rounds(int count) {
    for (; count > 0; --count) {
      v0_ += v1_;
      v2_ += v3_;
      v1_ = std::rotl(v1_, 13) ^ v0_;
      v3_ = std::rotl(v3_, 16) ^ v2_;
      v0_ = std::rotl(v0_, 32);
      v2_ += v1_;
      v0_ += v3_;
      v1_ = std::rotl(v1_, 17) ^ v2_;
      v3_ = std::rotl(v3_, 21) ^ v0_;
      v2_ = std::rotl(v2_, 32);
    }
  }

  std::uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace

CacheKey keyed_hash(const Stamp& secret, std::span<const std::byte> bytes) {
  SipHash hash(secret);
  const std::uint64_t length = bytes.size();
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    hash.word(word);
  }
  std::uint64_t last = length << 56;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    last |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  hash.word(last);
  return hash.finish();
}

CacheKey KeyWriter::key() const {
  static const Stamp kSecret = new_stamp();
  CacheKey key = keyed_hash(kSecret, std::as_bytes(std::span(bytes_)));
  key.source = source_ != 0 ? source_ : key.low;
  return key;
}

}  // namespace warplite
