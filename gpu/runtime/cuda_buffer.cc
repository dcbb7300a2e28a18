#include "gpu/runtime/cuda_buffer.h"

#include <utility>

namespace warplite::gpu {

CudaBuffer::CudaBuffer(Gpu& gpu, Upload& upload, const compute::HostBytes& bytes,
                       std::atomic<std::size_t>& used)
    : gpu_(gpu), used_(used), size_(bytes.size), memory_(bytes.size, gpu.pool(), upload.stream()) {
  hold(upload, bytes);
}

CudaBuffer::CudaBuffer(Gpu& gpu, Upload& upload, compute::HostBytes bytes, std::size_t held,
                       std::atomic<std::size_t>& used)
    : gpu_(gpu),
      used_(used),
      size_(bytes.size),
      host_(std::move(bytes)),
      // All of it, whatever part is held: another GPU may hold more or less of the same bytes.
      pin_(host_.data, size_),
      mapped_(pin_.on_device() + held),
      memory_(held, gpu.pool(), upload.stream()) {
  hold(upload, host_);
  host_.twin = nullptr;  // it was needed for the copy alone
}

void CudaBuffer::hold(Upload& upload, const compute::HostBytes& bytes) {
  if (held() == 0) return;
  if (!copy(dynamic_cast<const CudaBuffer*>(bytes.twin.get()), upload.stream())) {
    upload.send(bytes.data, held(), memory_.data());
  }
  used_ += held();
}

// Whatever fails on the way, the host has the bytes too.
bool CudaBuffer::copy(const CudaBuffer* twin, cudaStream_t stream) {
  if (twin == nullptr || twin->size_ != size_ || twin->held() < held() ||
      !gpu_.reaches(twin->gpu_)) {
    return false;
  }
  cudaError_t code = cudaMemcpyPeerAsync(memory_.data(), gpu_.ordinal(), twin->memory_.data(),
                                         twin->gpu_.ordinal(), held(), stream);
  if (code == cudaSuccess) code = cudaStreamSynchronize(stream);
  if (code != cudaSuccess) cudaGetLastError();
  return code == cudaSuccess;
}

CudaBuffer::~CudaBuffer() {
  // Freeing must reach the right device from whatever thread lets go of the buffer. On a device
  // that was lost these calls fail, and there is nothing left to free.
  try {
    ending_.emplace(gpu_.ordinal());
  } catch (const Error&) {
    return;
  }
  used_ -= held();
}

}  // namespace warplite::gpu
