// Allocations that fail on purpose: SQLite's (sqlite3_malloc, every one the library and the
// extension make through it) and C++'s (operator new, in this whole program).
// Threads: counted over all threads; at most one AllocationFault at a time.
#pragma once

namespace warplite::testing {

enum class Allocator { kSqlite, kCpp };

// Before anything else calls SQLite.
void install_failing_allocator();

// While it lives, allocation number `nth` (from 0) fails; with `forever`, all after it too.
class AllocationFault {
 public:
  AllocationFault(Allocator allocator, long nth, bool forever);
  ~AllocationFault();
  AllocationFault(const AllocationFault&) = delete;
  AllocationFault& operator=(const AllocationFault&) = delete;

  bool fired() const;
};

}  // namespace warplite::testing
