// A plain column's values as the payload of a block, and its zone map.
// docs/file_format.md, "Plain columns".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/column.h"
#include "storage/codec/records.h"

namespace warplite::storage {

// Appends the payload to `out`. REQUIRES: column.size() > 0 and not all values are NULL
void encode_column(const Column& column, std::string& out);

// Throws Error{kCorrupt} unless `payload` holds exactly `rows` values of `type`. `dim`: of sparse
// vectors.
Column decode_column(PlainType type, std::size_t rows, std::span<const std::byte> payload,
                     std::uint32_t dim = 0);

ZoneMap make_zone(const Column& column);

}  // namespace warplite::storage
