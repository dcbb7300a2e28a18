#include "gpu/runtime/host_pin.h"

#include <map>
#include <mutex>
#include <utility>

#include "gpu/runtime/cuda_raii.h"

namespace warplite::gpu {
namespace {

// The driver takes pointers to non-const, of what it only reads.
void* address(const std::byte* data) {
  return const_cast<std::byte*>(data);
}

// Ranges that are pinned, and for how many. The lock is held while the driver pins one, which may
// take a second: who wants the same one waits for it, and the driver pins one after the other.
class PinnedRanges {
 public:
  // Never destroyed: buffers of static objects may end after it.
  static PinnedRanges& instance() {
    static PinnedRanges& ranges = *new PinnedRanges;
    return ranges;
  }

  void add(const std::byte* data, std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = ranges_.try_emplace({data, size});
    if (!fresh) {
      ++at->second.users;
      return;
    }
    try {
      at->second.ordinal = pin(data, size);
    } catch (...) {
      ranges_.erase(at);
      throw;
    }
  }

  void remove(const std::byte* data, std::size_t size) noexcept {
    const std::lock_guard lock(mutex_);
    const auto at = ranges_.find({data, size});
    if (--at->second.users != 0) return;
    try {
      const CurrentDevice current(at->second.ordinal);
      if (cudaHostUnregister(address(data)) != cudaSuccess) cudaGetLastError();
    } catch (const Error&) {
      // The GPU was lost, and the driver's work with it.
    }
    ranges_.erase(at);
  }

 private:
  struct Range {
    int ordinal = 0;  // of the GPU that was current when it was pinned
    std::size_t users = 1;
  };

  // Returns the ordinal of the current GPU.
  static int pin(const std::byte* data, std::size_t size) {
    int ordinal = 0;
    check(cudaGetDevice(&ordinal), "pinning memory");
    const cudaError_t code =
        cudaHostRegister(address(data), size, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (code == cudaErrorHostMemoryAlreadyRegistered) {
      cudaGetLastError();
      throw Error(ErrorKind::kLimit, "somebody else has pinned this memory");
    }
    check(code, "pinning memory");
    return ordinal;
  }

  std::mutex mutex_;
  std::map<std::pair<const std::byte*, std::size_t>, Range> ranges_;
};

}  // namespace

HostPin::HostPin(const std::byte* data, std::size_t size) : data_(data), size_(size) {
  if (size_ != 0) PinnedRanges::instance().add(data_, size_);
}

HostPin::~HostPin() {
  if (size_ != 0) PinnedRanges::instance().remove(data_, size_);
}

const std::byte* HostPin::on_device() const {
  if (size_ == 0) return nullptr;
  void* mapped = nullptr;
  check(cudaHostGetDevicePointer(&mapped, address(data_), 0), "mapping pinned memory");
  return static_cast<const std::byte*>(mapped);
}

}  // namespace warplite::gpu
