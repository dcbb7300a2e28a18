// Little-endian bytes in and out of records and blocks. A Reader never leaves its
// bytes: running out is Error{kCorrupt}, to which Store adds table and segment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.h"
#include "core/process/stamp.h"

namespace warplite::storage {

static_assert(std::endian::native == std::endian::little, "stored bytes are little-endian");

[[noreturn]] inline void corrupt(std::string what) {
  throw Error(ErrorKind::kCorrupt, std::move(what));
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes(&value, sizeof value);
  }
  void put_bytes(const void* from, std::size_t size) {
    bytes_.append(static_cast<const char*>(from), size);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size()) {
      corrupt("ends " + std::to_string(size - bytes_.size()) + " bytes too early");
    }
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  bool at_end() const { return bytes_.empty(); }
  void finish() const {
    if (!bytes_.empty()) corrupt(std::to_string(bytes_.size()) + " bytes too many");
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace warplite::storage
