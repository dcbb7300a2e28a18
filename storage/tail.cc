// The tail: rows one by one, as the newest writes left them.
#include <string>

#include "core/sparse.h"
#include "storage/codec/checksum.h"
#include "storage/codec/row_hash.h"
#include "storage/codec/segment_codec.h"
#include "storage/codec/wire.h"
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

constexpr int kFirstValue = 4;  // after id, flush, row, sum

struct TailRow {
  std::int64_t sequence;
  Stamp flush;
  RowId rowid;
};

// The checksum of a tail row, fed with its values in order.
class RowSum {
 public:
  explicit RowSum(const TailRow& row) : sum_(checksum(std::as_bytes(std::span(&row, 1)))) {
    static_assert(sizeof(TailRow) == 32);
  }
  void add(const Cell& cell) { sum_ = add_cell(sum_, cell); }
  std::int64_t value() const { return static_cast<std::int64_t>(sum_); }

 private:
  std::uint64_t sum_;
};

// A text is stored as a blob: a database in UTF-16 would change bytes that are not UTF-8.
Cell stored_form(const Cell& cell) {
  return cell.kind == CellKind::kText ? Cell::blob(cell.bytes) : cell;
}

// Makes the cells of one row's columns, in the order in which they are written.
void stored_cells(const Layout& layout, const RowRef& ref, std::span<Cell> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i] = i < layout.vectors.size()
                   ? vector_cell(*ref.chunk, ref.row, i)
                   : stored_form(ref.chunk->plain(i - layout.vectors.size()).cell(ref.row));
  }
}

Cell checked_vector(const Cell& cell, const Layout::Vector& shape) {
  if (cell.is_null()) return cell;
  if (cell.kind != CellKind::kBlob || cell.bytes.size() != shape.stride()) {
    corrupt("expected NULL or a blob of " + std::to_string(shape.stride()) + " bytes");
  }
  if (!all_finite(shape.type, as_bytes(cell.bytes))) corrupt("holds NaN or infinity");
  return cell;
}

// `dim`: of a sparse vector.
Cell checked_plain(const Cell& cell, PlainType type, std::uint32_t dim) {
  if (cell.is_null()) return cell;
  switch (type) {
    case PlainType::kInteger:
      if (cell.kind == CellKind::kInteger) return cell;
      corrupt("expected NULL or an integer");
    case PlainType::kBoolean:
      if (cell.kind == CellKind::kInteger && (cell.integer == 0 || cell.integer == 1)) return cell;
      corrupt("expected NULL, 0 or 1");
    case PlainType::kReal:
      if (cell.kind == CellKind::kReal) return cell;
      corrupt("expected NULL or a real");
    case PlainType::kText:
      if (cell.kind == CellKind::kBlob) return Cell::text(cell.bytes);
      corrupt("expected NULL or a blob of text");
    case PlainType::kSparse:
      if (cell.kind != CellKind::kBlob) corrupt("expected NULL or a blob");
      if (const char* const fault = sparse_fault(cell.bytes, dim)) corrupt(fault);
      return cell;
  }
  return cell;
}

// The values of the current row of kReadTail, checked against the table's columns.
class TailReader {
 public:
  TailReader(const Layout& layout, Execution& query)
      : layout_(layout), query_(query), vectors_(layout.vectors.size()),
        plains_(layout.plains.size()), no_aux_(layout.aux) {}

  // Reads the row into `rows`, and returns its flush stamp and its checksum.
  TailRead read_into(Chunk& rows) {
    const auto flush = query_.stamp(1);
    if (!flush || flush->is_null()) corrupt("flush stamp is not 16 bytes");
    const TailRow row{query_.integer(0), *flush, query_.integer(2)};
    RowSum sum(row);
    for (std::size_t i = 0; i < vectors_.size(); ++i) {
      vectors_[i] = value("vector column ", i, i, sum, [&](const Cell& cell) {
        return checked_vector(cell, layout_.vectors[i]);
      });
    }
    for (std::size_t i = 0; i < plains_.size(); ++i) {
      plains_[i] = value("column ", i, vectors_.size() + i, sum, [&](const Cell& cell) {
        return checked_plain(cell, layout_.plains[i], layout_.sparse_dim(i));
      });
    }
    if (sum.value() != query_.integer(3)) corrupt("checksum differs");
    if (rows.full()) corrupt("there are more rows than the state record counts");
    rows.append({row.rowid, vectors_.data(), plains_.data(), no_aux_.data()});
    return {row.flush, static_cast<std::uint64_t>(sum.value())};
  }

 private:
  template <typename Checked>
  Cell value(const char* kind, std::size_t column, std::size_t position, RowSum& sum,
             Checked&& checked) {
    const Cell cell = query_.cell(kFirstValue + static_cast<int>(position));
    sum.add(cell);
    try {
      return checked(cell);
    } catch (const Error& error) {
      corrupt(kind + std::to_string(column) + ": " + error.what());
    }
  }

  const Layout& layout_;
  Execution& query_;
  std::vector<Cell> vectors_;
  std::vector<Cell> plains_;
  std::vector<Cell> no_aux_;  // NULLs: +columns are read from their own table
};

}  // namespace

TailRead Store::read_tail(std::int64_t after, Chunk& rows, std::vector<std::int64_t>& sequences) {
  TailRead read;
  Execution query = impl_->statements.use(Sql::kReadTail);
  query.bind(after);
  TailReader reader(impl_->layout, query);
  while (query.step()) {
    const std::int64_t sequence = query.integer(0);
    impl_->at([&] { return "tail row " + std::to_string(sequence); }, [&] {
      if (!sequences.empty() && sequence <= sequences.back()) corrupt("is out of order");
      sequences.push_back(sequence);
      const TailRead row = reader.read_into(rows);
      read = {row.last_flush, read.digest + row.digest};
    });
  }
  return read;
}

TailRead Store::read_content_tail(std::int64_t after, std::vector<ContentTailRow>& rows) {
  TailRead read;
  Execution query = impl_->statements.use(Sql::kReadTail);
  query.bind(after);
  while (query.step()) {
    const std::int64_t sequence = query.integer(0);
    impl_->at([&] { return "tail row " + std::to_string(sequence); }, [&] {
      const auto flush = query.stamp(1);
      if (!flush || flush->is_null()) corrupt("flush stamp is not 16 bytes");
      const TailRow row{sequence, *flush, query.integer(2)};
      const std::int64_t hash = query.integer(kFirstValue);
      RowSum sum(row);
      sum.add(Cell::of(hash));
      if (sum.value() != query.integer(3)) corrupt("checksum differs");
      if (!rows.empty() && sequence <= rows.back().sequence) corrupt("is out of order");
      rows.push_back({sequence, row.rowid, static_cast<std::uint64_t>(hash)});
      read = {*flush, read.digest + static_cast<std::uint64_t>(sum.value())};
    });
  }
  return read;
}

std::int64_t Store::count_tail(std::int64_t after) {
  Execution query = impl_->statements.use(Sql::kCountTail);
  query.bind(after).step();
  return query.integer(0);
}

void Store::verify_tail(State& state, std::int64_t sequence, const TailRead& found) const {
  if (sequence > state.last_sequence) {
    impl_->corrupt("tail row " + std::to_string(sequence),
                   "follows the state record's last sequence number, " +
                       std::to_string(state.last_sequence));
  }
  if (found.last_flush != state.last_flush) {
    impl_->corrupt("tail", "its newest row is not of the last flush");
  }
  if (state.tail_digest.value_or(found.digest) != found.digest) {
    impl_->corrupt("tail", "its rows are not those that the state record describes");
  }
  state.tail_digest = found.digest;
}

Stamp Store::tail_flush(std::int64_t sequence) {
  Execution query = impl_->statements.use(Sql::kTailFlush);
  if (!query.bind(sequence).step()) return {};
  const auto flush = query.stamp(0);
  if (!flush) impl_->corrupt("tail row " + std::to_string(sequence), "flush stamp is not 16 bytes");
  return *flush;
}

void Store::append_tail(State& state, const Stamp& flush, std::span<const RowRef> rows) {
  const KeepLastInsertRowid keep(impl_->db);
  const Layout& layout = impl_->layout;
  const LiftedLimit columns(impl_->db, SQLITE_LIMIT_VARIABLE_NUMBER);
  Execution query = impl_->statements.use(Sql::kAppendTail);
  std::vector<Cell> cells(layout.content ? 1 : layout.vectors.size() + layout.plains.size());
  for (const RowRef& ref : rows) {
    if (state.last_sequence >= kMaxSequence) {
      throw Error(ErrorKind::kLimit, impl_->table + ": no sequence numbers are left");
    }
    const TailRow row{state.last_sequence + 1, flush, ref.chunk->rowids()[ref.row]};
    RowSum sum(row);
    if (layout.content) {
      cells[0] = Cell::of(static_cast<std::int64_t>(row_hash(layout, ref)));
    } else {
      stored_cells(layout, ref, cells);
    }
    for (const Cell& cell : cells) sum.add(cell);
    query.bind(row.sequence).bind_stamp(flush).bind(row.rowid).bind(sum.value());
    for (const Cell& cell : cells) query.bind_cell(cell);
    query.run();
    state.last_sequence = row.sequence;
    state.last_flush = flush;
    if (state.tail_digest) *state.tail_digest += static_cast<std::uint64_t>(sum.value());
    ++state.tail_rows;
  }
}

void Store::erase_tail(State& state, std::span<const std::int64_t> sequences) {
  Execution sum = impl_->statements.use(Sql::kTailSum);
  Execution erase = impl_->statements.use(Sql::kEraseTail);
  for (std::int64_t sequence : sequences) {
    if (!sum.bind(sequence).step()) {
      impl_->corrupt("tail row " + std::to_string(sequence), "is missing");
    }
    if (state.tail_digest) *state.tail_digest -= static_cast<std::uint64_t>(sum.integer(0));
    sum.run();
    erase.bind(sequence).run();
    --state.tail_rows;
  }
  state.tail_epoch = new_stamp();
  Execution newest = impl_->statements.use(Sql::kNewestFlush);
  state.last_flush = newest.step() ? newest.stamp(0).value_or(Stamp{}) : Stamp{};
}

void Store::clear_tail(State& state) {
  impl_->statements.use(Sql::kClearTail).run();
  state.tail_rows = 0;
  state.tail_digest = 0;
  state.tail_epoch = new_stamp();
  state.last_flush = {};
}

}  // namespace warplite::storage
