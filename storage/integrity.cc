// Reads everything a table stores and says what does not fit together.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "storage/codec/checksum.h"
#include "storage/codec/column_codec.h"
#include "storage/codec/segment_codec.h"
#include "storage/codec/wire.h"
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

constexpr std::int64_t kTail = 0;  // in place of a segment's number

// A row that is alive, where it was found, and the checksum of its text key.
struct LiveRow {
  RowId rowid;
  std::int64_t segment;
  std::uint64_t key;

  friend bool operator<(const LiveRow& a, const LiveRow& b) { return a.rowid < b.rowid; }
};

std::string name_of(std::int64_t segment) {
  return segment == kTail ? "the tail" : "segment " + std::to_string(segment);
}

bool same(const Value& a, const Value& b) {
  const Cell x = a.cell(), y = b.cell();
  if (x.kind != y.kind) return false;
  if (x.kind == CellKind::kReal) return x.real == y.real;
  return x.kind == CellKind::kInteger ? x.integer == y.integer : x.bytes == y.bytes;
}

bool same(const ZoneMap& a, const ZoneMap& b) {
  return a.all_null == b.all_null && a.has_null == b.has_null &&
         (a.all_null || (same(a.low, b.low) && same(a.high, b.high)));
}

class Checker {
 public:
  Checker(Store& store, Store::Impl& impl, std::size_t limit)
      : store_(store), impl_(impl), limit_(limit) {}

  std::vector<std::string> run() {
    State state;
    guard([&] { state = store_.read_state(); });
    const std::vector<SegmentInfo> segments = read_directory();
    DirectorySummary directory;
    for (const SegmentInfo& segment : segments) directory.add(segment);
    const std::int64_t last = segments.empty() ? 0 : segments.back().id;
    if (faults_.empty()) guard([&] { store_.verify_directory(state, directory, last); });
    for (const SegmentInfo& segment : segments) check_segment(segment);
    for (std::size_t i = 0; i < state.models.size(); ++i) {
      if (!state.models[i].is_null()) guard([&] { store_.load_model(state.models[i], i); });
    }
    check_blocks(segments, state);
    check_tail(state);
    // After other faults, rows that could not be read would only be reported once more as missing.
    if (faults_.empty()) check_rows();
    return std::move(faults_);
  }

 private:
  bool full() const { return faults_.size() >= limit_; }
  void fault(const std::string& text) {
    if (!full()) faults_.push_back(impl_.table + ": " + text);
  }
  // Runs `read`; what it finds corrupt is a fault. False when it found something.
  template <typename Read>
  bool guard(Read&& read) {
    try {
      read();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      if (!full()) faults_.emplace_back(error.what());
      return false;
    }
  }

  std::vector<SegmentInfo> read_directory() {
    std::vector<SegmentInfo> segments;
    Execution query = impl_.statements.use(Sql::kReadSegments);
    while (!full() && query.step()) {
      const std::int64_t id = query.integer(0);
      guard([&] {
        impl_.at([&] { return name_of(id) + ", directory entry"; }, [&] {
          if (!segments.empty() && id <= segments.back().id) corrupt("is out of order");
          segments.push_back(decode_segment(query.blob(1), id, impl_.layout));
        });
      });
    }
    return segments;
  }

  void check_segment(const SegmentInfo& segment) {
    if (full()) return;
    if (impl_.layout.content) {
      guard([&] { store_.load_hashes(segment); });
    } else {
      for (std::size_t i = 0; i < segment.vectors.size(); ++i) {
        guard([&] { check_vectors(segment, i); });
      }
    }
    for (std::size_t i = 0; i < segment.codes.size(); ++i) {
      if (!segment.codes[i].block.is_null()) guard([&] { store_.load_codes(segment, i); });
    }
    std::vector<std::uint64_t> keys(segment.rows);
    for (std::size_t i = 0; i < segment.plains.size() && !impl_.layout.content; ++i) {
      guard([&] { check_plain(segment, i, keys); });
    }
    guard([&] { collect_live(segment, keys); });
  }

  void check_vectors(const SegmentInfo& segment, std::size_t column) {
    if (segment.vectors[column].is_null()) return;
    const VectorBlock block = store_.load_vectors(segment, column);
    if (block.present.size() != 0 && block.present.all()) {
      fault(impl_.place(impl_.vectors_header(segment, column)) +
            ": a bitmap says what is present though nothing is missing");
    }
  }

  void check_plain(const SegmentInfo& segment, std::size_t column,
                   std::vector<std::uint64_t>& keys) {
    const Column values = store_.load_plain(segment, column);
    if (!same(make_zone(values), segment.zones[column])) {
      fault(impl_.place(impl_.plain_header(segment, column)) +
            ": smallest and largest value are not those of the directory entry");
    }
    if (static_cast<int>(column) != impl_.layout.text_key) return;
    for (std::uint32_t row = 0; row < segment.rows; ++row) {
      keys[row] = checksum(as_bytes(values.text(row)));
    }
  }

  void collect_live(const SegmentInfo& segment, const std::vector<std::uint64_t>& keys) {
    std::vector<RowId> list;
    if (!segment.rowids.is_null()) list = store_.load_rowids(segment);
    const RowIdView rowids{segment.min_rowid, list.empty() ? nullptr : list.data()};
    Bitmap alive;
    if (!segment.alive.is_null()) alive = store_.load_alive(segment);
    for (std::uint32_t row = 0; row < segment.rows; ++row) {
      if (alive.size() != 0 && !alive.test(row)) continue;
      live_.push_back({rowids[row], segment.id, keys[row]});
    }
  }

  void check_blocks(const std::vector<SegmentInfo>& segments, const State& state) {
    std::vector<std::int64_t> owned;
    const auto add = [&](const BlockHeader& header) {
      if (!header.stamp.is_null()) owned.push_back(header.id());
    };
    for (std::size_t i = 0; i < state.models.size(); ++i) {
      add(impl_.model_header(state.models[i], i));
    }
    for (const SegmentInfo& segment : segments) {
      add(impl_.rowids_header(segment));
      add(impl_.alive_header(segment));
      if (impl_.layout.content) {
        add(impl_.hashes_header(segment));
      } else {
        add_values(segment, add);
      }
      for (std::size_t i = 0; i < segment.codes.size(); ++i) add(impl_.codes_header(segment, i));
    }
    std::sort(owned.begin(), owned.end());
    Execution query = impl_.statements.use(Sql::kBlockIds);
    while (!full() && query.step()) {
      const std::int64_t id = query.integer(0);
      if (std::binary_search(owned.begin(), owned.end(), id)) continue;
      fault("block " + std::to_string(id) + " belongs to no segment");
    }
  }

  template <typename Add>
  void add_values(const SegmentInfo& segment, const Add& add) const {
    for (std::size_t i = 0; i < segment.vectors.size(); ++i) add(impl_.vectors_header(segment, i));
    for (std::size_t i = 0; i < segment.plains.size(); ++i) add(impl_.plain_header(segment, i));
  }

  void check_tail(State& state) {
    if (full()) return;
    constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::min();
    const std::int64_t count = store_.count_tail(kAll);
    if (count != state.tail_rows) {
      return fault("the tail has " + std::to_string(count) + " rows, the state record says " +
                   std::to_string(state.tail_rows));
    }
    if (impl_.layout.content) return check_content_tail(state);
    Chunk rows(impl_.layout, static_cast<std::uint32_t>(count));
    std::vector<std::int64_t> sequences;
    TailRead read;
    // A row that cannot be read is the last of `sequences`: go on behind it.
    const auto read_rest = [&] {
      read = store_.read_tail(sequences.empty() ? kAll : sequences.back(), rows, sequences);
    };
    bool intact = true;
    while (!full() && !guard(read_rest)) intact = false;
    if (!intact) return;
    guard([&] { store_.verify_tail(state, sequences.empty() ? 0 : sequences.back(), read); });
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
      const int key = impl_.layout.text_key;
      live_.push_back({rows.rowids()[row], kTail,
                       key < 0 ? 0 : checksum(as_bytes(rows.plain(static_cast<std::size_t>(key))
                                                           .text(row)))});
    }
  }

  void check_content_tail(State& state) {
    std::vector<ContentTailRow> rows;
    const auto read = [&] {
      const TailRead found =
          store_.read_content_tail(std::numeric_limits<std::int64_t>::min(), rows);
      store_.verify_tail(state, rows.empty() ? 0 : rows.back().sequence, found);
    };
    if (!guard(read)) return;
    for (const ContentTailRow& row : rows) live_.push_back({row.rowid, kTail, 0});
  }

  void check_rows() {
    std::stable_sort(live_.begin(), live_.end());
    for (std::size_t i = 1; i < live_.size() && !full(); ++i) {
      if (live_[i - 1].rowid != live_[i].rowid) continue;
      fault("row " + std::to_string(live_[i].rowid) + " is alive in " +
            name_of(live_[i - 1].segment) + " and in " + name_of(live_[i].segment));
    }
    if (impl_.layout.aux > 0) {
      match_rows(Sql::kAuxIds, "+columns", [](Execution&, const LiveRow&) { return true; });
    }
    if (impl_.layout.text_key >= 0) {
      match_rows(Sql::kKeys, "key", [](Execution& query, const LiveRow& row) {
        return checksum(query.blob(1)) == row.key;
      });
    }
  }

  // Walks the ids of a row table beside the live rows: both ascend.
  template <typename Agrees>
  void match_rows(Sql sql, const std::string& what, Agrees&& agrees) {
    Execution query = impl_.statements.use(sql);
    auto row = live_.begin();
    while (!full() && query.step()) {
      const std::int64_t id = query.integer(0);
      for (; row != live_.end() && row->rowid < id; ++row) lacks(*row, what);
      if (row == live_.end() || row->rowid != id) {
        fault("the " + what + " of row " + std::to_string(id) + " belong to no row");
      } else {
        if (!agrees(query, *row)) {
          fault("the " + what + " of row " + std::to_string(id) + " differ from the row's");
        }
        ++row;
      }
    }
    for (; row != live_.end() && !full(); ++row) lacks(*row, what);
  }
  void lacks(const LiveRow& row, const std::string& what) {
    fault("row " + std::to_string(row.rowid) + " has no " + what);
  }

  Store& store_;
  Store::Impl& impl_;
  std::size_t limit_;
  std::vector<std::string> faults_;
  std::vector<LiveRow> live_;
};

}  // namespace

std::vector<std::string> Store::check(std::size_t limit) {
  return Checker(*this, *impl_, limit).run();
}

}  // namespace warplite::storage
