// Owners of what CUDA hands out. Move-only; destructors never throw.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {

// Makes a GPU the thread's current one, and afterwards what was: others of the process, on the same
// thread, may be in the middle of work of their own. The driver is asked, not the runtime, since a
// thread that used no GPU must not begin one on the way back.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) : known_(get() != nullptr && get()(&before_) == CUDA_SUCCESS) {
    check(cudaSetDevice(ordinal), "choosing the GPU");
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (known_ && set() != nullptr) set()(before_);
  }

 private:
  using Get = CUresult (*)(CUcontext*);
  using Set = CUresult (*)(CUcontext);

  template <typename Function>
  static Function entry(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned kSince = 4000;  // the version of CUDA that has both
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion(name, &found, kSince, cudaEnableDefault, &result);
    if (code != cudaSuccess) cudaGetLastError();
    return reinterpret_cast<Function>(found);
  }
  static Get get() {
    static const Get function = entry<Get>("cuCtxGetCurrent");
    return function;
  }
  static Set set() {
    static const Set function = entry<Set>("cuCtxSetCurrent");
    return function;
  }

  CUcontext before_ = nullptr;
  const bool known_;
};

template <typename Handle, auto kDestroy>
class Owned {
 public:
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { kDestroy(handle_); }
  operator Handle() const { return handle_; }

 protected:
  Owned() = default;
  Handle handle_ = nullptr;
};

// A pool of device memory of our own, so that what the host program does with the device's
// default pool and what we do stay apart.
class MemoryPool : public Owned<cudaMemPool_t, cudaMemPoolDestroy> {
 public:
  // Keeps up to `kept` bytes that nobody uses.
  MemoryPool(int device, std::size_t kept) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    check(cudaMemPoolCreate(&handle_, &properties), "making a memory pool");
    cudaMemPoolSetAttribute(handle_, cudaMemPoolAttrReleaseThreshold, &kept);
  }
};

// Device memory. Usable by, and freed in the order of, the stream it was made on; others wait
// for that stream first.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  DeviceBytes(std::size_t size, cudaMemPool_t pool, cudaStream_t stream)
      : size_(size), stream_(stream) {
    if (size == 0) return;
    check(cudaMallocFromPoolAsync(&data_, size, pool, stream), "allocating GPU memory");
  }
  DeviceBytes(DeviceBytes&& other) noexcept { swap(other); }
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBytes() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }

  std::size_t size() const { return size_; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(DeviceBytes& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(stream_, other.stream_);
  }
  void* data_ = nullptr;
  std::size_t size_ = 0;
  cudaStream_t stream_ = nullptr;
};

// Pinned host memory that kernels may read and write in place.
class PinnedBytes {
 public:
  PinnedBytes() = default;
  explicit PinnedBytes(std::size_t size) : size_(size) {
    check(cudaHostAlloc(&data_, size, cudaHostAllocMapped | cudaHostAllocPortable),
          "allocating pinned memory");
  }
  PinnedBytes(PinnedBytes&& other) noexcept { swap(other); }
  PinnedBytes& operator=(PinnedBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBytes() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }

  std::size_t size() const { return size_; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void swap(PinnedBytes& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Stream : Owned<cudaStream_t, cudaStreamDestroy> {
  Stream() {
    check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "making a stream");
  }
};

struct Event : Owned<cudaEvent_t, cudaEventDestroy> {
  Event() {
    check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "making an event");
  }
};

}  // namespace warplite::gpu
