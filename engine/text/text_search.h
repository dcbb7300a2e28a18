// Searches of texts by the keywords they have in common with a query (index/text/text_index.h): match
// counts over postings, on the device that is worth it.
// Threads: as the view's connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compute/ops.h"
#include "engine/filter/filter.h"
#include "engine/table/view.h"
#include "index/text/text_index.h"

namespace warplite::engine {

// Stands for how many keywords a text has in common with a query, where that was not counted.
inline constexpr std::uint32_t kNotCounted = ~std::uint32_t{0};

struct TextRequest {
  std::size_t column = 0;  // index into Layout::plains
  index::TextIndex index;
  std::string device;      // empty: the configured one
  compute::Cancellation* cancellation = nullptr;
  // Keywords count by how few rows have them: kWeightUnit · ln(1 + n / df) instead of 1, where df of
  // the n rows have the keyword; rows that do not pass a filter are among both, dead ones are not.
  bool by_rarity = false;
};

inline constexpr double kWeightUnit = 1024;

// The k selected rows whose texts have most keywords in common with each query, as hits at distance
// −count; those that have none in common are left out. Counts are exact (with by_rarity up to
// keywords that are hashed, index/text/keyword_hash.h).
compute::HitTable most_common(const View& view, const Selection& rows, const TextRequest& request,
                              std::span<const std::string_view> queries, std::size_t k);
// The same, of rows whether they are there or not (content_hits.h): to be looked at more closely.
compute::HitTable candidates(const View& view, const Selection& rows, const TextRequest& request,
                             std::span<const std::string_view> queries, std::size_t k);

}  // namespace warplite::engine
