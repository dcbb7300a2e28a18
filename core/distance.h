// The list of distances. A new one is a row here, a function in
// compute/reference.cc, a loop in cpu/ and a functor in gpu/.
// Smaller is nearer for all of them (ip is the negative inner product).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/types.h"

namespace warplite {

// Persisted: values never change.
enum class Distance : std::uint8_t {
  kL2 = 1,            // √Σ(x−y)²
  kCosine = 2,        // max(0, 1 − x·y/√(x·x · y·y)); 1 when either is zero
  kInnerProduct = 3,  // −x·y, −0 made 0
  kL1 = 4,            // Σ|x−y|
  kHamming = 5,       // bits that differ
};

struct DistanceInfo {
  Distance distance;
  std::string_view name;  // in SQL: distance=name
  bool numeric;           // takes FLOAT, FLOAT16 and INT8 vectors
  bool bits;              // takes BIT vectors
  bool metric;            // obeys the triangle inequality: usable by metric indexes
};

inline constexpr DistanceInfo kDistances[] = {
    {Distance::kL2, "l2", true, false, true},
    {Distance::kCosine, "cosine", true, false, false},
    {Distance::kInnerProduct, "ip", true, false, false},
    {Distance::kL1, "l1", true, false, true},
    {Distance::kHamming, "hamming", false, true, true},
};

constexpr const DistanceInfo& info(Distance distance) {
  for (const DistanceInfo& row : kDistances) {
    if (row.distance == distance) return row;
  }
  return kDistances[0];
}

// `name` in lower case.
constexpr std::optional<Distance> distance_by_name(std::string_view name) {
  for (const DistanceInfo& row : kDistances) {
    if (row.name == name) return row.distance;
  }
  return std::nullopt;
}

constexpr bool applies(Distance distance, ElementType type) {
  return type == ElementType::kBit ? info(distance).bits : info(distance).numeric;
}

constexpr Distance default_distance(ElementType type) {
  return type == ElementType::kBit ? Distance::kHamming : Distance::kL2;
}

}  // namespace warplite
