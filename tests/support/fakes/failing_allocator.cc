#include "tests/support/fakes/failing_allocator.h"

#include <sqlite3.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/support/fakes/fault_plan.h"

namespace warplite::testing {
namespace {

FaultPlan sqlite_plan;
FaultPlan cpp_plan;
sqlite3_mem_methods original;

void* failing_malloc(int size) { return sqlite_plan.fails() ? nullptr : original.xMalloc(size); }
void* failing_realloc(void* memory, int size) {
  return sqlite_plan.fails() ? nullptr : original.xRealloc(memory, size);
}

FaultPlan& plan_of(Allocator allocator) {
  return allocator == Allocator::kSqlite ? sqlite_plan : cpp_plan;
}

FaultPlan* active = nullptr;

}  // namespace

void install_failing_allocator() {
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &original);
  sqlite3_mem_methods methods = original;
  methods.xMalloc = failing_malloc;
  methods.xRealloc = failing_realloc;
  sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

AllocationFault::AllocationFault(Allocator allocator, long nth, bool forever) {
  active = &plan_of(allocator);
  active->begin(nth, forever);
}

AllocationFault::~AllocationFault() { active->end(); }

bool AllocationFault::fired() const { return active->fired(); }

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  if (cpp_plan.fails()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace
}  // namespace warplite::testing

using warplite::testing::allocate;
using warplite::testing::allocate_or_throw;

void* operator new(std::size_t size) { return allocate_or_throw(size, 1); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
