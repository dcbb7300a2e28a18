#include "gpu/runtime/lane.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace warplite::gpu {
namespace {

constexpr unsigned kMostLanes = 4;
// Of a GPU's memory, what its pool keeps, and each lane: ten thousand queries of inverted files
// take some 400 MB, and to ask for them anew takes as long as to search.
constexpr std::size_t kKeptPart = 32;
constexpr std::size_t kLeastKept = std::size_t{256} << 20, kMostKept = std::size_t{5} << 29;
// A lone query takes some hundred microseconds: until then waiting keeps the processor.
constexpr std::chrono::microseconds kSpin{2000};
// A nap is a small part of what was waited before, since the work may end at its beginning.
constexpr std::chrono::microseconds kLeastNap{20}, kMostNap{200};
constexpr int kNapPart = 128;

int attribute(cudaDeviceAttr name, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, ordinal), "asking the GPU for its properties");
  return value;
}

cudaDeviceProp properties_of(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "asking the GPU for its properties");
  return properties;
}

std::size_t kept_of(std::size_t memory) {
  return std::clamp(memory / kKeptPart, kLeastKept, kMostKept);
}

}  // namespace

void ask(compute::Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

Blas& Lane::blas() {
  if (blas_ == nullptr) blas_ = std::make_unique<Blas>(stream_);
  return *blas_;
}

void Lane::wait(compute::Cancellation* cancellation) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  bool cancelled = false;
  for (cudaError_t code; (code = cudaStreamQuery(stream_)) != cudaSuccess;) {
    if (code != cudaErrorNotReady) check(code, "searching on the GPU");
    const Clock::duration waited = Clock::now() - begin;
    if (waited < kSpin) continue;
    // Asked again and again: what it tells the device may come before what is still being sent.
    if (cancellation != nullptr && cancellation->requested()) cancelled = true;
    std::this_thread::sleep_for(
        std::clamp<Clock::duration>(waited / kNapPart, kLeastNap, kMostNap));
  }
  if (!cancelled && cancellation != nullptr) cancelled = cancellation->requested();
  if (cancelled) throw Error(ErrorKind::kInterrupted, "interrupted");
}

std::byte* Lane::grow(DeviceBytes& bytes, std::size_t size) {
  if (bytes.size() < size) {
    bytes = DeviceBytes();
    bytes = DeviceBytes(size + size / 4, pool_, stream_);
  }
  return bytes.data();
}

std::byte* Lane::grow(PinnedBytes& bytes, std::size_t size) {
  if (bytes.size() < size) {
    // Work that was launched may still read the old memory.
    check(cudaStreamSynchronize(stream_), "searching on the GPU");
    bytes = PinnedBytes();
    bytes = PinnedBytes(size + size / 4);
  }
  return bytes.data();
}

void Lane::trim() {
  if (scratch_.size() > kept_) scratch_ = DeviceBytes();
  if (table_.size() > kept_) table_ = DeviceBytes();
  if (outgoing_table_.size() > kept_) outgoing_table_ = PinnedBytes();
  if (outgoing_.size() > kept_) outgoing_ = PinnedBytes();
  if (incoming_.size() > kept_) incoming_ = PinnedBytes();
}

Gpu::Gpu(int ordinal) : Gpu(ordinal, properties_of(ordinal)) {}

Gpu::Gpu(int ordinal, const cudaDeviceProp& properties)
    : ordinal_(ordinal),
      memory_total_(properties.totalGlobalMem),
      pool_(ordinal, kept_of(properties.totalGlobalMem)) {
  model_ = properties.name;
  multiprocessors_ = static_cast<unsigned>(properties.multiProcessorCount);
  capability_ = 10 * properties.major + properties.minor;
  shared_memory_ =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
}

bool Gpu::reaches(const Gpu& other) {
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = reached_.try_emplace(&other, false);
  if (!fresh) return at->second;
  int linked = 0;
  cudaError_t code = cudaDeviceCanAccessPeer(&linked, ordinal_, other.ordinal_);
  if (code == cudaSuccess && linked != 0) {
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = ordinal_;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    code = cudaMemPoolSetAccess(other.pool_, &access, 1);
  }
  if (code != cudaSuccess) cudaGetLastError();
  return at->second = code == cudaSuccess && linked != 0;
}

Gpu::Borrowed Gpu::lane(compute::Cancellation* cancellation) {
  std::unique_lock lock(mutex_);
  if (free_.empty() && made_ < kMostLanes) {
    ++made_;
    try {
      return Borrowed(std::make_unique<Lane>(pool_, kept_of(memory_total_)).release(), Return(this));
    } catch (...) {
      --made_;
      throw;
    }
  }
  constexpr std::chrono::milliseconds kPause{5};
  while (!freed_.wait_for(lock, kPause, [this] { return !free_.empty(); })) {
    lock.unlock();
    ask(cancellation);
    lock.lock();
  }
  Lane* lane = free_.back().release();
  free_.pop_back();
  return Borrowed(lane, Return(this));
}

void Gpu::give_back(Lane* lane) {
  std::unique_ptr<Lane> owned(lane);
  // An error may have left work running in memory that the next search would use.
  cudaStreamSynchronize(lane->stream());
  lane->trim();
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(owned));
  freed_.notify_one();
}

}  // namespace warplite::gpu
