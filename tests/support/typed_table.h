// A table with a vector column of every element type, in small segments, with what was written to it, so that searches
// are compared with brute force over that.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "compute/reference.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {

inline constexpr std::uint32_t kElements = 64;  // of a vector
inline constexpr std::int64_t kNumbers = 40;    // that rows have, to be filtered by

// A column.
struct TypedColumn {
  ElementType type;
  Distance distance;
  std::vector<std::uint32_t> elements;  // as bits, to choose from
  std::size_t width;                    // bytes of an element; of bits, a byte of them
};
inline const std::array<TypedColumn, 5> kTypes = {{
    {ElementType::kFloat32, Distance::kL2, {0, 0x3F800000, 0x40000000, 0xBF800000, 0x3E99999A}, 4},
    {ElementType::kFloat16, Distance::kCosine, {0, 0x3C00, 0x4000, 0xBC00, 0x34CD}, 2},
    {ElementType::kBFloat16, Distance::kInnerProduct, {0, 0x3F80, 0x4000, 0xBF80, 0x3E99}, 2},
    {ElementType::kInt8, Distance::kL1, {0, 1, 2, 0xFF, 0x80, 0x7F}, 1},
    {ElementType::kBit, Distance::kHamming, {0, 1, 0x0F, 0xF0, 0xFF, 0x81}, 1},
}};

inline TableOptions options_of_all_types() {
  TableOptions options;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    options.layout.vectors.push_back({kTypes[i].type, kElements});
    options.vectors.push_back({"v" + std::to_string(i), kTypes[i].distance, {}});
  }
  options.layout.plains = {PlainType::kInteger};
  options.plain_names = {"n"};
  options.rowid_name = "id";
  options.layout.segment_rows = 64;
  options.tail_rows = 32;
  return options;
}

struct TypedQuestion {
  std::size_t k = 10;
  std::size_t queries = 3;
  std::int64_t below = kNumbers;  // n
  std::optional<double> within = std::nullopt;
};

// (query, distance, rowid), in order.
using Answer = std::vector<std::tuple<std::size_t, double, RowId>>;

// A table in a file, and what was written to it.
class TypedTable {
 public:
  explicit TypedTable(unsigned seed) : random_(seed), session_(file_.path(), options_of_all_types(), true) {
    insert(20 * 64);
  }

  std::string vector(std::size_t column) {
    const TypedColumn& type = kTypes[column];
    std::string bytes;
    const std::size_t count = type.type == ElementType::kBit ? kElements / 8 : kElements;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t element = type.elements[random_() % type.elements.size()];
      bytes.append(reinterpret_cast<const char*>(&element), type.width);
    }
    return bytes;
  }

  void insert(int count) {
    session_.begin();
    for (int i = 0; i < count; ++i) {
      TestRow row;
      for (std::size_t c = 0; c < kTypes.size(); ++c) {
        row.vectors.push_back(random_() % 9 == 0 ? std::nullopt : std::optional(vector(c)));
      }
      row.plains.push_back(std::to_string(static_cast<std::int64_t>(random_()) % kNumbers));
      const BorrowedRow borrowed(options_of_all_types().layout, row, std::nullopt);
      rows_[*session_.table().insert(borrowed.get(), OnConflict::kAbort)] = row;
    }
    session_.commit();
  }
  // `pending`: not committed.
  void erase(int count, bool pending = false) {
    session_.begin();
    for (int i = 0; i < count; ++i) {
      auto row = rows_.lower_bound(static_cast<RowId>(random_() % rows_.rbegin()->first));
      session_.table().erase(row->first);
      rows_.erase(row);
    }
    if (!pending) session_.commit();
  }
  void commit() { session_.commit(); }

  std::size_t bytes(std::size_t column) {
    const auto view = session_.table().view();
    std::size_t sum = 0;
    for (std::size_t i = 0; i < view->parts(); ++i) sum += view->part(i).vector_bytes(column);
    return sum;
  }

  Answer brute_force(std::size_t column, const TypedQuestion& ask, const std::string& queries) const {
    const TypedColumn& type = kTypes[column];
    const std::size_t stride = queries.size() / ask.queries;
    Answer answer;
    for (std::size_t q = 0; q < ask.queries; ++q) {
      Answer all;
      for (const auto& [rowid, row] : rows_) {
        if (!row.vectors[column] || std::stoll(*row.plains[0]) >= ask.below) continue;
        const double distance = compute::canonical_distance(
            type.distance, type.type, kElements,
            reinterpret_cast<const std::byte*>(queries.data() + q * stride),
            reinterpret_cast<const std::byte*>(row.vectors[column]->data()));
        if (!ask.within || distance <= *ask.within) all.emplace_back(q, distance, rowid);
      }
      std::sort(all.begin(), all.end());
      if (!ask.within) all.resize(std::min(all.size(), ask.k));
      answer.insert(answer.end(), all.begin(), all.end());
    }
    return answer;
  }

  // Through this connection or another one.
  Answer found(Collection& table, std::size_t column, const TypedQuestion& ask, const std::string& queries,
               const std::string& device) {
    SearchRequest request;
    request.column = column;
    request.distance = kTypes[column].distance;
    request.queries = {reinterpret_cast<const std::byte*>(queries.data()), ask.queries, kElements,
                       kTypes[column].type};
    request.device = device;
    const auto view = table.view();
    Filter filter;
    if (ask.below < kNumbers) {
      filter.push_back({0, Comparison::kLess, {Value(Cell::of(ask.below))}});
    }
    const Selection selection(*view, filter);
    Answer answer;
    if (ask.within) {
      request.range.high = *ask.within;
      const auto lists = within(*view, selection, table.index(column), request);
      for (std::size_t q = 0; q < lists.size(); ++q) {
        for (const Hit& hit : lists[q]) answer.emplace_back(q, hit.distance, hit.rowid);
      }
      std::sort(answer.begin(), answer.end());
      return answer;
    }
    auto best = nearest(*view, selection, table.index(column), request, ask.k);
    for (std::size_t q = 0; q < best.queries(); ++q) {
      for (const Hit& hit : best.sorted(q)) {
        answer.emplace_back(q, hit.distance, view->rowid({hit.block, hit.row}));
      }
    }
    return answer;
  }
  bool right(std::size_t column, const TypedQuestion& ask, const std::string& device = "") {
    std::string queries;
    for (std::size_t q = 0; q < ask.queries; ++q) queries += vector(column);
    return found(session_.table(), column, ask, queries, device) == brute_force(column, ask, queries);
  }
  // The same of many questions.
  bool all_right(std::size_t column, const std::string& device = "") {
    const double far[] = {8, 0.9, 3, 3000, 30};
    bool ok = true;
    for (const std::int64_t below : {kNumbers, std::int64_t{20}, std::int64_t{1}, std::int64_t{0}}) {
      for (const std::size_t k : {1, 10, 100000}) ok &= right(column, {.k = k, .below = below}, device);
      ok &= right(column, {.below = below, .within = far[column]}, device);
    }
    return ok;
  }

  const std::string& path() const { return file_.path(); }
  Collection& collection() { return session_.table(); }

 private:
  TemporaryFile file_;
  std::mt19937 random_;
  IvfSession session_;
  std::map<RowId, TestRow> rows_;
};

}  // namespace warplite::engine
