// Bytes of the host on their way to a GPU's memory. Large ones go through pinned memory, which
// several threads fill while the bus carries what was there before: the driver's own way through
// pinned memory has one thread, and takes seven times as long.
// Threads: any; who comes while another one sends goes the driver's way.
#pragma once

#include <cstddef>
#include <mutex>

#include "gpu/runtime/cuda_raii.h"

namespace warplite::gpu {

class Upload {
 public:
  // Copies the bytes, and waits until they are there.
  void send(const std::byte* from, std::size_t size, std::byte* to);
  // The stream on which they are sent.
  cudaStream_t stream() const { return stream_; }

 private:
  struct Piece {
    PinnedBytes bytes;
    Event sent;
  };
  bool has_pinned_memory();
  void send_in_pieces(const std::byte* from, std::size_t size, std::byte* to);

  Stream stream_;
  std::mutex mutex_;  // of the pieces
  Piece pieces_[2];   // without bytes until they are needed
};

}  // namespace warplite::gpu
