// While a FlushDenormals lives, this thread's float operations take numbers below the normal range for zeros, and give
// zeros for them: processors take a hundred times as long for such a number as for another. Only what proves its
// bounds for that, too, may run meanwhile. Where the processor is no x86 and no 64-bit ARM it does nothing.
// Threads: each has its own state.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace warplite::cpu {

class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushResults | kZeroOperands); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    set(before_ | kFlush);
  }
  ~FlushDenormals() { set(before_); }
#else
  FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kFlushResults = 0x8000, kZeroOperands = 0x0040;
  const unsigned before_;
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;
  static void set(std::uint64_t state) { asm volatile("msr fpcr, %0" : : "r"(state)); }
  std::uint64_t before_ = 0;
#endif
};

}  // namespace warplite::cpu
