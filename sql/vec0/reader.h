// The rows of a vec0 table of sqlite-vec 0.1, read from its shadow tables alone.
//
//   T_chunks           chunk_id, size, partitionNN …, validity, rowids: `size` places for rows of
//                      these partition values; bit i of validity (least significant first) says
//                      that place i is taken, int64 i of rowids by whom
//   T_vector_chunksNN  rowid = chunk_id, vectors: `size` vectors as they stand in a BLOB
//   T_metadatachunksNN rowid = chunk_id, data: `size` int64 (integer), float64 (float), bits
//                      (boolean), or (text) 16 bytes each: an int32 length and the first 12 bytes
//   T_metadatatextNN   rowid, data: texts of more than 12 bytes, whole
//   T_auxiliary        rowid, valueNN …: +columns
//   T_rowids           rowid, id, chunk_id, chunk_offset: id is the TEXT PRIMARY KEY
//
// NN counts the columns of its kind from 00 in declared order; numbers are little-endian.
// Threads: as the connection. Errors: Error{kCorrupt} names the shadow table, the chunk, what was
// expected and what came; Error{kHost} where SQLite cannot read one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "core/value.h"
#include "sql/definition/definition.h"
#include "sql/host/statement.h"

namespace warplite::sql {

class Vec0Reader {
 public:
  // `columns` is the table's declaration. REQUIRES: it outlives the reader.
  Vec0Reader(sqlite3* db, const std::string& schema, const std::string& table,
             const TableDefinition& columns);

  // The next row, chunk after chunk; false at the end.
  bool next();
  RowId rowid() const { return rowid_; }
  // Returns a cell of the current row; it is valid until the next row.
  Cell cell(std::size_t column) { return cell_of_kind(sources_[column]); }
  std::uint64_t row_count() const;  // as T_rowids knows it
  // Throws Error{kCorrupt} unless the chunks held every row that the table knows.
  void check_complete() const;

 private:
  struct Source {
    const ColumnDefinition* column;
    int number;              // among the columns of its kind
    std::string shadow;      // vectors, metadata: the table of `blocks`
    Statement blocks;        // by chunk; stands on the current one
    Statement texts;         // metadata TEXT: by row
    std::string_view bytes;  // of the current chunk
  };

  std::string shadow(const std::string& suffix) const { return table_ + "_" + suffix; }
  Statement select(const std::string& what, const std::string& suffix,
                   const std::string& rest) const;
  void open(Source& source);
  bool next_chunk();
  void check_length(const std::string& table, std::string_view what, const Cell& got,
                    std::uint64_t expected) const;
  void load(Source& source);
  void find_row();
  Cell cell_of_kind(Source& source);
  Cell metadata(Source& source);
  Cell metadata_text(Source& source);
  [[noreturn]] void fail(const std::string& table, const std::string& problem) const;

  sqlite3* db_;
  std::string schema_, table_;
  std::vector<Source> sources_;
  Statement chunks_, rowids_, aux_;
  bool has_aux_ = false;
  std::int64_t chunk_ = 0;
  std::size_t size_ = 0;   // places in the current chunk
  std::size_t place_ = 0;  // of the current row, counted from 1; 0 before the first
  std::string_view validity_, chunk_rowids_;
  RowId rowid_ = 0;
  std::uint64_t rows_ = 0;
};

}  // namespace warplite::sql
