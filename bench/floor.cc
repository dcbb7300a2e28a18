// Prints what the machine can do as one JSON line:
//   bench_floor THREADS [BYTES…]   the time to read each number of bytes, and the FMA rate
#include <cstdio>
#include <cstdlib>

#include "bench/machine_peaks.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s THREADS [BYTES...]\n", argv[0]);
    return 2;
  }
  const int threads = std::atoi(argv[1]);
  std::printf("{\"threads\": %d, \"read_ms\": [", threads);
  for (int i = 2; i < argc; ++i) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
    const double seconds = warplite::bench::streaming_read_seconds(bytes, threads, 30);
    std::printf("%s%.4f", i == 2 ? "" : ", ", seconds * 1e3);
  }
  std::printf("], \"gflops\": %.1f}\n", warplite::bench::fma_flops(threads, 5) / 1e9);
  return 0;
}
