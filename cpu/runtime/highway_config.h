// This is included before any Highway header: it says which targets are compiled. Nothing here may
// need libhwy at run time, since the product ships without it.
#pragma once

// Each target costs compile time; these add nothing that the kernels use. Bits below
// AVX3_DL are AVX-512 and AVX10 variants that only newer Highways name. SVE has vectors
// of unknown size, which cannot be held in arrays.
#define HWY_DISABLED_TARGETS                                                                  \
  (HWY_SSSE3 | HWY_AVX3_DL | 0x7FLL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
// Highway's own debug checks call into libhwy.
#define HWY_IS_DEBUG_BUILD 0

// One function of a file of kernels for each target, in the order of Target; null when that target
// is not compiled. They are in the namespace that HWY_NAMESPACE is in. A file may have `vbmi` of its
// own, in AVX3's namespace.
#define WARPLITE_EACH_TARGET_AND_VBMI(function, vbmi)                                         \
  {HWY_CHOOSE_AVX3(vbmi),     HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function),           \
   HWY_CHOOSE_SSE4(function), HWY_CHOOSE_NEON(function), HWY_CHOOSE_FALLBACK(function)}
#define WARPLITE_EACH_TARGET(function) WARPLITE_EACH_TARGET_AND_VBMI(function, function)
