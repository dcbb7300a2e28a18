#include "storage/sqlite_api.h"

#include <array>
#include <atomic>

namespace warplite::host {
namespace {

std::array<std::atomic<const sqlite3_api_routines*>, kMostLibraries> libraries{};

}  // namespace

constinit thread_local const sqlite3_api_routines* routines = nullptr;

int add_library(const sqlite3_api_routines* of) {
  for (int i = 0; i < kMostLibraries; ++i) {
    const sqlite3_api_routines* known = nullptr;
    auto& slot = libraries[static_cast<std::size_t>(i)];
    if (slot.compare_exchange_strong(known, of) || known == of) return i;
  }
  return -1;
}

const sqlite3_api_routines* library(int number) {
  return libraries[static_cast<std::size_t>(number)].load(std::memory_order_relaxed);
}

int current_library() { return add_library(routines); }

}  // namespace warplite::host
