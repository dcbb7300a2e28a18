// Sums of bitmaps by carry-save, on vectors of one SIMD target: plane k of a sum has bit k of it, of
// as many counters as a vector has bits.
// Included once per target, after hwy/highway.h.
#if defined(WARPLITE_CARRY_SAVE) == defined(HWY_TARGET_TOGGLE)
#ifdef WARPLITE_CARRY_SAVE
#undef WARPLITE_CARRY_SAVE
#else
#define WARPLITE_CARRY_SAVE
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {

using Octets = hwy::HWY_NAMESPACE::CappedTag<std::uint8_t, 64>;
using OctetVector = hwy::HWY_NAMESPACE::VFromD<Octets>;
constexpr std::size_t kMostPlanes = 8;

// sum + a + b = sum' + 2 · carry, bit by bit.
HWY_INLINE OctetVector add_carry(OctetVector& sum, OctetVector a, OctetVector b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_AVX3
  // Any function of three bits is one instruction, of which Highway names but a few.
  const OctetVector carry{_mm512_ternarylogic_epi64(sum.raw, a.raw, b.raw, 0xe8)};
  sum = hn::Xor3(sum, a, b);
#else
  const OctetVector either = hn::Xor(a, b);
  const OctetVector carry = hn::Or(hn::And(a, b), hn::And(either, sum));
  sum = hn::Xor(either, sum);
#endif
  return carry;
}

// Adds `carry` at plane `from`.
template <std::size_t Planes>
HWY_INLINE void ripple(OctetVector* planes, std::size_t from, OctetVector carry) {
  namespace hn = hwy::HWY_NAMESPACE;
  HWY_UNROLL(8)
  for (std::size_t k = from; k < Planes; ++k) {
    const OctetVector next = hn::And(planes[k], carry);
    planes[k] = hn::Xor(planes[k], carry);
    carry = next;
  }
}

// Adds the vectors load(0) … load(n − 1) to planes of zeros. REQUIRES: n < 2^Planes
template <std::size_t Planes, class Load>
HWY_INLINE void add_all(const Load& load, std::size_t n, OctetVector* planes) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const OctetVector twos_a = add_carry(planes[0], load(i), load(i + 1));
    const OctetVector twos_b = add_carry(planes[0], load(i + 2), load(i + 3));
    const OctetVector fours_a = add_carry(planes[1], twos_a, twos_b);
    const OctetVector twos_c = add_carry(planes[0], load(i + 4), load(i + 5));
    const OctetVector twos_d = add_carry(planes[0], load(i + 6), load(i + 7));
    const OctetVector fours_b = add_carry(planes[1], twos_c, twos_d);
    ripple<Planes>(planes, 3, add_carry(planes[2], fours_a, fours_b));
  }
  if (i + 4 <= n) {
    const OctetVector twos_a = add_carry(planes[0], load(i), load(i + 1));
    const OctetVector twos_b = add_carry(planes[0], load(i + 2), load(i + 3));
    ripple<Planes>(planes, 2, add_carry(planes[1], twos_a, twos_b));
    i += 4;
  }
  for (; i < n; ++i) ripple<Planes>(planes, 0, load(i));
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#endif
