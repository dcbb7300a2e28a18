// Random numbers for locality-sensitive hashing: splitmix64, and the distributions that its
// families are drawn from. The logarithm and the trigonometric functions may differ in the last bit
// from one machine to another: what is drawn is stored in the model, and never drawn again.
// Threads: one at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace warplite::index {

class LshRandom {
 public:
  explicit LshRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Returns a number within (0, 1), and never either end.
  double uniform() { return (static_cast<double>((*this)() >> 12) + 0.5) * 0x1p-52; }

  // Returns a normally distributed number of mean 0 and variance 1, after Box and Muller. The
  // distribution is 2-stable.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  // 1-stable.
  double cauchy() { return std::tan(std::numbers::pi * (uniform() - 0.5)); }
  // Gamma of shape 2: the sum of two exponential ones.
  double gamma2(double scale) { return -scale * (std::log(uniform()) + std::log(uniform())); }

 private:
  std::uint64_t state_;
};

}  // namespace warplite::index
