#include "index/ivf/run.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compute/host/parallel.h"
#include "core/bfloat16.h"
#include "index/ivf/list_places.h"
#include "index/quantization/codes_view.h"

namespace warplite::index {
namespace {

constexpr std::size_t kPieceRows = std::size_t{1} << 14;
constexpr std::size_t kMostPieces = 64;
constexpr std::size_t kGrainLists = 256;
// Positions of a shelf, as a power of two: what a run has of so many stays in a core's cache. A
// shelf has whole groups, of whatever lists lie there.
constexpr unsigned kShelf = 14;
static_assert((1u << kShelf) % compute::kFastScanRows == 0);

// A row on its way to its place; its code and its other planes follow.
struct Parcel {
  std::uint32_t position, ordinal;
  RabitqFactors factors;
};

class Sort {
 public:
  Sort(const compute::IvfShape& shape, std::span<const CodedBlock> blocks,
       const ReleaseBlock& release)
      : shape_(shape),
        blocks_(blocks),
        release_(release),
        left_(std::make_unique<std::atomic<std::uint32_t>[]>(blocks.size())),
        fast_scan_(shape.fast_scan()),
        record_(compute::RabitqRecord::size(shape.dim, shape.planes)) {
    for (const CodedBlock& block : blocks) {
      left_[first_ordinals_.size()] = block.rows;
      first_ordinals_.push_back(rows_);
      rows_ += block.rows;
    }
    const std::size_t least = std::max<std::size_t>(kPieceRows, 2 * std::size_t{shape.lists});
    pieces_ = std::clamp<std::size_t>(rows_ / least, 1, kMostPieces);
    const CodesView any(shape, 0, CodesVersion::kLong);
    code_ = any.code_size();
    planes_ = any.rest_size() - any.planes_at();
    parcel_ = sizeof(Parcel) + (code_ + planes_ + 3) / 4 * 4;
  }

  Run run() {
    count();
    place();
    if (fast_scan_) shelve();
    run_.bytes = Bytes(at_.size);
    put_places(at_.begins, lists_.begins);
    if (fast_scan_) put_places(at_.ends, lists_.ends);
    clear_between();
    clear_gaps();
    if (fast_scan_) {
      compute::in_parallel(shelves_, 1, shelves_,
                           [this](std::size_t shelf, std::size_t) { write_shelf(shelf); });
    } else {
      for_pieces([this](std::size_t piece) { write_rows(piece); });
    }
    return std::move(run_);
  }

 private:
  template <typename Body>
  void for_pieces(const Body& body) const {
    compute::in_parallel(pieces_, 1, pieces_, [&](std::size_t first, std::size_t last) {
      for (std::size_t piece = first; piece < last; ++piece) body(piece);
    });
  }

  // Calls visit(block, its codes' place, row, list, ordinal) for the rows of a piece that are in a
  // list, and done(block number, rows) after each block.
  template <typename Visit, typename Done>
  void for_rows(std::size_t piece, const Visit& visit, const Done& done) const {
    std::size_t ordinal = rows_ * piece / pieces_;
    const std::size_t end = rows_ * (piece + 1) / pieces_;
    const auto after = std::upper_bound(first_ordinals_.begin(), first_ordinals_.end(), ordinal);
    for (auto i = static_cast<std::size_t>(after - first_ordinals_.begin()) - 1; ordinal < end;
         ++i) {
      const CodesView at(shape_, blocks_[i]);
      const std::size_t last = std::min<std::size_t>(end, first_ordinals_[i] + blocks_[i].rows);
      const std::size_t first = ordinal;
      for (; ordinal < last; ++ordinal) {
        const auto row = static_cast<std::uint32_t>(ordinal - first_ordinals_[i]);
        const std::byte* const block = blocks_[i].codes.data();
        const std::uint32_t list = at.list(block, row);
        if (list == CodesView::kNoList) continue;
        visit(block, at, row, list, static_cast<std::uint32_t>(ordinal));
      }
      done(i, static_cast<std::uint32_t>(ordinal - first));
    }
  }

  std::uint32_t* places(std::size_t piece) { return places_.data() + piece * shape_.lists; }

  void count() {
    places_.assign(pieces_ * shape_.lists, 0);
    for_pieces([this](std::size_t piece) {
      std::uint32_t* counts = places(piece);
      for_rows(
          piece,
          [&](const std::byte*, const CodesView&, std::uint32_t, std::uint32_t list,
              std::uint32_t) { ++counts[list]; },
          [](std::size_t, std::uint32_t) {});
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

  // Puts rows to their places as they come, which do for small ones.
  void write_rows(std::size_t piece) {
    std::uint32_t* next = places(piece);
    for_rows(
        piece,
        [&](const std::byte* block, const CodesView& at, std::uint32_t row, std::uint32_t list,
            std::uint32_t ordinal) {
          const std::uint32_t position = next[list]++;
          put(at_.ordinals, position, ordinal);
          if (shape_.m == 0) return;
          put(at_.bias, position, at.bias(block, row));
          put_code(at.code(block, row), run_.bytes.data() + at_.codes, position);
        },
        [](std::size_t, std::uint32_t) {});
  }

  // `codes`: where that of position 0 is.
  void put_code(const std::byte* from, std::byte* codes, std::size_t position) const {
    std::byte* const to = codes + position * shape_.code_stride();
    std::memcpy(to, from, code_);
    std::memset(to + code_, 0, shape_.code_stride() - code_);
  }

  // Brings rows of a piece together whose places are near each other, shelf by shelf. To put each
  // to its place at once would touch several times as much memory: a row has bytes in seven arrays,
  // parts of cache lines that are gone before the others come. In 65,536 lists RaBitQ codes of five
  // bits take 0.6 of the time so.
  void shelve() {
    shelves_ = (std::size_t{run_.positions} >> kShelf) + 1;
    parcels_.resize(pieces_);
    fronts_.assign(pieces_ * (shelves_ + 1), 0);
    for_pieces([this](std::size_t piece) {
      for (std::uint32_t list = 0; list < shape_.lists; ++list) count_on_shelves(piece, list);
    });
    for_pieces([this](std::size_t piece) { shelve(piece); });
  }

  void count_on_shelves(std::size_t piece, std::uint32_t list) {
    std::uint32_t from = places(piece)[list];
    const std::uint32_t end = piece + 1 < pieces_ ? places(piece + 1)[list] : lists_.ends[list];
    while (from < end) {
      const std::size_t shelf = from >> kShelf;
      const auto to = static_cast<std::uint32_t>(std::min<std::size_t>(end, (shelf + 1) << kShelf));
      fronts(piece)[shelf + 1] += to - from;
      from = to;
    }
  }

  // Where the parcels of a piece begin that are on a shelf, and where the last ones end.
  std::size_t* fronts(std::size_t piece) { return fronts_.data() + piece * (shelves_ + 1); }

  void shelve(std::size_t piece) {
    std::size_t* const front = fronts(piece);
    std::partial_sum(front, front + shelves_ + 1, front);
    parcels_[piece] = Bytes(front[shelves_] * parcel_);
    std::vector<std::byte*> ends(shelves_);
    for (std::size_t shelf = 0; shelf < shelves_; ++shelf) {
      ends[shelf] = parcels_[piece].data() + front[shelf] * parcel_;
    }
    std::uint32_t* next = places(piece);
    for_rows(
        piece,
        [&](const std::byte* block, const CodesView& at, std::uint32_t row, std::uint32_t list,
            std::uint32_t ordinal) {
          Parcel parcel{next[list]++, ordinal, {}};
          if (shape_.planes != 0) {
            parcel.factors = at.factors(block, row);
          } else if (shape_.m != 0) {
            parcel.factors.bias = at.bias(block, row);
          }
          std::byte*& to = ends[parcel.position >> kShelf];
          std::memcpy(to, &parcel, sizeof parcel);
          std::memcpy(to + sizeof parcel, at.code(block, row), code_);
          std::memcpy(to + sizeof parcel + code_, at.rest(block, row) + at.planes_at(), planes_);
          to += parcel_;
        },
        [&](std::size_t i, std::uint32_t rows) {
          if (left_[i].fetch_sub(rows) == rows && release_) release_(i);
        });
  }

  void write_shelf(std::size_t shelf) {
    const std::size_t begin = shelf << kShelf;
    const std::size_t count = std::min(run_.positions - begin, std::size_t{1} << kShelf);
    std::vector<std::byte> codes(count * shape_.code_stride());
    for (std::size_t piece = 0; piece < pieces_; ++piece) {
      const std::byte* from = parcels_[piece].data() + fronts(piece)[shelf] * parcel_;
      const std::byte* const end = parcels_[piece].data() + fronts(piece)[shelf + 1] * parcel_;
      for (; from != end; from += parcel_) {
        Parcel parcel;
        std::memcpy(&parcel, from, sizeof parcel);
        const std::byte* const code = from + sizeof parcel;
        put(at_.ordinals, parcel.position, parcel.ordinal);
        if (shape_.planes == 0) {
          put(at_.bias, parcel.position, parcel.factors.bias);
        } else {
          put_rest(parcel.position, parcel.factors, {code + code_, planes_});
        }
        put_code(code, codes.data(), parcel.position - begin);
      }
    }
    interleave(codes.data(), begin / compute::kFastScanRows, count / compute::kFastScanRows);
  }

  // Codes of kFastScanRows rows, two a byte, become sixteen bytes a sub-space.
  void interleave(const std::byte* from, std::size_t first, std::size_t groups) {
    const std::size_t stride = shape_.code_stride(), m = shape_.m;
    for (std::size_t g = first; g < first + groups; ++g, from += compute::kFastScanRows * stride) {
      std::byte* const to = run_.bytes.data() + at_.codes + g * group_bytes();
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
  }

  const compute::IvfShape& shape_;
  std::span<const CodedBlock> blocks_;
  const ReleaseBlock& release_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]>
      left_;  // rows of blocks that are still to be read
  const bool fast_scan_;
  const std::size_t record_;  // bytes of a position behind the groups
  std::vector<std::size_t> first_ordinals_;
  std::size_t rows_ = 0;
  std::size_t pieces_ = 1;
  std::vector<std::uint32_t> places_;  // [piece][list]
  ListPlaces lists_;
  compute::IvfLayout at_;
  Run run_;
  std::size_t code_, planes_, parcel_;  // bytes of a row, its code and its other planes
  std::size_t shelves_ = 1;
  std::vector<std::size_t> fronts_;  // [piece][shelf + 1]
  std::vector<Bytes> parcels_;       // of pieces
};

}  // namespace

Run make_ivf_run(const compute::IvfShape& shape, std::span<const CodedBlock> blocks,
                 const ReleaseBlock& release) {
  return Sort(shape, blocks, release).run();
}

}  // namespace warplite::index
