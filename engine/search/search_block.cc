#include "engine/search/search_block.h"

#include <bit>
#include <numeric>
#include <utility>

#include "core/process/interruption.h"
#include "engine/residency/handing_over.h"

namespace warplite::engine {
namespace {

std::vector<std::uint32_t> numbers_of(const Selection::Rows& selected) {
  std::vector<std::uint32_t> numbers(selected.count);
  if (selected.all) {
    std::iota(numbers.begin(), numbers.end(), 0u);
    return numbers;
  }
  std::size_t n = 0;
  for (std::size_t word = 0; word < selected.bits.word_count(); ++word) {
    for (std::uint64_t bits = selected.bits.words()[word]; bits != 0; bits &= bits - 1) {
      numbers[n++] =
          static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  }
  return numbers;
}

// Fills in all but the vectors. False when no live row has one.
bool describe(const Part& part, std::uint32_t i, SearchBlock& out) {
  out.part_live_rows = part.live_rows();
  compute::Block& block = out.block;
  block.rows = part.rows();
  block.id = i;
  block.host = out.vectors.data.data;
  block.name = out.vectors.name;
  block.rowids = part.rowids();
  block.live_rows = out.part_live_rows;
  const Bitmap* alive = part.alive();
  if (out.vectors.present != nullptr) {
    out.live = *out.vectors.present;
    if (alive != nullptr) out.live &= *alive;
    block.live_rows = static_cast<std::uint32_t>(out.live.count());
    block.live = out.live.words();
  } else if (alive != nullptr && out.part_live_rows != block.rows) {
    block.live = alive->words();
  }
  return block.live_rows != 0;
}

}  // namespace

bool load_block(const View& view, std::size_t column, std::uint32_t i, SearchBlock& out) {
  const Part& part = view.part(i);
  if (part.live_rows() == 0) return false;
  out.vectors = part.vectors(column);
  return !out.vectors.all_null && describe(part, i, out);
}

bool hand_over_block(compute::Device& device, const View& view, std::size_t column, std::uint32_t i,
                     const MatrixView& shape, SearchBlock& out) {
  const Part& part = view.part(i);
  if (part.live_rows() == 0) return false;
  CacheKey key = part.vector_key(column);
  Residency::CopyOnDevice copy = Residency::instance().copy_on(device, key);
  if (copy.buffer == nullptr) {
    Part::Vectors vectors = part.vectors(column);
    if (vectors.all_null) return false;
    key = vectors.key;
    vectors.owner = nullptr;
    copy = hand_over(device, key, std::move(vectors.resident));
  }
  out.handed_to = &device;
  out.handed = std::move(copy.buffer);
  out.vectors.key = key;
  out.vectors.data = {nullptr, part.rows(), shape.dim, shape.type};
  WARP_CHECK(out.handed->size() == out.bytes());
  const auto present = std::make_shared<const Bitmap>(rows_with_vector(*copy.head, part.rows()));
  if (present->size() != 0) out.vectors.present = present.get();
  out.vectors.owner = present;
  return describe(part, i, out);
}

bool load_some(const View& view, std::size_t column, std::uint32_t i, const Selection& rows,
               SearchBlock& out) {
  poll_interruption();
  const Part& part = view.part(i);
  const Selection::Rows& selected = rows.part(i);
  const RowIdView rowids = part.rowids();
  out.some = numbers_of(selected);
  for (const std::uint32_t row : out.some) out.rowids.push_back(rowids[row]);
  const Layout::Vector& shape = view.layout().vectors[column];
  const auto bytes = std::make_shared<Bytes>(out.some.size() * shape.stride());
  out.live = part.read_vectors(column, out.some, bytes->data());
  out.vectors.data = {bytes->data(), out.some.size(), shape.dim, shape.type};
  out.vectors.owner = bytes;
  out.part_live_rows = part.live_rows();
  compute::Block& block = out.block;
  block.rows = block.live_rows = static_cast<std::uint32_t>(out.some.size());
  block.id = i;
  block.rowids = {0, out.rowids.data()};
  if (out.live.size() != 0) {
    block.live = out.live.words();
    block.live_rows = static_cast<std::uint32_t>(out.live.count());
  }
  return block.live_rows != 0;
}

void Workset::add(const SearchBlock& from, const Selection& rows, const compute::Buffer* buffer) {
  const Selection::Rows& selected = rows.part(from.block.id);
  if (selected.count == 0 && !whole_) return;
  compute::Block block = from.block;
  block.vectors = buffer;
  if (!from.some.empty()) {
    blocks_.push_back(block);
    return;
  }
  if (selected.count == 0) {
    live_.emplace_back(block.rows);
    block.live = live_.back().words();
    block.live_rows = 0;
  } else if (selected.count != from.part_live_rows) {
    block.live = selected.bits.words();
    block.live_rows = selected.count;
    if (from.vectors.present != nullptr) {
      Bitmap live = *from.vectors.present;
      live &= selected.bits;
      block.live = live.words();
      block.live_rows = static_cast<std::uint32_t>(live.count());
      if (block.live_rows == 0 && !whole_) return;
      live_.push_back(std::move(live));
    }
  }
  blocks_.push_back(block);
}

void Workset::clear() {
  blocks_.clear();
  live_.clear();
}

}  // namespace warplite::engine
