// Predicates over plain columns and rowids, evaluated before the search: the
// result is a bitmap per part (DESIGN: filters come first).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bitmap.h"
#include "core/value.h"
#include "engine/filter/number_ranges.h"
#include "engine/table/view.h"

namespace warplite::engine {

enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIs,
  kIsNot,
  kIsNull,
  kIsNotNull,
  kIn,
  kLike,
  kGlob,
  kWithin,
};

// A test that only the host can make: of what it prints numbers as, and by functions that an
// application has put in place of SQLite's own.
// Threads: as the connection. Errors: the host's are passed on.
class HostTest {
 public:
  virtual ~HostTest() = default;
  virtual bool passes(const Cell& value) = 0;
};

// column <op> operand, with SQL's three-valued logic (NULL does not pass), SQLite's
// order of types (NULL < numbers < text < blob) and exact integer–real comparison.
// REQUIRES: affinity has been applied to the operands (sql/definition/values); the operand of LIKE
// and GLOB is a text, and no REAL column is tested by it but through `host`.
struct Predicate {
  static constexpr int kRowId = -1;
  int column = kRowId;  // index into Layout::plains, or kRowId
  Comparison op = Comparison::kEqual;
  std::vector<Value> operands;  // one; any number for kIn; none for kIsNull, kIsNotNull, kWithin
  std::vector<RowId> rowids =
      {};  // of kIn on the rowid: more operands, many of which fit better here
  std::shared_ptr<const NumberRanges> ranges = nullptr;  // of kWithin: merged, of the column's type
  Collation collation = Collation::kBinary;
  std::shared_ptr<HostTest> host = nullptr;  // when set, it says what passes, and nothing else does
};

using Filter = std::vector<Predicate>;  // all must hold

// The live rows of a view that pass a filter.
class Selection {
 public:
  struct Rows {
    Bitmap bits;       // empty when `all`, and when `count` is 0
    bool all = false;  // every row of the part: none is dead
    std::uint32_t count = 0;

    bool test(std::uint32_t row) const { return all || (count != 0 && bits.test(row)); }
  };
  // Segments whose zone maps or rowid range exclude every row are not read.
  Selection(const View& view, const Filter& filter);
  // Those of a view that was made of views, from their selections.
  explicit Selection(std::span<const std::shared_ptr<const Selection>> selections);

  const Rows& part(std::size_t i) const { return parts_[i]; }
  std::uint64_t count() const { return count_; }
  // Says whether no filter leaves any of the live rows out.
  bool everything() const { return everything_; }
  // Stands for these rows, in this process; not 0.
  std::uint64_t number() const { return number_; }
  // Says in a device's tile which part of the view it is of, and which of its rows are searched.
  // REQUIRES: `view` is the one that this was made of; both outlive the tile.
  template <class Tile>
  void describe(const View& view, std::uint32_t number, Tile& out) const {
    const Part& part = view.part(number);
    const Rows& selected = parts_[number];
    out.rows = part.rows();
    out.id = number;
    out.rowids = part.rowids();
    out.live = selected.all ? nullptr : selected.bits.words();
    out.live_rows = selected.count;
  }
  // Takes rows out, selected or not. REQUIRES: `view` is the one it was made of.
  void exclude(const View& view, std::span<const Location> rows);

 private:
  void add_up();

  std::vector<Rows> parts_;
  std::uint64_t number_;
  std::uint64_t count_ = 0;
  bool everything_;
};

// All live rows of the view, which keeps this.
std::shared_ptr<const Selection> all_rows(const View& view);

// LIKE (ASCII case-insensitive, % and _, no escape) and GLOB as SQLite defines them.
bool like_match(std::string_view pattern, std::string_view text);
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace warplite::engine
