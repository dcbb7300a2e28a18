#if !defined(_WIN32)
#include "core/system.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <thread>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#endif

#include "core/error.h"
#include "core/memory_limit.h"

namespace warplite::os {
namespace {

// Returns how many bytes came, or -1. The system call needs no file, but older kernels and other
// systems do; the C library's own function is newer than the C libraries that this runs with.
ssize_t some_random(std::byte* out, std::size_t size) {
#if defined(SYS_getrandom)
  const long given = syscall(SYS_getrandom, out, size, 0);
  if (given >= 0 || errno != ENOSYS) return given;
#endif
  const int file = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const ssize_t n = ::read(file, out, size);
  const int error = errno;
  ::close(file);
  errno = error;
  return n;
}

// What a file of the system's says; "" if there is none.
std::string short_file(const std::string& path) {
  std::string text(4096, '\0');
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return {};
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

std::byte* map_pages(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

std::byte* map_huge_pages(std::size_t size, std::size_t small) {
  std::byte* begin = map_pages(size + kHugePage);
  if (begin == nullptr) return nullptr;
  const std::size_t before = -reinterpret_cast<std::size_t>(begin) % kHugePage;
  if (before != 0) munmap(begin, before);
  if (before != kHugePage) munmap(begin + before + size, kHugePage - before);
#if defined(MADV_HUGEPAGE)
  madvise(begin + before, size - small, MADV_HUGEPAGE);
  // Where the system makes huge pages unasked, it is not to here.
  if (small != 0) madvise(begin + before + size - small, small, MADV_NOHUGEPAGE);
#endif
  return begin + before;
}

void prefer_huge([[maybe_unused]] std::byte* memory, [[maybe_unused]] std::size_t size,
                 [[maybe_unused]] std::size_t small) noexcept {
#if defined(MADV_HUGEPAGE)
  if (size > small) madvise(memory + small, size - small, MADV_HUGEPAGE);
  // As in map_huge_pages().
  madvise(memory, std::min(size, small), MADV_NOHUGEPAGE);
#endif
}

void unmap(std::byte* memory, std::size_t size) noexcept {
  munmap(memory, size);
}

void discard(std::byte* memory, std::size_t size) noexcept {
#if defined(__linux__)
  madvise(memory, size, MADV_DONTNEED);
#else
  madvise(memory, size, MADV_FREE);
#endif
}

#if defined(__GLIBC__)
void trim_heap(std::size_t elsewhere) noexcept {
  constexpr std::size_t kLargeHeap = std::size_t{128} << 20;
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return;
  unsigned long resident = 0, shared = 0;  // pages; those of files are shared
  const int found = std::fscanf(file, "%*u %lu %lu", &resident, &shared);
  std::fclose(file);
  if (found != 2) return;
  const std::size_t own = (resident - shared) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (own <= elsewhere + kLargeHeap) malloc_trim(0);
}
#else
void trim_heap(std::size_t) noexcept {}
#endif

std::size_t machine_memory() {
  static const std::size_t kMemory = [] {
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    const std::size_t all = pages > 0 && size > 0 ? static_cast<std::size_t>(pages) *
                                                        static_cast<std::size_t>(size)
                                                  : std::size_t{0};
    const std::size_t limit = memory_limit_of_groups(short_file("/proc/self/cgroup"), short_file);
    return limit != 0 && (all == 0 || limit < all) ? limit : all;
  }();
  return kMemory;
}

unsigned usable_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(getpid(), sizeof set, &set) == 0) {
    return static_cast<unsigned>(CPU_COUNT(&set));
  }
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

std::chrono::nanoseconds thread_time() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void lower_priority() {
#if defined(__linux__)
  constexpr int kNice = 10;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
#endif
}

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = some_random(out.data(), out.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(ErrorKind::kDevice, "the system gives no random bytes");
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

std::string path_of(const void* code) {
  Dl_info found;
  const bool known = dladdr(code, &found) != 0 && found.dli_fname != nullptr;
  return known ? found.dli_fname : "";
}

void keep_loaded(const void* code) {
  const std::string path = path_of(code);
  if (!path.empty()) dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

void* open_library(const std::string& path, std::string& why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library != nullptr) return library;
  const char* error = dlerror();
  why = error != nullptr ? error : "unknown error";
  return nullptr;
}

void* symbol(void* library, const char* name) {
  return dlsym(library, name);
}

std::FILE* open_regular_file(const std::string& path, std::uint64_t& size, std::string& why) {
  struct stat info;
  why = "cannot be opened";
  if (::stat(path.c_str(), &info) != 0) return nullptr;
  const int file =
      S_ISREG(info.st_mode) ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  // The file is checked again: it may be another one by now.
  if (!S_ISREG(info.st_mode) || (file >= 0 && ::fstat(file, &info) != 0) ||
      !S_ISREG(info.st_mode)) {
    why = "is no regular file";
  } else if (file >= 0) {
    size = static_cast<std::uint64_t>(info.st_size);
    if (std::FILE* opened = ::fdopen(file, "rb")) return opened;
  }
  if (file >= 0) ::close(file);
  return nullptr;
}

int find_open_file(const std::string& path) {
  struct stat wanted, info;
  if (::stat(path.c_str(), &wanted) != 0 || !S_ISREG(wanted.st_mode)) return -1;
  const auto close = [](DIR* directory) { ::closedir(directory); };
  const std::unique_ptr<DIR, decltype(close)> all(::opendir("/dev/fd"), close);
  while (const dirent* const entry = all == nullptr ? nullptr : ::readdir(all.get())) {
    char* end = nullptr;
    const auto file = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    if (end == entry->d_name || ::fstat(file, &info) != 0) continue;
    if (info.st_dev != wanted.st_dev || info.st_ino != wanted.st_ino) continue;
    if ((::fcntl(file, F_GETFL) & O_ACCMODE) != O_WRONLY) return file;
  }
  return -1;
}

std::size_t read_pieces(int file, std::uint64_t at, std::span<const std::span<std::byte>> pieces) {
  std::array<iovec, kMostPieces> parts;
  WARP_CHECK(pieces.size() <= parts.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) parts[i] = {pieces[i].data(), pieces[i].size()};
  for (;;) {
    const ssize_t n =
        ::preadv(file, parts.data(), static_cast<int>(pieces.size()), static_cast<off_t>(at));
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno != EINTR) return 0;
  }
}

}  // namespace warplite::os
#endif
