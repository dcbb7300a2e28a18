// Texts of a tile as the builders of metric indexes take them and lay them out.
// Threads: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/device.h"
#include "compute/edit_metric.h"

namespace warplite::index {

// A tile's texts by their places in it.
class TileTexts {
 public:
  TileTexts(const compute::EditTile& tile, const std::byte* bytes);

  std::uint32_t size() const { return texts_; }
  std::uint32_t width() const { return width_; }
  std::uint16_t row(std::uint32_t text) const { return rows_[text]; }
  std::uint16_t length(std::uint32_t text) const { return lengths_[text]; }
  std::vector<std::uint32_t> symbols(std::uint32_t text) const;
  // The text of the first row.
  std::uint32_t first_row() const;

  // Some texts, in this order; kNobody leaves a place without one.
  static constexpr std::uint32_t kNobody = 0xffffffff;
  compute::MetricTexts lay_out(std::span<const std::uint32_t> texts) const;

 private:
  template <class Symbol>
  void copy(std::uint32_t text, Symbol* to) const;

  std::uint32_t texts_, width_;
  const std::uint16_t* rows_;
  const std::uint16_t* lengths_;
  const std::uint32_t* begins_;
  const std::byte* symbols_;
};

// Distances of texts to some of a tile, in the order given. Texts that are long are compared in
// parts, between which `cancellation` is asked.
class TextDistances {
 public:
  // Takes the place of those before.
  void assign(const TileTexts& texts, std::span<const std::uint32_t> some);
  // out[places()]; anything past the last text. Throws Error{kInterrupted}.
  void compute(compute::Device& host, std::span<const std::uint32_t> text,
               compute::Cancellation* cancellation, std::uint16_t* out) const;
  std::size_t places() const { return places_; }

 private:
  std::uint32_t width_ = 1;
  std::size_t places_ = 0;
  std::vector<compute::MetricTexts> parts_;
};

inline std::uint32_t text_groups(std::size_t texts) {
  return static_cast<std::uint32_t>((texts + compute::kEditGroup - 1) / compute::kEditGroup);
}

}  // namespace warplite::index
