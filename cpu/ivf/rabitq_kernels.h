// The inner loops of RaBitQ codes (compute/rabitq.h has the arithmetic), a part of the table of
// kernels of each SIMD target.
// Threads: the functions keep no state.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

// What a query makes of a list.
struct RabitqTables {
  std::uint8_t* entries = nullptr;  // T: [m][16]
  std::int8_t* elements = nullptr;  // v: [dim], zeros behind up to a multiple of 64
  float unit = 0, fine = 0;
  float norm = 0, square = 0;  // ‖x‖, and squared
  std::int32_t sum = 0;        // Σ v
};

// Groups of a run that are looked at together.
struct RabitqGroups {
  static constexpr std::uint32_t kMost = 8;  // so that a place fits a byte

  const std::uint8_t* first = nullptr;  // RabitqGroup of the first
  std::uint32_t m = 0;
  std::uint32_t which = 0;                    // a bit for each group with rows that count
  std::array<std::uint32_t, kMost> counts{};  // of each group, a bit for each row that counts

  // Calls body(g) with each group with rows that count.
  template <class Body>
  void for_each_group(const Body& body) const {
    for (std::uint32_t left = which; left != 0; left &= left - 1) {
      body(static_cast<std::size_t>(std::countr_zero(left)));
    }
  }
};

// What a query asks of them, and where it finds the answer. There is room for all places.
struct RabitqLook {
  const std::uint8_t* entries = nullptr;  // of RabitqTables
  float unit = 0, norm = 0, a = 0;        // norm 0: low is the score of the signs
  float limit = 0;
  std::int32_t* sums = nullptr;    // by place: Σ T
  float* lows = nullptr;           // by place: of those that were found at least
  std::uint8_t* places = nullptr;  // where low does not exceed the limit or is NaN, in order
  std::size_t found = 0;           // of them
};

struct RabitqKernels {
  // out[i] = D of y and row i of `rows`, [n][dim]; with `product` as ip has it.
  void (*distances)(const float* y, const float* rows, std::size_t n, std::uint32_t dim,
                    bool product, float* out) = nullptr;

  // `scratch`: dim floats, rounded up to 64.
  void (*tables)(const float* y, const float* centroid, std::uint32_t dim, float* scratch,
                 RabitqTables& out) = nullptr;

  // Of `count` groups writes which rows live: those whose ordinal's bit is set in `bits`, counted
  // from `first` on. There is a word behind the last bit.
  void (*live)(const std::uint32_t* ordinals, std::size_t count, const std::uint64_t* bits,
               std::uint32_t first, std::uint32_t* out) = nullptr;

  // Looks at the groups for each of the queries, of which none has found anything yet.
  void (*look)(const RabitqGroups& of, RabitqLook* queries, std::size_t n) = nullptr;

  // out[i] = Σ e·v over planes[i], [count][plane_bytes(dim)], the highest bit first; kPlaneSlack
  // bytes behind them may be read.
  void (*dots)(const std::int8_t* elements, const std::uint8_t* const* planes, std::size_t n,
               std::uint32_t count, std::uint32_t dim, std::int32_t* out) = nullptr;
};

// The table of the SIMD target in use. Valid for the life of the process.
const RabitqKernels& rabitq_kernels();

// s·x of a sum of table entries.
inline float signs_product(float unit, std::uint32_t m, std::int64_t sum) {
  return unit * static_cast<float>(sum - 128 * static_cast<std::int64_t>(m));
}

}  // namespace warplite::cpu
