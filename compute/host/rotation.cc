#include "compute/host/rotation.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

#include "compute/host/host_kernels.h"

namespace warplite::compute {
namespace {

// What each round flips, of `size` elements, and then once nothing: 0s.
std::unique_ptr<std::uint32_t[]> make_flips(std::size_t size) {
  auto flips = std::make_unique<std::uint32_t[]>((kRotationRounds + 1) * size);
  for (std::uint32_t round = 0; round < kRotationRounds; ++round) {
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t bits = rotation_flips(round, i / 64) >> i % 64;
      flips[round * size + i] = static_cast<std::uint32_t>(bits) << 31;
    }
  }
  return flips;
}

// Made once for each power of two, of all dimensions up to it: a query waits for a rotation. They
// stay as long as the process does.
const std::uint32_t* kept_flips(std::size_t size) {
  static std::atomic<const std::uint32_t*> kept[64];
  std::atomic<const std::uint32_t*>& place = kept[std::countr_zero(size)];
  const std::uint32_t* flips = place.load(std::memory_order_acquire);
  if (flips != nullptr) return flips;
  std::unique_ptr<std::uint32_t[]> made = make_flips(size);
  if (place.compare_exchange_strong(flips, made.get())) flips = made.release();
  return flips;
}

void flip(std::uint32_t count, const std::uint32_t* flips, float* vector) {
  for (std::uint32_t i = 0; i < count; ++i) {
    vector[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(vector[i]) ^ flips[i]);
  }
}

// The rounds of vectors of one dimension.
class Rounds {
 public:
  explicit Rounds(std::uint32_t dim)
      : size_(std::bit_ceil(std::size_t{dim})),
        flips_(kept_flips(size_)),
        turn_(host_kernels().rotation_round) {
    round_.dim = dim;
    round_.n = rotation_length(dim);
    round_.scale = rotation_scale(round_.n);
    if (round_.n < HostKernels::kLeastTransform) turn_ = define_round;
  }

  // Flips as round `flips` does, kRotationRounds nothing, and transforms what `round` does.
  void turn(std::uint32_t flips, std::uint32_t round, float* vector) {
    round_.first = round % 2 == 0 ? 0 : round_.dim - round_.n;
    round_.flips = flips_ + flips * size_;
    turn_(round_, vector);
  }
  void flip_first(float* vector) const { flip(round_.dim, flips_, vector); }

 private:
  const std::size_t size_;
  const std::uint32_t* const flips_;
  void (*turn_)(const RotationRound&, float*);
  RotationRound round_{};
};

}  // namespace

void define_round(const RotationRound& round, float* vector) {
  flip(round.dim, round.flips, vector);
  float* const first = vector + round.first;
  for (std::uint32_t half = 1; half < round.n; half *= 2) {
    for (float* part = first; part != first + round.n; part += 2 * half) {
      for (std::uint32_t i = 0; i < half; ++i) {
        const float a = part[i], b = part[half + i];
        part[i] = a + b;
        part[half + i] = a - b;
      }
    }
  }
  for (std::uint32_t i = 0; i < round.n; ++i) first[i] *= round.scale;
}

void rotate_at_random(std::uint32_t dim, float* vector) {
  Rounds rounds(dim);
  for (std::uint32_t round = 0; round < kRotationRounds; ++round) rounds.turn(round, round, vector);
}

// A round flips after its transform: with the transform of the round before.
void rotate_back(std::uint32_t dim, float* vector) {
  Rounds rounds(dim);
  for (std::uint32_t round = kRotationRounds; round-- > 0;) rounds.turn(round + 1, round, vector);
  rounds.flip_first(vector);
}

}  // namespace warplite::compute
