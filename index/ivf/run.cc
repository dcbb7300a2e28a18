#include "index/ivf/run.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compute/parallel.h"
#include "core/bfloat16.h"
#include "index/ivf/codes.h"
#include "index/ivf/list_places.h"

namespace warplite::index {
namespace {

constexpr std::size_t kPieceRows = std::size_t{1} << 14;
constexpr std::size_t kMostPieces = 64;
constexpr std::size_t kGrainGroups = 256;  // of kFastScanRows rows
constexpr std::size_t kGrainLists = 256;

class Sort {
 public:
  Sort(const compute::IvfShape& shape, std::span<const CodedBlock> blocks)
      : shape_(shape),
        blocks_(blocks),
        fast_scan_(shape.fast_scan()),
        record_(compute::RabitqRecord::size(shape.dim, shape.planes)) {
    for (const CodedBlock& block : blocks) {
      first_ordinals_.push_back(rows_);
      rows_ += block.rows;
    }
    const std::size_t least = std::max<std::size_t>(kPieceRows, 2 * std::size_t{shape.lists});
    pieces_ = std::clamp<std::size_t>(rows_ / least, 1, kMostPieces);
  }

  Run run() {
    count();
    place();
    run_.bytes = Bytes(at_.size);
    put_places(at_.begins, lists_.begins);
    if (fast_scan_) put_places(at_.ends, lists_.ends);
    if (fast_scan_) row_codes_ = Bytes(std::size_t{run_.positions} * shape_.code_stride());
    clear_between();
    clear_gaps();
    for_pieces([this](std::size_t piece) { write(piece); });
    if (fast_scan_) interleave();
    return std::move(run_);
  }

 private:
  template <typename Body>
  void for_pieces(const Body& body) const {
    compute::in_parallel(pieces_, 1, pieces_, [&](std::size_t first, std::size_t last) {
      for (std::size_t piece = first; piece < last; ++piece) body(piece);
    });
  }

  // Calls visit(block, its codes' place, row, ordinal) for the rows of a piece.
  template <typename Visit>
  void for_rows(std::size_t piece, const Visit& visit) const {
    std::size_t ordinal = rows_ * piece / pieces_;
    const std::size_t end = rows_ * (piece + 1) / pieces_;
    auto block = std::upper_bound(first_ordinals_.begin(), first_ordinals_.end(), ordinal);
    for (auto i = static_cast<std::size_t>(block - first_ordinals_.begin()) - 1; ordinal < end;
         ++i) {
      const CodesView at(shape_, blocks_[i]);
      const std::size_t last = std::min<std::size_t>(end, first_ordinals_[i] + blocks_[i].rows);
      for (; ordinal < last; ++ordinal) {
        const auto row = static_cast<std::uint32_t>(ordinal - first_ordinals_[i]);
        visit(blocks_[i].codes.data(), at, row, static_cast<std::uint32_t>(ordinal));
      }
    }
  }

  std::uint32_t* places(std::size_t piece) { return places_.data() + piece * shape_.lists; }

  void count() {
    places_.assign(pieces_ * shape_.lists, 0);
    for_pieces([this](std::size_t piece) {
      std::uint32_t* counts = places(piece);
      for_rows(piece, [&](const std::byte* block, const CodesView& at, std::uint32_t row,
                          std::uint32_t) {
        const std::uint32_t list = at.list(block, row);
        if (list != CodesView::kNoList) ++counts[list];
      });
    });
  }

  // Counts become the place of a piece's first row in each list.
  void place() {
    std::vector<std::uint32_t> rows(shape_.lists);
    for (std::size_t piece = 0; piece < pieces_; ++piece) {
      std::transform(rows.begin(), rows.end(), places(piece), rows.begin(), std::plus());
    }
    lists_ = place_lists(shape_, rows);
    for (std::uint32_t list = 0; list < shape_.lists; ++list) {
      std::uint32_t position = lists_.begins[list];
      for (std::size_t piece = 0; piece < pieces_; ++piece) {
        position += std::exchange(places(piece)[list], position);
      }
    }
    run_.longest = *std::max_element(rows.begin(), rows.end());
    run_.positions = lists_.begins.back();
    at_ = compute::IvfLayout::of(shape_, run_.positions);
  }

  void put_places(std::size_t array, const std::vector<std::uint32_t>& places) {
    std::memcpy(run_.bytes.data() + array, places.data(), places.size() * sizeof places[0]);
  }

  void zero(std::size_t from, std::size_t to) {
    std::memset(run_.bytes.data() + from, 0, to - from);
  }

  // Clears the bytes between arrays, so that equal runs are equal bytes.
  void clear_between() {
    const std::size_t n = run_.positions;
    zero(at_.ends + lists_.ends.size() * 4, at_.ordinals);
    zero(at_.ordinals + n * 4, at_.bias);
    if (shape_.m == 0) return;
    if (shape_.has_codebooks()) zero(at_.bias + n * 4, at_.codes);
    zero(at_.codes + (fast_scan_ ? n / compute::kFastScanRows * group_bytes()
                                 : n * shape_.code_stride()),
         at_.records);
    zero(at_.records + n * record_, at_.size);
  }

  std::size_t group_bytes() const {
    return shape_.planes == 0 ? std::size_t{shape_.m} * 16
                              : std::size_t{compute::RabitqGroup(shape_.m).size};
  }

  void clear_gaps() {
    // Memory that was never used is what takes the time.
    const std::size_t lists = lists_.order.size();
    compute::in_parallel(
        lists, kGrainLists, lists / kGrainLists, [&](std::size_t first, std::size_t last) {
          for (std::size_t i = first; i < last; ++i) {
            const std::uint32_t end =
                i + 1 < lists ? lists_.begins[lists_.order[i + 1]] : run_.positions;
            for (std::uint32_t p = lists_.ends[lists_.order[i]]; p < end; ++p) clear_position(p);
          }
        });
  }

  void clear_position(std::uint32_t position) {
    const std::size_t stride = shape_.code_stride();
    std::memset(row_codes_.data() + position * stride, 0, stride);
    put(at_.ordinals, position, compute::kNoOrdinal);
    if (shape_.planes == 0) {
      if (shape_.m != 0) put(at_.bias, position, 0.0f);
    } else {
      constexpr RabitqFactors kNone{.bias = std::numeric_limits<float>::infinity()};
      put_factors(position, kNone);
      std::memset(record_at(position), 0, record_);
    }
  }

  template <typename T>
  void put(std::size_t array, std::uint32_t position, T value) {
    std::memcpy(run_.bytes.data() + array + std::size_t{position} * sizeof value, &value,
                sizeof value);
  }

  void put_rest(std::uint32_t position, const RabitqFactors& factors,
                std::span<const std::byte> planes) {
    put_factors(position, factors);
    if (shape_.planes < 2) return;
    std::byte* const record = record_at(position);
    std::memcpy(record + compute::RabitqRecord::kBias, &factors.bias, sizeof factors.bias);
    std::memcpy(record + compute::RabitqRecord::kFine, &factors.fine, sizeof factors.fine);
    std::memcpy(record + compute::RabitqRecord::kPlanes, planes.data(), planes.size());
    const std::size_t end = compute::RabitqRecord::kPlanes + planes.size();
    std::memset(record + end, 0, record_ - end);
  }

  // Bias, f and g.
  void put_factors(std::uint32_t position, const RabitqFactors& factors) {
    constexpr std::uint32_t kRows = compute::RabitqGroup::kRows;
    const compute::RabitqGroup group(shape_.m);
    std::byte* const to =
        run_.bytes.data() + at_.codes + std::size_t{position / kRows} * group.size;
    const std::uint32_t arrays[3] = {group.bias, group.f, group.g};
    const float values[3] = {factors.bias, factors.f, factors.g};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::uint16_t half = float_to_bfloat16(values[i]);
      std::memcpy(to + arrays[i] + position % kRows * sizeof half, &half, sizeof half);
    }
  }

  std::byte* record_at(std::uint32_t position) {
    return run_.bytes.data() + at_.records + position * record_;
  }

  void write(std::size_t piece) {
    const std::size_t stride = shape_.code_stride();
    std::byte* codes = fast_scan_ ? row_codes_.data() : run_.bytes.data() + at_.codes;
    std::uint32_t* next = places(piece);
    for_rows(piece, [&](const std::byte* block, const CodesView& at, std::uint32_t row,
                        std::uint32_t ordinal) {
      const std::uint32_t list = at.list(block, row);
      if (list == CodesView::kNoList) return;
      const std::uint32_t position = next[list]++;
      put(at_.ordinals, position, ordinal);
      if (shape_.planes == 0) {
        if (shape_.m == 0) return;
        put(at_.bias, position, at.bias(block, row));
      } else {
        const std::size_t planes = at.rest_size() - at.planes_at();
        put_rest(position, at.factors(block, row), {at.rest(block, row) + at.planes_at(), planes});
      }
      std::byte* to = codes + position * stride;
      std::memcpy(to, at.code(block, row), at.code_size());
      std::memset(to + at.code_size(), 0, stride - at.code_size());
    });
  }

  // Codes of kFastScanRows rows, two a byte, become sixteen bytes a sub-space.
  void interleave() {
    const std::size_t stride = shape_.code_stride(), m = shape_.m;
    const std::size_t groups = run_.positions / compute::kFastScanRows;
    compute::in_parallel(groups, kGrainGroups, groups / kGrainGroups,
                         [&](std::size_t first, std::size_t last) {
      for (std::size_t g = first; g < last; ++g) {
        const std::byte* from = row_codes_.data() + g * compute::kFastScanRows * stride;
        std::byte* to = run_.bytes.data() + at_.codes + g * group_bytes();
        for (std::size_t s = 0; s < m; ++s) {
          for (std::size_t i = 0; i < 16; ++i) {
            const auto low = std::to_integer<unsigned>(from[i * stride + s / 2]);
            const auto high = std::to_integer<unsigned>(from[(i + 16) * stride + s / 2]);
            const unsigned shift = s % 2 * 4;
            to[s * 16 + i] =
                static_cast<std::byte>(((low >> shift) & 15) | ((high >> shift) & 15) << 4);
          }
        }
      }
    });
  }

  const compute::IvfShape& shape_;
  std::span<const CodedBlock> blocks_;
  const bool fast_scan_;
  const std::size_t record_;  // bytes of a position behind the groups
  std::vector<std::size_t> first_ordinals_;
  std::size_t rows_ = 0;
  std::size_t pieces_ = 1;
  std::vector<std::uint32_t> places_;  // [piece][list]
  ListPlaces lists_;
  compute::IvfLayout at_;
  Run run_;
  Bytes row_codes_;  // [positions][code_stride], before they are interleaved
};

}  // namespace

Run make_ivf_run(const compute::IvfShape& shape, std::span<const CodedBlock> blocks) {
  return Sort(shape, blocks).run();
}

}  // namespace warplite::index
