#include "gpu/runtime/lane.h"

#include <chrono>
#include <thread>

namespace warplite::gpu {
namespace {

constexpr unsigned kMostLanes = 4;
constexpr std::size_t kKeptByPool = std::size_t{256} << 20;
constexpr std::size_t kKeptByLane = std::size_t{256} << 20;
// A lone query takes some hundred microseconds: until then waiting keeps the processor.
constexpr std::chrono::microseconds kSpin{2000};
constexpr std::chrono::microseconds kNap{200};

int attribute(cudaDeviceAttr name, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, ordinal), "asking the GPU for its properties");
  return value;
}

}  // namespace

void ask(compute::Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

void Lane::wait(compute::Cancellation* cancellation) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  bool cancelled = false;
  for (cudaError_t code; (code = cudaStreamQuery(stream_)) != cudaSuccess;) {
    if (code != cudaErrorNotReady) check(code, "searching on the GPU");
    if (Clock::now() - begin < kSpin) continue;
    // Asked again and again: what it tells the device may come before what is still being sent.
    if (cancellation != nullptr && cancellation->requested()) cancelled = true;
    std::this_thread::sleep_for(kNap);
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
  if (scratch_.size() > kKeptByLane) scratch_ = DeviceBytes();
  if (table_.size() > kKeptByLane) table_ = DeviceBytes();
  if (outgoing_table_.size() > kKeptByLane) outgoing_table_ = PinnedBytes();
  if (outgoing_.size() > kKeptByLane) outgoing_ = PinnedBytes();
  if (incoming_.size() > kKeptByLane) incoming_ = PinnedBytes();
}

Gpu::Gpu(int ordinal) : ordinal_(ordinal), pool_(ordinal, kKeptByPool) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "asking the GPU for its properties");
  model_ = properties.name;
  memory_total_ = properties.totalGlobalMem;
  multiprocessors_ = static_cast<unsigned>(properties.multiProcessorCount);
  capability_ = 10 * properties.major + properties.minor;
  shared_memory_ =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
}

Gpu::Borrowed Gpu::lane(compute::Cancellation* cancellation) {
  std::unique_lock lock(mutex_);
  if (free_.empty() && made_ < kMostLanes) {
    ++made_;
    try {
      return Borrowed(std::make_unique<Lane>(pool_).release(), Return(this));
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
