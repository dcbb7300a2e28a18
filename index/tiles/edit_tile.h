// Builds the bytes of tiles of texts (compute/edit.h).
// Threads: builders are independent of each other; tiles are built in parallel, one builder each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/edit.h"
#include "core/bytes.h"

namespace warplite::index {

// A tile as it is made resident.
struct EditTexts {
  Bytes bytes;  // EditLayout::of(alphabet, texts, positions, width); zeros between its parts
  std::uint32_t alphabet = 0, texts = 0, positions = 0, width = 1;
  std::uint32_t rows = 0;
  std::vector<std::uint32_t> long_rows;  // whose texts are too long for a tile, ascending
};

// Knows which of all code points occur, in pages that are made only for those that do.
class PointRanks {
 public:
  // REQUIRES: point ≤ kLastPoint
  void add(std::uint32_t point) { slot(point) = 1; }
  // Returns the code points that were added, ascending. From then on rank() is the place among
  // them.
  std::vector<std::uint32_t> finish();
  std::uint32_t rank(std::uint32_t point) const { return (*pages_[point / kPage])[point % kPage]; }
  void clear();

 private:
  static constexpr std::uint32_t kPage = 256;
  static constexpr std::uint32_t kPages = 0x110000 / kPage;
  using Page = std::array<std::uint32_t, kPage>;

  std::uint32_t& slot(std::uint32_t point) {
    std::unique_ptr<Page>& page = pages_[point / kPage];
    if (page == nullptr) page = std::make_unique<Page>();
    return (*page)[point % kPage];
  }

  std::vector<std::unique_ptr<Page>> pages_ = std::vector<std::unique_ptr<Page>>(kPages);
};

// Calls follow: ((add_row | skip_row)* finish)*. A builder that is used again has its memory
// already.
class EditTileBuilder {
 public:
  // The next row, and the code points of its text. One that is longer than kLongestEditText is no
  // part of the tile, but of its long_rows. REQUIRES: rows() < kTileRows; code points are of
  // Unicode's range.
  void add_row(std::span<const std::uint32_t> text);
  // The next row has no text.
  void skip_row();
  std::uint32_t rows() const { return rows_; }

  EditTexts finish();

 private:
  std::size_t begin(std::size_t text) const { return text == 0 ? 0 : ends_[text - 1]; }
  std::uint32_t length(std::size_t text) const {
    return static_cast<std::uint32_t>(ends_[text] - begin(text));
  }
  std::vector<std::uint32_t> order() const;
  void place(const std::vector<std::uint32_t>& order, EditTexts& out) const;
  template <class Symbol>
  void write_symbols(const std::vector<std::uint32_t>& order, const std::uint32_t* begins,
                     Symbol* symbols) const;

  std::vector<std::uint32_t> points_;  // of all texts
  std::vector<std::size_t> ends_;      // of each text, in points_
  std::vector<std::uint32_t> text_rows_, long_rows_;
  PointRanks ranks_;
  std::uint32_t rows_ = 0;
};

}  // namespace warplite::index
