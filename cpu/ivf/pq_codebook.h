// Codebooks with the codewords of a sub-space side by side, as vectors want them.
// Threads: constant once made.
#pragma once

#include <cstdint>
#include <limits>

#include "core/bytes.h"
#include "cpu/ivf/pq_kernels.h"

namespace warplite::cpu {

class PqCodebook {
 public:
  // `codebooks`: [m][codewords][sub_dim]. Throws std::bad_alloc.
  PqCodebook(const float* codebooks, std::uint32_t m, std::uint32_t codewords,
             std::uint32_t sub_dim) {
    const std::uint32_t padded = (codewords + kPadding - 1) / kPadding * kPadding;
    columns_ = Bytes(std::size_t{m} * sub_dim * padded * sizeof(float));
    halves_ = Bytes(std::size_t{m} * padded * sizeof(float));
    auto* columns = reinterpret_cast<float*>(columns_.data());
    auto* halves = reinterpret_cast<float*>(halves_.data());
    view_ = {m, sub_dim, codewords, padded, columns, halves};
    for (std::uint32_t s = 0; s < m; ++s) {
      for (std::uint32_t j = 0; j < padded; ++j) {
        const float* codeword = codebooks + (std::size_t{s} * codewords + j) * sub_dim;
        double square = 0;
        for (std::uint32_t i = 0; i < sub_dim; ++i) {
          const float element = j < codewords ? codeword[i] : 0.0f;
          columns[(std::size_t{s} * sub_dim + i) * padded + j] = element;
          square += static_cast<double>(element) * static_cast<double>(element);
        }
        halves[std::size_t{s} * padded + j] =
            j < codewords ? static_cast<float>(square / 2) : std::numeric_limits<float>::infinity();
      }
    }
  }

  const PqCodebookView& view() const { return view_; }

 private:
  static constexpr std::uint32_t kPadding = 16;

  Bytes columns_, halves_;
  PqCodebookView view_;
};

}  // namespace warplite::cpu
