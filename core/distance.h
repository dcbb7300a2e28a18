// The list of distances. A new one is a value and a row here, its definition in compute/reference.cc,
// a loop in cpu/scan/ and a functor in gpu/rows/row_score.cuh; without one of these nothing
// compiles. Smaller is nearer for all of them (ip is the negative inner product).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "core/listing.h"
#include "core/types.h"

namespace warplite {

// Persisted: values never change.
enum class Distance : std::uint8_t {
  kL2 = 1,            // √Σ(x−y)²
  kCosine = 2,        // max(0, 1 − x·y/√(x·x · y·y)); 1 when either is zero
  kInnerProduct = 3,  // −x·y, −0 made 0
  kL1 = 4,            // Σ|x−y|
  kHamming = 5,       // bits that differ
  kJaccard = 6,       // bits that differ / bits that either has; 0 when neither has any
};

// The space in which vectors are near each other, for indexes that need the triangle inequality.
// Under cosine it is the sphere of unit vectors, where angles are the distance; they are held as
// chords (‖x/‖x‖ − y/‖y‖‖ = 2·sin(angle/2)), which ascend with them.
enum class MetricSpace : std::uint8_t { kL2, kL1, kAngle };

struct DistanceInfo {
  Distance distance;
  std::string_view name;             // in SQL: distance=name
  const char* function;              // the same of two vectors
  bool bits;                         // takes BIT vectors, else vectors of numbers
  bool product;                      // a product of vectors bounds it: batches, inverted files
  bool norms;                        // divides by the vectors' norms: only directions count
  std::optional<MetricSpace> space;  // that metric indexes search
};

inline constexpr DistanceInfo kDistances[] = {
    {Distance::kL2, "l2", "vec_distance_l2", false, true, false, MetricSpace::kL2},
    {Distance::kCosine, "cosine", "vec_distance_cosine", false, true, true, MetricSpace::kAngle},
    {Distance::kInnerProduct, "ip", "vec_distance_ip", false, true, false, std::nullopt},
    {Distance::kL1, "l1", "vec_distance_l1", false, false, false, MetricSpace::kL1},
    {Distance::kHamming, "hamming", "vec_distance_hamming", true, false, false, std::nullopt},
    {Distance::kJaccard, "jaccard", "vec_distance_jaccard", true, false, false, std::nullopt},
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
  return info(distance).bits == is_bits(type);
}

constexpr Distance default_distance(ElementType type) {
  return is_bits(type) ? Distance::kHamming : Distance::kL2;
}

// Calls visit.template operator()<kDistance>() for every distance of vectors of that type.
template <ElementType kType, std::size_t kRow = 0, typename Visit>
constexpr void for_each_distance(const Visit& visit) {
  if constexpr (kRow < std::size(kDistances)) {
    constexpr Distance kDistance = kDistances[kRow].distance;
    if constexpr (applies(kDistance, kType)) visit.template operator()<kDistance>();
    for_each_distance<kType, kRow + 1>(visit);
  }
}

// True when a product of vectors bounds these distances and no others: what tells those apart by name
// asserts it.
constexpr bool products_are(std::initializer_list<Distance> known) {
  std::size_t rows = 0, named = 0;
  for (const DistanceInfo& row : kDistances) rows += row.product ? 1 : 0;
  for (const Distance distance : known) named += info(distance).product ? 1 : 0;
  return rows == named && named == known.size();
}

// "l2, cosine or ip", of the rows that `chosen` takes.
template <typename Chosen>
std::string distances_listed(const Chosen& chosen, std::string_view last = " or ") {
  return listing(kDistances, chosen, [](const DistanceInfo& row) { return row.name; }, last);
}
// "FLOAT, FLOAT16 or INT8".
template <typename Chosen>
std::string element_types_listed(const Chosen& chosen,
                                 const char* ElementInfo::* name = &ElementInfo::declared) {
  return listing(kElementTypes, [&](const ElementInfo& row) { return chosen(row.type); },
                 [&](const ElementInfo& row) { return std::string_view(row.*name); });
}

}  // namespace warplite
