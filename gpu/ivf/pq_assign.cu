#include "gpu/ivf/pq_assign.h"

#include <algorithm>
#include <cstring>

#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kBatch = 65536;  // rows

struct Assign {
  const float* rows;
  std::uint32_t count, dim, m, codewords;
  const float* codebooks;
  std::uint8_t* out;
};

__device__ float half_square(const float* codeword, std::uint32_t n) {
  double square = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double c = codeword[i];
    square = __dadd_rn(square, __dmul_rn(c, c));
  }
  return __double2float_rn(__dmul_rn(square, 0.5));
}

// kFixed: elements of a sub-vector, known when compiled; 0: not known, and read from memory
// again and again.
template <unsigned kFixed>
__device__ std::uint32_t nearest_codeword(const float* row, const float* codewords,
                                          const float* halves, std::uint32_t count,
                                          std::uint32_t n) {
  float r[kFixed == 0 ? 1 : kFixed];
  if constexpr (kFixed != 0) {
#pragma unroll
    for (unsigned i = 0; i < kFixed; ++i) r[i] = row[i];
  }
  float least = __int_as_float(0x7f800000);
  std::uint32_t nearest = 0;
  for (std::uint32_t j = 0; j < count; ++j) {
    const float* c = codewords + j * n;
    float sum = 0;
    if constexpr (kFixed == 0) {
      for (std::uint32_t i = 0; i < n; ++i) sum = __fadd_rn(sum, __fmul_rn(row[i], c[i]));
    } else {
#pragma unroll
      for (unsigned i = 0; i < kFixed; ++i) sum = __fadd_rn(sum, __fmul_rn(r[i], c[i]));
    }
    const float e = __fsub_rn(halves[j], sum);
    if (e < least) {
      least = e;
      nearest = j;
    }
  }
  return nearest;
}

// One sub-space and kThreads rows a block; the codewords lie in shared memory.
template <unsigned kFixed>
__global__ void __launch_bounds__(kThreads) assign_kernel(Assign work) {
  extern __shared__ float shared[];
  const std::uint32_t n = work.dim / work.m, s = blockIdx.y;
  float* const codewords = shared;
  float* const halves = shared + work.codewords * n;
  const float* from = work.codebooks + std::size_t{s} * work.codewords * n;
  for (std::uint32_t i = threadIdx.x; i < work.codewords * n; i += kThreads) {
    codewords[i] = from[i];
  }
  __syncthreads();
  for (std::uint32_t j = threadIdx.x; j < work.codewords; j += kThreads) {
    halves[j] = half_square(codewords + j * n, n);
  }
  __syncthreads();
  const std::uint32_t row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= work.count) return;
  work.out[std::size_t{row} * work.m + s] = static_cast<std::uint8_t>(
      nearest_codeword<kFixed>(work.rows + std::size_t{row} * work.dim + s * n, codewords, halves,
                               work.codewords, n));
}

void launch(const Assign& work, cudaStream_t stream) {
  const std::uint32_t n = work.dim / work.m;
  const std::size_t bytes = std::size_t{work.codewords} * (n + 1) * sizeof(float);
  const dim3 blocks((work.count + kThreads - 1) / kThreads, work.m);
  const auto run = [&](auto* kernel) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "coding rows");
    kernel<<<blocks, kThreads, bytes, stream>>>(work);
  };
  switch (n) {
    case 2: run(assign_kernel<2>); break;
    case 4: run(assign_kernel<4>); break;
    case 8: run(assign_kernel<8>); break;
    default: run(assign_kernel<0>);
  }
  check_launch("coding rows");
}

}  // namespace

void assign_codes(Lane& lane, const compute::PqAssignWork& work) {
  const std::size_t batch = std::min(kBatch, work.count);
  Plan plan;
  const Slot<float> codebooks(plan, std::size_t{work.codewords} * work.dim);
  const Slot<float> rows(plan, batch * work.dim);
  const Slot<std::uint8_t> out(plan, batch * work.m);
  const Arena arena = lane.scratch(plan);
  Plan sent;
  const Slot<float> piece(sent, std::max(codebooks.count(), rows.count()));
  float* const host = lane.outgoing(sent)[piece].data();
  auto* const results = lane.incoming<std::uint8_t>(out.count());
  const auto send = [&](float* to, const float* from, std::size_t count) {
    std::copy_n(from, count, host);
    check(cudaMemcpyAsync(to, host, count * sizeof(float), cudaMemcpyHostToDevice, lane.stream()),
          "sending rows");
  };
  send(arena[codebooks], work.codebooks, codebooks.count());
  lane.wait(work.cancellation);
  for (std::size_t first = 0; first < work.count; first += batch) {
    const std::size_t count = std::min(batch, work.count - first);
    send(arena[rows], work.rows + first * work.dim, count * work.dim);
    launch({arena[rows], static_cast<std::uint32_t>(count), work.dim, work.m, work.codewords,
            arena[codebooks], arena[out]},
           lane.stream());
    check(cudaMemcpyAsync(results, arena[out], count * work.m, cudaMemcpyDeviceToHost,
                          lane.stream()),
          "fetching codes");
    lane.wait(work.cancellation);
    std::copy_n(results, count * work.m, work.out + first * work.m);
  }
}

}  // namespace warplite::gpu
