// Sparse vectors as SQL values: JSON and BLOBs in and out, and the bytes that are stored
// (core/sparse.h). Values of a column, dense or sparse, are read here too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/sparse.h"
#include "sql/definition/definition.h"
#include "sql/definition/values.h"

namespace warplite::sql {

// Says whether a value can be nothing but a sparse vector: a BLOB whose subtype says so, or JSON
// that begins as one ('{', '[[').
bool is_sparse(sqlite3_value* value);

// A sparse vector as it is stored; `dim` is how many entries it has. TEXT: a JSON object of numbers
// by index, {"17": 0.5}, or a JSON array of pairs, [[17, 0.5]], in any order. BLOB: pairs of a uint32
// index and a float32 value, little-endian, ascending. Refuses indexes that come twice or are not below
// `dim`, NaN, infinity, other types. Not for NULL.
VectorInput sparse_from_cell(const Cell& cell, std::uint32_t dim, const Place& where);
// The same; a BLOB whose subtype says that it is a dense vector is refused.
VectorInput sparse_value(sqlite3_value* value, std::uint32_t dim, const Place& where);

// A value for a vector column, or a query on it, dense or sparse. Not for NULL.
VectorInput column_vector(sqlite3_value* value, const ColumnDefinition& column,
                          const Place& where);

// Several sparse vectors in one BLOB, a matrix of compressed rows:
//   rows     int64
//   indptr   int64[rows + 1]   where each row's entries begin, and how many there are in all
//   indices  uint32[entries]
//   values   float32[entries]
// csr_blob() puts it together from its parts, as BLOBs; csr_rows() appends each row as it is stored
// to `to`, and returns how many there are. Both refuse what does not fit together; the latter, with
// the row named, what is no sparse vector with indexes below `dim`.
std::string csr_blob(const Cell& indptr, const Cell& indices, const Cell& values,
                     const Place& where);
std::size_t csr_rows(const Cell& blob, std::uint32_t dim, const Place& where,
                     std::vector<std::byte>& to);

// Of stored bytes: the BLOB of pairs, and the JSON object.
std::string sparse_pairs(const char* stored);
std::string sparse_to_json(const char* stored);
// Returns such a BLOB, marked as sparse.
void result_sparse(sqlite3_context* context, const char* stored);

}  // namespace warplite::sql
