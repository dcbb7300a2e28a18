// The memory of this process.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace warplite {

// Bytes of the process that are in memory; 0 where the system does not say, or where a sanitizer
// has memory of its own for every byte.
inline std::size_t resident() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
#endif
  return 0;
}

}  // namespace warplite
