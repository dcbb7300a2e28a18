#if defined(_WIN32)
#include "core/system.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <ntsecapi.h>

#include "core/error.h"

namespace warplite::os {
namespace {

// Returns "" for what is no UTF-8.
std::wstring wide(const std::string& text) {
  const int size = static_cast<int>(text.size());
  const int length =
      MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, nullptr, 0);
  std::wstring out(static_cast<std::size_t>(length), L'\0');
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, out.data(), length);
  return out;
}

std::string narrow(const std::wstring& text) {
  const int length = static_cast<int>(text.size());
  const int size =
      WideCharToMultiByte(CP_UTF8, 0, text.data(), length, nullptr, 0, nullptr, nullptr);
  std::string out(static_cast<std::size_t>(size), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text.data(), length, out.data(), size, nullptr, nullptr);
  return out;
}

HMODULE module_of(const void* code, DWORD flags) {
  HMODULE found = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | flags, static_cast<LPCWSTR>(code),
                     &found);
  return found;
}

}  // namespace

std::byte* map_pages(std::size_t size) {
  return static_cast<std::byte*>(
      VirtualAlloc(nullptr, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE));
}

// Large pages need a privilege there.
std::byte* map_huge_pages(std::size_t size, std::size_t) {
  return map_pages(size);
}

void prefer_huge(std::byte*, std::size_t, std::size_t) noexcept {}

void unmap(std::byte* memory, std::size_t) noexcept {
  VirtualFree(memory, 0, MEM_RELEASE);
}

void discard(std::byte* memory, std::size_t size) noexcept {
  VirtualAlloc(memory, size, MEM_RESET, PAGE_READWRITE);
}

void trim_heap(std::size_t) noexcept {}

std::size_t machine_memory() {
  static const std::size_t kMemory = [] {
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof status;
    return GlobalMemoryStatusEx(&status) ? static_cast<std::size_t>(status.ullTotalPhys)
                                         : std::size_t{0};
  }();
  return kMemory;
}

unsigned usable_cores() {
  return std::max(1u, std::thread::hardware_concurrency());
}

std::chrono::nanoseconds thread_time() {
  FILETIME begin, end, kernel, user;
  if (!GetThreadTimes(GetCurrentThread(), &begin, &end, &kernel, &user)) return {};
  const auto steps = [](const FILETIME& time) {  // of 100 ns
    return static_cast<std::int64_t>(std::uint64_t{time.dwHighDateTime} << 32 | time.dwLowDateTime);
  };
  return std::chrono::nanoseconds(100 * (steps(kernel) + steps(user)));
}

void lower_priority() {
  SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
}

void fill_random(std::span<std::byte> out) {
  if (RtlGenRandom(out.data(), static_cast<ULONG>(out.size()))) return;
  throw Error(ErrorKind::kDevice, "the system gives no random bytes");
}

std::string path_of(const void* code) {
  const HMODULE found = module_of(code, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT);
  std::wstring path(32768, L'\0');
  const DWORD length = GetModuleFileNameW(found, path.data(), static_cast<DWORD>(path.size()));
  path.resize(length);
  return narrow(path);
}

void keep_loaded(const void* code) {
  module_of(code, GET_MODULE_HANDLE_EX_FLAG_PIN);
}

void* open_library(const std::string& path, std::string& why) {
  void* library = LoadLibraryW(wide(path).c_str());
  if (library == nullptr) why = path + ": error " + std::to_string(GetLastError());
  return library;
}

void* symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

std::FILE* open_regular_file(const std::string& path, std::uint64_t& size, std::string& why) {
  why = "cannot be opened";
  const HANDLE file = CreateFileW(wide(path).c_str(), GENERIC_READ,
                                  FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return nullptr;
  LARGE_INTEGER length;
  if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &length)) {
    why = "is no regular file";
    CloseHandle(file);
    return nullptr;
  }
  size = static_cast<std::uint64_t>(length.QuadPart);
  const int descriptor = _open_osfhandle(reinterpret_cast<std::intptr_t>(file), _O_RDONLY);
  if (descriptor < 0) {
    CloseHandle(file);
    return nullptr;
  }
  std::FILE* opened = _fdopen(descriptor, "rb");
  if (opened == nullptr) _close(descriptor);
  return opened;
}

// Descriptors are the C library's here, not SQLite's.
int find_open_file(const std::string&) {
  return -1;
}

std::size_t read_pieces(int, std::uint64_t, std::span<const std::span<std::byte>>) {
  return 0;
}

}  // namespace warplite::os
#endif
