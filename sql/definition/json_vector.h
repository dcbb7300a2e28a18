// Reads '[1, 2.5, …]': a vector as JSON text.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "sql/definition/values.h"

namespace warplite::sql {

struct JsonVector {
  std::vector<std::byte> bytes;  // of the element type; BIT fills the last byte with zeros
  std::size_t count = 0;         // elements
};

// Throws Error{kInvalid} for anything but one flat array of numbers that fit `type` (BIT: 0 and 1,
// least significant bit first). Any number of elements, none included.
JsonVector parse_json_vector(std::string_view text, ElementType type, const Place& where);

// What an error says further about a text that has a vector's bytes: some languages bind every string as
// text. Nothing for other texts.
std::string_view advice_on_bytes(std::string_view text);

}  // namespace warplite::sql
