// Codes of one segment's rows, as engine/ keeps them beside the vectors. Little-endian:
//   header  u32 magic, u32 version, u32 rows, u32 zero
//   lists   u16[rows], or u32[rows] when there are more than 65,535 lists; all ones: the row has
//           no vector. Zeros up to a multiple of four bytes
// and with codes (m != 0):
//   bias    float[rows], see compute/ivf.h; 0 for rows without a vector
//   codes   u8[rows][code_size]: m bytes with 8 bits; with 4 two codes a byte, the first in the low
//           half; 0 for rows without a vector
// and of RaBitQ codes, whose signs are these codes (compute/rabitq.h):
//   rest    u8[rows][rest_size]: f, g and, of more than one plane, F as float32, then the planes
//           after the signs; 0 for rows without a vector
// RaBitQ codes of version 2 keep of factors what searches make use of:
//   lists   u16[rows], or three bytes each; no zeros behind them
//   bias    float24[rows], which is the upper three bytes of a float32
//   rest    f as bfloat16, g as the u8 s of g = kErrors·|f|·s / 255, and F as float24, then planes
// Those of version 3 have a row's list in as many bits as the number of lists has, the first row in
// the lowest; zeros up to a whole byte. Those of version 4 are written as these, and come nearer to
// their rows (rabitq.h).
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "compute/ivf.h"
#include "index/quantization/rabitq.h"
#include "index/trained.h"

namespace warplite::index {

// A number of 2 to 4 bytes, the lowest first. To copy as many as a variable says is a call of a
// function; to put them together in memory makes the processor wait for them.
inline std::uint32_t get_number(const std::byte* from, std::uint32_t size) {
  if (size == 4) {
    std::uint32_t number;
    std::memcpy(&number, from, sizeof number);
    return number;
  }
  std::uint16_t low;
  std::memcpy(&low, from, sizeof low);
  return size == 2 ? low : low | std::to_integer<std::uint32_t>(from[2]) << 16;
}

enum class CodesVersion : std::uint32_t { kLong = 1, kShort = 2, kPacked = 3, kNearer = 4 };

// What a block of codes begins with.
using CodesHeader = std::array<std::uint32_t, 4>;
CodesHeader codes_header(CodesVersion version, std::uint32_t rows);
CodesHeader read_header(std::span<const std::byte> block);

// Says where things lie in the codes of `rows` rows.
class CodesView {
 public:
  static constexpr std::uint32_t kNoList = 0xffffffffu;

  CodesView(const compute::IvfShape& shape, std::uint32_t rows, CodesVersion version);
  // Of codes that have been checked.
  CodesView(const compute::IvfShape& shape, const CodedBlock& block);

  std::size_t lists_at() const { return sizeof(std::uint32_t) * 4; }
  std::size_t bias_at() const { return bias_at_; }
  std::size_t codes_at() const { return codes_at_; }
  std::size_t size() const { return size_; }
  std::uint32_t code_size() const { return code_size_; }
  std::uint32_t rest_size() const { return rest_size_; }

  // REQUIRES: no other thread writes to the block. Rows share bytes, the last ones with what
  // follows lists.
  void put_list(std::byte* block, std::uint32_t row, std::uint32_t list) const {
    const std::size_t bit = std::size_t{row} * list_bits_;
    std::byte* const at = block + lists_at() + bit / 8;
    const std::uint32_t others = get_number(at, list_load_) & ~(no_list() << bit % 8);
    const std::uint32_t number = others | (list & no_list()) << bit % 8;
    std::memcpy(at, &number, list_load_);
  }
  // kNoList for a row without a vector.
  std::uint32_t list(const std::byte* block, std::uint32_t row) const {
    const std::size_t bit = std::size_t{row} * list_bits_;
    const std::uint32_t number = get_number(block + lists_at() + bit / 8, list_load_);
    const std::uint32_t list = number >> bit % 8 & no_list();
    return list == no_list() ? kNoList : list;
  }
  void put_bias(std::byte* block, std::uint32_t row, float bias) const;
  float bias(const std::byte* block, std::uint32_t row) const;
  const std::byte* code(const std::byte* block, std::uint32_t row) const {
    return block + codes_at_ + std::size_t{row} * code_size_;
  }
  std::byte* code(std::byte* block, std::uint32_t row) const {
    return block + codes_at_ + std::size_t{row} * code_size_;
  }
  const std::byte* rest(const std::byte* block, std::uint32_t row) const {
    return block + rest_at_ + std::size_t{row} * rest_size_;
  }
  std::byte* rest(std::byte* block, std::uint32_t row) const {
    return block + rest_at_ + std::size_t{row} * rest_size_;
  }
  // Of RaBitQ codes: those of a row, and how many bytes of its rest lie before the planes. What a
  // short code cannot tell apart is rounded, g upwards.
  void put_factors(std::byte* block, std::uint32_t row, const RabitqFactors& factors) const;
  RabitqFactors factors(const std::byte* block, std::uint32_t row) const;
  std::uint32_t planes_at() const { return planes_at_; }

 private:
  std::uint32_t no_list() const { return kNoList >> (32 - list_bits_); }

  const bool short_, fine_;
  std::uint32_t list_bits_, list_load_;  // load: so many bytes have a row's
  std::uint32_t bias_size_, code_size_, planes_at_, rest_size_;
  std::size_t bias_at_, codes_at_, rest_at_, size_;
};

}  // namespace warplite::index
