// The two records of a table: its State and the directory entry of a segment.
// docs/file_format.md, "Records".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/chunk.h"
#include "storage/codec/records.h"

namespace warplite::storage {

// The largest sequence number of a tail row; what follows it can still be counted.
inline constexpr std::int64_t kMaxSequence = std::int64_t{1} << 62;

std::string encode_state(const State& state);
// Throws Error{kCorrupt} when the record is damaged or holds impossible values.
State decode_state(std::span<const std::byte> record, const Layout& layout);
// Just the generation: looks at lengths, not at the checksum.
Stamp decode_generation(std::span<const std::byte> record);

std::string encode_segment(const SegmentInfo& info, const Layout& layout);
// Does what decode_state does. `id` is the id of the row that held the record.
SegmentInfo decode_segment(std::span<const std::byte> record, std::int64_t id,
                           const Layout& layout);

}  // namespace warplite::storage
