// A BLOB that is filled once and given to SQLite as often as it asks, without a copy: who lets go
// of it last frees it, which may be SQLite, long after the cursor that made it.
// Threads: any number may let go at once; filling and giving are the owner's.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "sql/host/entry.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

class SharedBlob {
 public:
  // Of `size` bytes, which are not initialised; aligned for any number.
  explicit SharedBlob(std::size_t size) : size_(size) {
    Bytes memory(sizeof(Owners) + size, Bytes::Fill::kBrief);
    std::byte* const begin = memory.data();
    bytes_ = begin + sizeof(Owners);
    new (begin) Owners{1, std::move(memory)};
  }
  ~SharedBlob() { release(bytes_); }
  SharedBlob(const SharedBlob&) = delete;
  SharedBlob& operator=(const SharedBlob&) = delete;

  template <typename Number>
  std::span<Number> as() {
    return {reinterpret_cast<Number*>(bytes_), size_ / sizeof(Number)};
  }

  std::string_view bytes() const { return {reinterpret_cast<const char*>(bytes_), size_}; }

  // REQUIRES: called by SQLite, and nothing is written from now on.
  void result(sqlite3_context* context) const {
    owners(bytes_).count.fetch_add(1, std::memory_order_relaxed);
    sqlite3_result_blob64(context, bytes_, size_, entry<release>());
  }

 private:
  // Stands before the bytes, whose address is all that SQLite gives back.
  struct alignas(std::max_align_t) Owners {
    std::atomic<std::size_t> count;
    Bytes memory;  // that this is in
  };
  static Owners& owners(void* bytes) {
    return *reinterpret_cast<Owners*>(static_cast<std::byte*>(bytes) - sizeof(Owners));
  }
  static void release(void* bytes) {
    Owners& of = owners(bytes);
    if (of.count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const Bytes memory = std::move(of.memory);
    of.~Owners();
  }

  std::byte* bytes_;
  const std::size_t size_;
};

}  // namespace warplite::sql
