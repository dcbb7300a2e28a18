// LshOptions are what `index=lsh(…)` says, and what holds where it does not. papers/genie-2018 §IV,
// §VI.
//   family   e2lsh    p-stable projections, distance=l2 or l1; what those have
//            rbh      random binning for the Laplacian kernel exp(−‖x − y‖₁ / σ), distance=l1
//            simhash  signs of random projections, distance=cosine; what it has
//   m        1 … 65,536 functions; 237
//   epsilon, delta   instead of m: as many functions as make the error of match count / m at most
//            epsilon with probability 1 − delta; 0.06 for that which is not given. epsilon from
//            0.001, delta from 0.000001, both up to 0.5
//   buckets  2 … 2²⁰ that a function's values are hashed into; 8192. simhash has 2
//   width    of e2lsh: of a bucket; chosen from a sample, see lsh_training.h
//   sigma    of rbh: of the kernel; chosen from a sample, see lsh_training.h
//            m and buckets so that a row's signature takes at most 8,192 bytes (lsh_codes.h), and
//            m so that a model takes at most 512 MiB
//   seed     0 … 2³² − 1, of the random numbers; 0
//   refine   0 … 10,000; 8: of 8·k candidates, k being taken for 4 at least, the true
//            distances decide
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "index/index.h"

namespace warplite::index {

// Persisted in models: values never change.
enum class LshFamily : std::uint8_t { kE2lsh = 1, kRbh = 2, kSimhash = 3 };

struct LshOptions {
  LshFamily family = LshFamily::kE2lsh;
  std::uint32_t m = 237;
  std::uint32_t buckets = 8192;
  double width = 0;  // 0: chosen when training
  double sigma = 0;  // 0: chosen when training
  std::uint32_t seed = 0;
  std::size_t refine = 8;
};

// Throws Error{kInvalid} that names the parameter, what was expected and what came.
LshOptions parse_lsh(const Spec& spec, const ColumnShape& column);

std::string_view name(LshFamily family);

// The least m for which |c / m − s| ≤ epsilon with probability 1 − delta, where c is the match
// count of two vectors that m functions each give the same bucket with probability s:
//   Pr = Σ (m choose c) s^c (1 − s)^(m − c)   over whole c, (s − epsilon)·m ≤ c ≤ (s + epsilon)·m
// 0 when there is none up to 65,536. 237 for 0.06 and 0.06, as the paper has (§IV-B2, figure 8).
//
// This is Eqn. 8. Eqn. 9 rounds the ends of the sum outwards, to ⌊(s − ε)m⌋ and ⌈(s + ε)m⌉, which
// takes in counts that are wrong by more than ε: for s = 1/2 it is met by m = 202, and by all m
// from 226 on, so that it is not what the paper's 237 comes from. Nor is s the 1/2 at which the
// paper finds the largest m, but 0.49: at 1/2 both ends pass a whole number at the same m, and
// whether an m suffices depends on its being even (234, 236 and 238 do; 235, 237 and 239 do not).
// The probability is no smooth function of m and s: with m = 237 it is 0.931 or more for every s.
// The bound of Theorem IV.1 asks for 2·ln(3 / delta) / epsilon², which is 2174.
std::uint32_t functions_for(double epsilon, double delta);

// Returns that probability.
double estimate_probability(std::uint32_t m, double s, double epsilon);

}  // namespace warplite::index
