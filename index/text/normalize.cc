#include "index/text/normalize.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/process/interruption.h"
#include "index/text/code_point_ranges.h"
#include "index/text/normalize_tables.h"
#include "index/text/unicode.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kFirstMark = 0x300;

// Syllables of Hangul are a leading consonant, a vowel, and a trailing consonant or none.
constexpr std::uint32_t kSyllables = 0xac00, kLeading = 0x1100, kVowels = 0x1161;
constexpr std::uint32_t kTrailing = 0x11a7;  // the one that stands for none
constexpr std::uint32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;
constexpr std::uint32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

// Says whether it is one of the `count` characters from `first` on. Differences below 0 are large.
constexpr bool is_one_of(std::uint32_t point, std::uint32_t first, std::uint32_t count) {
  return point - first < count;
}
constexpr bool is_vowel(std::uint32_t point) { return is_one_of(point, kVowels, kVowelCount); }
constexpr bool is_trailing(std::uint32_t point) {
  return is_one_of(point, kTrailing + 1, kTrailingCount - 1);
}

std::uint8_t combining_class(std::uint32_t point) {
  if (point < kFirstMark) return 0;
  const CombiningRange* range = find_range(combining_ranges(), point);
  return range == nullptr ? 0 : range->combining_class;
}

// Returns what a character decomposes into, one step of the way; empty: itself.
std::span<const std::uint32_t> decomposition(const DecompositionRun& run, std::uint32_t point) {
  return decomposition_characters().subspan(run.offset + (point - run.first) * run.length,
                                            run.length);
}

class Compositions {
 public:
  Compositions() {
    const auto excluded = composition_exclusions();
    for (const DecompositionRun& run : decomposition_runs()) {
      if (!run.canonical || run.length != 2) continue;
      for (std::uint32_t point = run.first; point <= run.last; ++point) {
        if (std::binary_search(excluded.begin(), excluded.end(), point)) continue;
        const auto pair = decomposition(run, point);
        pairs_.push_back({key(pair[0], pair[1]), point});
      }
    }
    std::sort(pairs_.begin(), pairs_.end(), before);
  }

  // The character that two make, or 0.
  std::uint32_t find(std::uint32_t first, std::uint32_t second) const {
    if (is_one_of(first, kLeading, kLeadingCount) && is_vowel(second)) {
      return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
    }
    if (is_one_of(first, kSyllables, kSyllableCount) &&
        (first - kSyllables) % kTrailingCount == 0 && is_trailing(second)) {
      return first + (second - kTrailing);
    }
    const Pair wanted{key(first, second), 0};
    const auto pair = std::lower_bound(pairs_.begin(), pairs_.end(), wanted, before);
    return pair != pairs_.end() && pair->key == wanted.key ? pair->composite : 0;
  }

  // Calls body(second) for the second character of every pair.
  template <typename Body>
  void each_second(const Body& body) const {
    for (const Pair& pair : pairs_) body(static_cast<std::uint32_t>(pair.key));
    for (std::uint32_t i = 0; i < kVowelCount; ++i) body(kVowels + i);
    for (std::uint32_t i = 1; i < kTrailingCount; ++i) body(kTrailing + i);
  }

 private:
  struct Pair {
    std::uint64_t key;
    std::uint32_t composite;
  };
  static std::uint64_t key(std::uint32_t first, std::uint32_t second) {
    return std::uint64_t{first} << 32 | second;
  }
  static bool before(const Pair& a, const Pair& b) { return a.key < b.key; }

  std::vector<Pair> pairs_;
};

const Compositions& compositions() {
  static const Compositions all;
  return all;
}

// Normalises characters that begin where nothing before them matters.
class Piece {
 public:
  explicit Piece(Normalization form) : compatible_(form == Normalization::kNfkc) {}

  // Adds what the character decomposes into to the characters of the piece.
  void add(std::uint32_t point) {
    poll_();
    if (is_one_of(point, kSyllables, kSyllableCount)) return add_syllable(point - kSyllables);
    const DecompositionRun* run = find_range(decomposition_runs(), point);
    if (run == nullptr || !(run->canonical || compatible_)) {
      characters_.push_back({point, combining_class(point)});
      return;
    }
    for (const std::uint32_t part : decomposition(*run, point)) add(part);
  }

  // Moves the characters to the end of `out`, marks in order and composed.
  void finish(CodePoints& out) {
    sort_marks();
    std::optional<std::size_t> starter;  // the last character of class 0, in `out`
    std::uint8_t last = 0;               // class of the last one that followed it
    for (const auto& [point, combining] : characters_) {
      poll_();
      if (starter && (last == 0 || last < combining)) {
        if (const std::uint32_t composite = compositions().find(out[*starter], point)) {
          out[*starter] = composite;
          continue;
        }
      }
      if (combining == 0) starter = out.size();
      last = combining;
      out.push_back(point);
    }
    characters_.clear();
  }

 private:
  struct Character {
    std::uint32_t point;
    std::uint8_t combining;
  };

  void add_syllable(std::uint32_t syllable) {
    const std::uint32_t trailing = syllable % kTrailingCount;
    const std::uint32_t vowel = syllable / kTrailingCount;
    characters_.push_back({kLeading + vowel / kVowelCount, 0});
    characters_.push_back({kVowels + vowel % kVowelCount, 0});
    if (trailing != 0) characters_.push_back({kTrailing + trailing, 0});
  }

  // Canonical order: marks that follow each other by class, those of a class as they came.
  void sort_marks() {
    const auto is_mark = [](const Character& one) { return one.combining != 0; };
    const auto by_class = [this](const Character& a, const Character& b) {
      poll_();
      return a.combining < b.combining;
    };
    for (auto at = characters_.begin(); at != characters_.end();) {
      const auto first = std::find_if(at, characters_.end(), is_mark);
      at = std::find_if_not(first, characters_.end(), is_mark);
      if (!std::is_sorted(first, at, by_class)) std::stable_sort(first, at, by_class);
    }
  }

  const bool compatible_;
  SparsePoll poll_;
  std::vector<Character> characters_;
};

// Characters that are their own normal form and never join or reorder with what precedes them, so
// that texts of these alone are normalised, and any text is in the pieces that begin with one.
class QuietCharacters {
 public:
  explicit QuietCharacters(Normalization form) : bits_(kEnd / 64, ~std::uint64_t{0}) {
    for (const CombiningRange& range : combining_ranges()) {
      for (std::uint32_t point = range.first; point <= range.last; ++point) remove(point);
    }
    compositions().each_second([&](std::uint32_t second) { remove(second); });
    Piece piece(form);
    CodePoints normal;
    for (const DecompositionRun& run : decomposition_runs()) {
      for (std::uint32_t point = run.first; point <= run.last; ++point) {
        normal.clear();
        piece.add(point);
        piece.finish(normal);
        if (normal != CodePoints{point}) remove(point);
      }
    }
  }

  bool contains(std::uint32_t point) const {
    return point >= kEnd || (bits_[point / 64] >> (point % 64) & 1) != 0;
  }

 private:
  static constexpr std::uint32_t kEnd = 0x30000;  // nothing is done to those above

  void remove(std::uint32_t point) { bits_[point / 64] &= ~(std::uint64_t{1} << (point % 64)); }

  std::vector<std::uint64_t> bits_;
};

const QuietCharacters& quiet_characters(Normalization form) {
  static const QuietCharacters nfc(Normalization::kNfc), nfkc(Normalization::kNfkc);
  return form == Normalization::kNfc ? nfc : nfkc;
}

}  // namespace

void normalize(Normalization form, CodePoints& points) {
  if (form == Normalization::kNone) return;
  const QuietCharacters& quiet = quiet_characters(form);
  SparsePoll poll;
  const auto loud = [&](std::uint32_t point) {
    poll();
    return !quiet.contains(point);
  };
  auto next = std::find_if(points.begin(), points.end(), loud);
  if (next == points.end()) return;
  CodePoints out;
  out.reserve(points.size());
  Piece piece(form);
  for (auto done = points.begin(); done != points.end();) {
    // The piece begins with the quiet character before, which `next` may join.
    const auto first = next == done || next == points.end() ? next : next - 1;
    out.insert(out.end(), done, first);
    done = std::find_if_not(next, points.end(), loud);
    for (auto at = first; at != done; ++at) piece.add(*at);
    piece.finish(out);
    next = std::find_if(done, points.end(), loud);
  }
  points = std::move(out);
}

void read_characters(std::string_view text, bool fold, Normalization normalization,
                     CodePoints& out) {
  decode_utf8(text, out);
  // Each character is a byte: ASCII, which is normal, or one of its own.
  if (out.size() == text.size()) normalization = Normalization::kNone;
  normalize(normalization, out);
  if (!fold) return;
  SparsePoll poll;
  for (std::uint32_t& point : out) {
    poll();
    point = fold_case(point);
  }
  normalize(normalization, out);
}

}  // namespace warplite::index
