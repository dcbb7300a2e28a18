// What operating systems do each in their own way, said once: system_posix.cc and
// system_windows.cc. core/process/process.h has forks and signals. Paths are UTF-8.
// Threads: any.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace warplite::os {

// Memory. Pages of their own: zeroed, and the system's again at once when they are unmapped.
// Sizes are multiples of this, which every system's pages divide.
inline constexpr std::size_t kPage = std::size_t{64} << 10;
std::byte* map_pages(std::size_t size);  // null: there is no room
// On huge pages and one's boundary, where the system has them, but for the last `small` bytes.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;
std::byte* map_huge_pages(std::size_t size, std::size_t small);
// Has what is mapped there be on huge pages once it is touched, but for the first `small` bytes.
void prefer_huge(std::byte* memory, std::size_t size, std::size_t small) noexcept;
// REQUIRES: this is all that one call mapped.
void unmap(std::byte* memory, std::size_t size) noexcept;
// The pages stay and may be written again; what they hold is lost. REQUIRES: on kPage, and a
// multiple of it.
void discard(std::byte* memory, std::size_t size) noexcept;
// Gives memory back to the system that was freed and that the C library keeps, as each thread's
// part of its heap does: in about a millisecond, and not at all where the process has far more
// memory than `elsewhere`, outside of the heap, since to go through a large heap may take seconds.
void trim_heap(std::size_t elsewhere) noexcept;
// Returns the bytes of memory that the machine has, or leaves to the process where it is in a
// container that has a limit; 0 where it does not say. Asked once.
std::size_t machine_memory();

// Threads.
// Returns the number of cores that this process may run on: a container or taskset may leave it few
// of many.
unsigned usable_cores();
// Returns for how long the calling thread has been on a core, in all.
std::chrono::nanoseconds thread_time();
// The calling thread lets others go first.
void lower_priority();

// Fills `out` from the system's own source; both sides of a fork get different bytes. Throws
// Error{kDevice}.
void fill_random(std::span<std::byte> out);

// Libraries.
// Returns the path of the library or program that holds `code`, or "".
std::string path_of(const void* code);
// The library that holds `code` stays until the process ends.
void keep_loaded(const void* code);
// Opens a library for good. Null: `why` says what the system says.
void* open_library(const std::string& path, std::string& why);
// The same of the first of these paths under which there is one. Null: `why` has what the system
// says of each.
inline void* open_first_library(std::span<const std::string> paths, std::string& why) {
  std::string all;
  for (const std::string& path : paths) {
    if (void* const library = open_library(path, why); library != nullptr) return library;
    // Not every system names the path.
    all += (all.empty() ? "" : "; ") + (why.find(path) == std::string::npos ? path + ": " : "") + why;
  }
  why = all;
  return nullptr;
}
void* symbol(void* library, const char* name);  // null: there is none

// Opens a regular file to be read; `size` is its length. What is no regular file has no end to
// compare with, may wait for ever, or acts when it is opened. Null: `why` continues a sentence that
// begins with the path.
std::FILE* open_regular_file(const std::string& path, std::uint64_t& size, std::string& why);
// Returns a descriptor of this process that reads the file at `path`, or -1. To open it once more
// would be a trap: closing a descriptor of a file gives up all POSIX locks that the process has on
// it. What is found may be closed by its owner meanwhile and name another file, so that who reads
// must know the bytes by themselves.
int find_open_file(const std::string& path);
// Reads consecutive bytes of a file, from `at` on, into one piece after another: kMostPieces at
// most. Returns how many bytes came.
inline constexpr std::size_t kMostPieces = 128;
std::size_t read_pieces(int file, std::uint64_t at, std::span<const std::span<std::byte>> pieces);

}  // namespace warplite::os
