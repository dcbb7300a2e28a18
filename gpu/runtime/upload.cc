#include "gpu/runtime/upload.h"

#include <algorithm>
#include <cstring>

#include "gpu/runtime/cuda_error.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

constexpr std::size_t kPiece = std::size_t{8} << 20;
constexpr std::size_t kLeast = std::size_t{2} << 20;         // that are worth several threads
constexpr std::size_t kCopiedByThread = std::size_t{1} << 19;  // at a time

}  // namespace

void Upload::send(const std::byte* from, std::size_t size, std::byte* to) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (size >= kLeast && lock.try_lock() && has_pinned_memory()) {
    send_in_pieces(from, size, to);
  } else {
    check(cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, stream_), "sending vectors");
  }
  check(cudaStreamSynchronize(stream_), "sending vectors");
}

// It stays for the next bytes: to pin memory takes longer than to send as much.
bool Upload::has_pinned_memory() {
  try {
    for (Piece& piece : pieces_) {
      if (piece.bytes.size() == 0) piece.bytes = PinnedBytes(kPiece);
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoMemory) throw;
    return false;
  }
}

void Upload::send_in_pieces(const std::byte* from, std::size_t size, std::byte* to) {
  std::size_t number = 0;
  for (std::size_t first = 0; first < size; first += kPiece, ++number) {
    const Piece& piece = pieces_[number % 2];
    check(cudaEventSynchronize(piece.sent), "sending vectors");
    const std::size_t count = std::min(kPiece, size - first);
    const std::size_t parts = (count + kCopiedByThread - 1) / kCopiedByThread;
    in_parallel(parts, parts, [&](std::size_t i) {
      const std::size_t at = i * kCopiedByThread;
      std::memcpy(piece.bytes.data() + at, from + first + at,
                  std::min(kCopiedByThread, count - at));
    });
    check(cudaMemcpyAsync(to + first, piece.bytes.data(), count, cudaMemcpyHostToDevice, stream_),
          "sending vectors");
    check(cudaEventRecord(piece.sent, stream_), "sending vectors");
  }
}

}  // namespace warplite::gpu
