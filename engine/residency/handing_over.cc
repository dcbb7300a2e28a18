#include "engine/residency/handing_over.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "engine/residency/attempt.h"

namespace warplite::engine {

Residency::CopyOnDevice hand_over(compute::Device& device, const CacheKey& key,
                                  std::shared_ptr<const ResidentVectors> bytes) {
  Residency& memory = Residency::instance();
  std::shared_ptr<const compute::Buffer> buffer;  // so that it stays there
  const Status status = memory.buffer(device, key, bytes, &buffer);
  if (is_devices_fault(status.kind)) throw NotTaken(status.kind, status.message);
  status.raise();
  Residency::CopyOnDevice copy = memory.copy_on(device, key);
  if (copy.buffer == nullptr) throw NotTaken(ErrorKind::kNoMemory, "no room for what is handed over");
  bytes.reset();
  memory.leave_to_devices(key);
  return copy;
}

// How many words, those words, what is in front.
Bytes head_of(const storage::VectorBlock& block) {
  const std::uint64_t words = block.present.word_count();
  const std::byte* const begin = block.memory.data();
  const std::byte* const vectors = block.vectors.data;
  const bool within = std::greater_equal<>()(vectors, begin) &&
                      std::less_equal<>()(vectors, begin + block.memory.size());
  const std::size_t front = within ? static_cast<std::size_t>(vectors - begin) : 0;
  const std::size_t present = words * sizeof words;
  Bytes head(sizeof words + present + front);
  std::memcpy(head.data(), &words, sizeof words);
  if (present != 0) std::memcpy(head.data() + sizeof words, block.present.words(), present);
  if (front != 0) std::memcpy(head.data() + sizeof words + present, begin, front);
  return head;
}

Bitmap rows_with_vector(const Bytes& head, std::size_t rows) {
  std::uint64_t words = 0;
  std::memcpy(&words, head.data(), sizeof words);
  if (words == 0) return {};
  Bitmap present(rows);
  WARP_CHECK(present.word_count() == words);
  std::memcpy(present.words(), head.data() + sizeof words, words * sizeof words);
  return present;
}

void Refusals::note(const compute::Device& device, std::chrono::steady_clock::duration took) {
  constexpr std::chrono::minutes kLeast{1};
  constexpr int kTimes = 20;
  std::erase_if(refusals_, [&](const Refusal& refusal) { return refusal.device == &device; });
  const auto lasts = std::max<std::chrono::steady_clock::duration>(kLeast, kTimes * took);
  refusals_.push_back({&device, std::chrono::steady_clock::now() + lasts});
}

bool Refusals::include(const compute::Device& device) const {
  return std::any_of(refusals_.begin(), refusals_.end(), [&](const Refusal& refusal) {
    return refusal.device == &device && std::chrono::steady_clock::now() < refusal.ends;
  });
}

}  // namespace warplite::engine
