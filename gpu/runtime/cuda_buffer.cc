#include "gpu/runtime/cuda_buffer.h"

namespace warplite::gpu {

CudaBuffer::CudaBuffer(Gpu& gpu, Upload& upload, const compute::HostBytes& bytes,
                       std::atomic<std::size_t>& used)
    : gpu_(gpu), used_(used), size_(bytes.size), memory_(bytes.size, gpu.pool(), upload.stream()) {
  if (!copy(dynamic_cast<const CudaBuffer*>(bytes.twin.get()), upload.stream())) {
    upload.send(bytes.data, size_, memory_.data());
  }
  data_ = memory_.data();
  used_ += size_;
}

// Whatever fails on the way, the host has the bytes too.
bool CudaBuffer::copy(const CudaBuffer* twin, cudaStream_t stream) {
  if (twin == nullptr || twin->mapped() || twin->size_ != size_ || !gpu_.reaches(twin->gpu_)) {
    return false;
  }
  cudaError_t code = cudaMemcpyPeerAsync(memory_.data(), gpu_.ordinal(), twin->data_,
                                         twin->gpu_.ordinal(), size_, stream);
  if (code == cudaSuccess) code = cudaStreamSynchronize(stream);
  if (code != cudaSuccess) cudaGetLastError();
  return code == cudaSuccess;
}

CudaBuffer::CudaBuffer(Mapped, Gpu& gpu, compute::HostBytes bytes, std::atomic<std::size_t>& used)
    : gpu_(gpu), used_(used), size_(bytes.size), host_(std::move(bytes)) {
  // Read-only for the device; CUDA wants a pointer to non-const all the same.
  void* address = const_cast<std::byte*>(host_.data);
  const cudaError_t pinned =
      cudaHostRegister(address, size_, cudaHostRegisterMapped | cudaHostRegisterPortable);
  if (pinned == cudaErrorHostMemoryAlreadyRegistered) {
    cudaGetLastError();
    throw Error(ErrorKind::kLimit, "somebody else has pinned these vectors");
  }
  check(pinned, "pinning vectors");
  void* mapped = nullptr;
  const cudaError_t code = cudaHostGetDevicePointer(&mapped, address, 0);
  if (code != cudaSuccess) cudaHostUnregister(address);
  check(code, "mapping pinned vectors");
  data_ = static_cast<const std::byte*>(mapped);
}

CudaBuffer::~CudaBuffer() {
  // Freeing must reach the right device from whatever thread lets go of the buffer. On a device
  // that was lost these calls fail, and there is nothing left to free.
  try {
    ending_.emplace(gpu_.ordinal());
  } catch (const Error&) {
    return;
  }
  if (mapped()) {
    cudaHostUnregister(const_cast<std::byte*>(host_.data));
  } else {
    used_ -= size_;
  }
}

}  // namespace warplite::gpu
