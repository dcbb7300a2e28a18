// One search's way through a GPU: a stream, scratch memory on the device, and pinned memory for
// what goes there and comes back. Lanes are few and kept, so that a search allocates nothing.
// Threads: a lane belongs to one search at a time; Gpu::lane() may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "core/process/derived_store.h"
#include "gpu/runtime/arena.h"
#include "gpu/runtime/blas.h"
#include "gpu/runtime/cuda_raii.h"

namespace warplite::gpu {

// Call this between steps on the host. Throws Error{kInterrupted}.
void ask(compute::Cancellation* cancellation);

class Lane {
 public:
  // `kept`: bytes of each piece of memory that are not given back after a search.
  Lane(cudaMemPool_t pool, std::size_t kept) : pool_(pool), kept_(kept) {}

  cudaStream_t stream() const { return stream_; }
  cudaMemPool_t pool() const { return pool_; }

  // Room for what a plan has, whose contents are lost with the next call.
  Arena scratch(const Plan& plan) { return Arena(grow(scratch_, plan.size())); }
  // A second piece of device memory, for what outlives several passes.
  Arena table(const Plan& plan) { return Arena(grow(table_, plan.size())); }
  // Pinned memory: what is sent with the table and with queries, and what kernels write for the
  // host to read. What was sent may be overwritten after wait().
  Staging outgoing_table(const Plan& plan) { return Staging(grow(outgoing_table_, plan.size())); }
  Staging outgoing(const Plan& plan) { return Staging(grow(outgoing_, plan.size())); }
  Arena incoming(const Plan& plan) { return Arena(grow(incoming_, plan.size())); }
  // The same for `count` elements of one kind.
  template <typename T>
  T* incoming(std::size_t count) {
    Plan plan;
    const Slot<T> all(plan, count);
    return incoming(plan)[all];
  }

  // cuBLAS on the stream. REQUIRES: blas_works().
  Blas& blas();

  // Waits for all work on the stream. Throws Error{kInterrupted} when cancelled; the work that was
  // launched ends first, so launch no more at a time than a few milliseconds of it.
  void wait(compute::Cancellation* cancellation);

  // Gives memory back that only a large search needed.
  void trim();

 private:
  std::byte* grow(DeviceBytes& bytes, std::size_t size);
  std::byte* grow(PinnedBytes& bytes, std::size_t size);

  cudaMemPool_t pool_;
  const std::size_t kept_;
  Stream stream_;
  DeviceBytes scratch_, table_;
  PinnedBytes outgoing_table_, outgoing_, incoming_;
  std::unique_ptr<Blas> blas_;  // once it was wanted: making one takes longer than a search
};

// A CUDA device. Constructed with it as the thread's current device; calls into CUDA are made while a
// CurrentDevice lives.
class Gpu {
 public:
  explicit Gpu(int ordinal);

  int ordinal() const { return ordinal_; }
  const std::string& model() const { return model_; }
  std::size_t memory_total() const { return memory_total_; }
  unsigned multiprocessors() const { return multiprocessors_; }
  // 10 · major + minor.
  int capability() const { return capability_; }
  std::size_t shared_memory() const { return shared_memory_; }  // that a thread block may have
  cudaMemPool_t pool() const { return pool_; }
  // Says whether this GPU copies from the other one's memory without the host. Threads: any.
  bool reaches(const Gpu& other);
  // What searches keep for the next one.
  DerivedStore& derived() const { return derived_; }

  // A free lane, once there is one. It comes back by itself. Throws Error{kInterrupted}.
  class Return;
  using Borrowed = std::unique_ptr<Lane, Return>;
  Borrowed lane(compute::Cancellation* cancellation);

 private:
  Gpu(int ordinal, const cudaDeviceProp& properties);
  void give_back(Lane* lane);

  const int ordinal_;
  std::string model_;
  std::size_t memory_total_ = 0;
  unsigned multiprocessors_ = 0;
  int capability_ = 0;
  std::size_t shared_memory_ = 0;
  MemoryPool pool_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Lane>> free_;
  unsigned made_ = 0;
  std::map<const Gpu*, bool> reached_;  // those that were asked for
  mutable DerivedStore derived_;  // goes first
};

class Gpu::Return {
 public:
  explicit Return(Gpu* gpu = nullptr) : gpu_(gpu) {}
  void operator()(Lane* lane) const { gpu_->give_back(lane); }

 private:
  Gpu* gpu_;
};

}  // namespace warplite::gpu
