#include "bench/machine_peaks.h"

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace warplite::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Makes the compiler compute `value`.
template <typename T>
void keep(T& value) {
  asm volatile("" : "+m"(value));
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void read_avx512(const std::byte* data, std::size_t bytes) {
  __m512i sum[8] = {};
  for (std::size_t i = 0; i + 512 <= bytes; i += 512) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(data + i + 64 * j));
    }
  }
  for (__m512i& part : sum) keep(part);
}

__attribute__((target("avx2"))) void read_avx2(const std::byte* data, std::size_t bytes) {
  __m256i sum[8] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const __m256i* from = reinterpret_cast<const __m256i*>(data + i + 32 * j);
      sum[j] = _mm256_xor_si256(sum[j], _mm256_loadu_si256(from));
    }
  }
  for (__m256i& part : sum) keep(part);
}

// Sixteen chains hide the latency of two units of four or five cycles.
constexpr int kChains = 16;

__attribute__((target("avx512f"))) double fma_avx512(std::size_t rounds) {
  __m512 sum[kChains];
  for (int j = 0; j < kChains; ++j) sum[j] = _mm512_set1_ps(static_cast<float>(j));
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.5f);
  for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) sum[j] = _mm512_fmadd_ps(sum[j], x, y);
  }
  for (__m512& part : sum) keep(part);
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx2,fma"))) double fma_avx2(std::size_t rounds) {
  __m256 sum[12];  // the most that sixteen registers hold beside the operands
  for (int j = 0; j < 12; ++j) sum[j] = _mm256_set1_ps(static_cast<float>(j));
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.5f);
  for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) sum[j] = _mm256_fmadd_ps(sum[j], x, y);
  }
  for (__m256& part : sum) keep(part);
  return 2.0 * 8 * 12 * static_cast<double>(rounds);
}
#endif

// The compiler's own vectors: SSE2, NEON and anything else.
using Words = std::uint64_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));

void read_any(const std::byte* data, std::size_t bytes) {
  Words sum[8] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      Words words;
      std::memcpy(&words, data + i + 16 * j, sizeof words);
      sum[j] ^= words;
    }
  }
  for (Words& part : sum) keep(part);
}

double fma_any(std::size_t rounds) {
  Floats sum[12];
  for (int j = 0; j < 12; ++j) sum[j] = Floats{} + static_cast<float>(j);
  const Floats x = Floats{} + 0.999f, y = Floats{} + 0.5f;
  for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) sum[j] = sum[j] * x + y;
  }
  for (Floats& part : sum) keep(part);
  return 2.0 * 4 * 12 * static_cast<double>(rounds);
}

void read_once(const std::byte* data, std::size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_avx512(data, bytes);
  if (__builtin_cpu_supports("avx2")) return read_avx2(data, bytes);
#endif
  read_any(data, bytes);
}

double fma_once(std::size_t rounds) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return fma_avx512(rounds);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma_avx2(rounds);
#endif
  return fma_any(rounds);
}

// Runs `work(thread)` on every thread at once, `runs` times; the shortest time in seconds.
double best_time(int threads, int runs, const std::function<void(int)>& work) {
  std::barrier gate(threads + 1);
  std::vector<std::jthread> team;
  for (int t = 0; t < threads; ++t) {
    team.emplace_back([&gate, &work, runs, t] {
      for (int run = 0; run < runs; ++run) {
        gate.arrive_and_wait();
        work(t);
        gate.arrive_and_wait();
      }
    });
  }
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const Clock::time_point start = Clock::now();
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

double streaming_read_seconds(std::size_t bytes, int threads, int runs) {
  constexpr std::size_t kHugePage = std::size_t{1} << 21;
  const std::size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kHugePage, size),
                                                           &std::free);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  madvise(memory.get(), size, MADV_HUGEPAGE);  // a hint: smaller pages only cost a few per cent
#endif
  std::memset(memory.get(), 1, size);
  const std::byte* data = static_cast<const std::byte*>(memory.get());
  const std::size_t share = bytes / static_cast<std::size_t>(threads) / 512 * 512;
  return best_time(threads, runs, [&](int thread) {
    read_once(data + static_cast<std::size_t>(thread) * share, share);
  });
}

double fma_flops(int threads, int runs) {
  constexpr std::size_t kRounds = 4'000'000;
  std::vector<double> done(static_cast<std::size_t>(threads));
  const double seconds = best_time(threads, runs, [&](int thread) {
    done[static_cast<std::size_t>(thread)] = fma_once(kRounds);
  });
  double total = 0;
  for (double flops : done) total += flops;
  return total / seconds;
}

}  // namespace warplite::bench
