#include "index/tiles/sparse_postings.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compute/sparse/postings.h"
#include "core/error.h"
#include "core/sparse.h"

namespace warplite::index {
namespace {

using compute::SparsePostings;
using compute::SparseShape;

// A list of one row in so many is a column. A row of a column took 0.15 cycles and a posting 5.7 (Zen,
// AVX-512, four tiles of 65,536 rows); a column takes a byte a row, and a posting three.
constexpr std::uint32_t kColumnShare = 16;

std::uint32_t key_of(const SparseEntry& entry) { return 2 * entry.index + (entry.value < 0 ? 1 : 0); }

// Calls visit(row, entry) for each entry that is in a list.
template <typename Visit>
void each_posting(const Column& values, const std::function<void()>& poll, Visit&& visit) {
  for (std::uint32_t row = 0; row < values.size(); ++row) {
    if (row % 256 == 0) poll();
    if (values.is_null(row)) continue;
    for (SparseReader reader(values.text(row).data()); reader.left() != 0;) {
      const SparseEntry entry = reader.next();
      if (entry.value != 0) visit(row, entry);
    }
  }
}

// What the entries of a key come to.
struct List {
  std::uint32_t count = 0;
  float largest = 0;     // without its sign; then the step
  std::uint32_t at = 0;  // number of the column, or where the next posting goes
  bool column = false;
  double inverse = 0;    // of the step

  void add(float value) {
    ++count;
    largest = std::max(largest, std::abs(value));
  }
};

// The lists of the keys that there are, in their order.
class Lists {
 public:
  Lists(const Column& values, const std::function<void()>& poll) {
    if (!fill_table(values, poll)) fill_sorted(values, poll);
    if (entries_ > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorKind::kLimit, "more than 4294967295 entries of sparse vectors in a segment");
    }
  }

  const std::vector<std::uint32_t>& keys() const { return keys_; }
  List& operator[](std::size_t i) { return table_[sorted_ ? i : keys_[i]]; }
  const List& operator[](std::size_t i) const { return table_[sorted_ ? i : keys_[i]]; }
  List& of(std::uint32_t key) {
    if (!sorted_) return table_[key];
    return table_[static_cast<std::size_t>(std::lower_bound(keys_.begin(), keys_.end(), key) -
                                           keys_.begin())];
  }

 private:
  // By key, which takes no search. False: keys are too large for that.
  bool fill_table(const Column& values, const std::function<void()>& poll) {
    constexpr std::uint32_t kMostKeys = 1u << 20;
    bool fits = true;
    each_posting(values, poll, [&](std::uint32_t, const SparseEntry& entry) {
      const std::uint32_t key = key_of(entry);
      fits = fits && key < kMostKeys;
      if (!fits) return;
      if (key >= table_.size()) table_.resize(std::max<std::size_t>(key + 1, table_.size() * 2));
      table_[key].add(entry.value);
      ++entries_;
    });
    if (!fits) return false;
    for (std::size_t key = 0; key < table_.size(); ++key) {
      if (table_[key].count != 0) keys_.push_back(static_cast<std::uint32_t>(key));
    }
    return true;
  }

  void fill_sorted(const Column& values, const std::function<void()>& poll) {
    sorted_ = true;
    each_posting(values, poll, [&](std::uint32_t, const SparseEntry& entry) {
      keys_.push_back(key_of(entry));
    });
    entries_ = keys_.size();
    std::sort(keys_.begin(), keys_.end());
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
    table_.assign(keys_.size(), {});
    each_posting(values, poll, [&](std::uint32_t, const SparseEntry& entry) {
      of(key_of(entry)).add(entry.value);
    });
  }

  std::vector<std::uint32_t> keys_;
  std::vector<List> table_;  // by key; or, sorted_, in the order of keys_
  std::size_t entries_ = 0;
  bool sorted_ = false;
};

// A step of which 255 reach `largest`.
float step_for(float largest) {
  float step = largest / 255;
  while (static_cast<double>(step) * 255 < static_cast<double>(largest)) {
    step = std::nextafter(step, std::numeric_limits<float>::infinity());
  }
  return step;
}

// Products of a step and an impact are exact. That of the inverse is not: it is at most one off, and is put
// right without a branch, which nobody could foresee.
std::uint8_t impact_of(float value, const List& list) {
  const double size = std::abs(static_cast<double>(value)), step = static_cast<double>(list.largest);
  int impact = static_cast<int>(size * list.inverse) + 1;
  impact += impact * step < size ? 1 : 0;
  impact -= (impact - 1) * step >= size ? 1 : 0;
  return static_cast<std::uint8_t>(impact);
}

class Maker {
 public:
  Maker(const Column& values, const std::function<void()>& poll)
      : values_(values), poll_(poll), lists_(values, poll) {}

  Bytes make() {
    const SparseShape shape = place_lists();
    Bytes bytes(SparsePostings<std::byte>::size_of(shape));
    std::memset(bytes.data(), 0, bytes.size());
    const SparsePostings<std::byte> to(shape, bytes.data());
    to.stored_shape() = shape;
    write_keys(to);
    write_postings(to);
    write_maxima(to);
    return bytes;
  }

 private:
  SparseShape place_lists() {
    SparseShape shape;
    shape.rows = static_cast<std::uint32_t>(values_.size());
    for (std::uint32_t row = 0; row < shape.rows; ++row) {
      if (values_.is_null(row)) continue;
      const std::size_t entries = SparseReader(values_.text(row).data()).left();
      shape.widest = std::max(shape.widest, static_cast<std::uint32_t>(entries));
    }
    for (std::size_t i = 0; i < lists_.keys().size(); ++i) {
      const std::uint32_t key = lists_.keys()[i];
      shape.negative |= key & 1;
      while (key >> shape.shift >= compute::kSparseBuckets) ++shape.shift;
      List& list = lists_[i];
      list.largest = step_for(list.largest);
      list.inverse = 1 / static_cast<double>(list.largest);
      list.column = std::uint64_t{list.count} * kColumnShare >= shape.rows;
      if (list.column) {
        list.at = shape.columns++;
      } else {
        list.at = shape.postings;
        shape.postings += list.count;
        ++shape.lists;
      }
    }
    return shape;
  }

  void write_keys(const SparsePostings<std::byte>& to) const {
    std::size_t columns = 0, lists = 0;
    for (std::size_t i = 0; i < lists_.keys().size(); ++i) {
      const std::uint32_t key = lists_.keys()[i];
      if (lists_[i].column) {
        to.column_keys()[columns] = key;
        to.column_steps()[columns++] = lists_[i].largest;
      } else {
        to.list_keys()[lists] = key;
        to.begins()[lists] = lists_[i].at;
        to.list_steps()[lists++] = lists_[i].largest;
      }
    }
    to.begins()[lists] = to.shape().postings;
    const auto keys = to.list_keys();
    for (std::uint32_t bucket = 0, list = 0; bucket <= compute::kSparseBuckets; ++bucket) {
      while (list < keys.size() && keys[list] >> to.shape().shift < bucket) ++list;
      to.buckets()[bucket] = list;
    }
  }

  void write_postings(const SparsePostings<std::byte>& to) {
    each_posting(values_, poll_, [&](std::uint32_t row, const SparseEntry& entry) {
      List& list = lists_.of(key_of(entry));
      const std::uint8_t impact = impact_of(entry.value, list);
      if (list.column) {
        to.column(list.at)[row] = impact;
      } else {
        to.places()[list.at] = static_cast<std::uint16_t>(compute::sparse_place(row));
        to.impacts()[list.at++] = impact;
      }
    });
  }

  static void write_maxima(const SparsePostings<std::byte>& to) {
    for (std::size_t i = 0; i < to.shape().columns; ++i) {
      const std::uint8_t* const impacts = to.column(i);
      for (std::size_t row = 0; row < to.shape().padded_rows(); row += compute::kSparseRange) {
        std::uint8_t most = 0;
        for (std::uint32_t r = 0; r < compute::kSparseRange; ++r) most = std::max(most, impacts[row + r]);
        to.maxima(i)[row / compute::kSparseRange] = most;
      }
    }
  }

  const Column& values_;
  const std::function<void()>& poll_;
  Lists lists_;
};

}  // namespace

Bytes make_sparse_postings(const Column& values, const std::function<void()>& poll) {
  WARP_CHECK(values.size() <= compute::kSparseRows);
  return Maker(values, poll).make();
}

}  // namespace warplite::index
