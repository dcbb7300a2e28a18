// 32 texts that are compared with a query at once: those of a tile (compute/edit.h), or of a metric
// index (compute/edit_metric.h).
// Threads: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compute/edit_metric.h"

namespace warplite::cpu {

// Number of a character that no text of a tile has.
inline constexpr std::uint32_t kNoSymbol = 0xffffffff;

struct EditGroup {
  const std::byte* symbols = nullptr;      // interleaved; past a text's end none that occurs
  const std::uint16_t* lengths = nullptr;  // by place
  const std::uint16_t* rows = nullptr;     // by place; null: nobody asks
  std::uint32_t shortest = 0, longest = 0;
  std::uint32_t texts = 0;  // a bit to a place that has one
};

inline EditGroup group_of(const compute::MetricTexts& texts, std::uint32_t width,
                          const std::uint16_t* rows, std::size_t i) {
  const std::size_t place = i * compute::kEditGroup;
  EditGroup group;
  group.symbols = texts.group(i, width);
  group.lengths = texts.lengths.data() + place;
  group.rows = rows == nullptr ? nullptr : rows + place;
  group.longest = texts.begins[i + 1] - texts.begins[i];
  std::uint16_t shortest = compute::MetricTexts::kNoText;
  for (std::uint32_t at = 0; at < compute::kEditGroup; ++at) {
    const std::uint16_t length = group.lengths[at];
    shortest = std::min(shortest, length);
    group.texts |= std::uint32_t{length != compute::MetricTexts::kNoText} << at;
  }
  group.shortest = std::min<std::uint32_t>(shortest, group.longest);
  return group;
}

}  // namespace warplite::cpu
