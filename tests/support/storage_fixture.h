// What the storage's tests share: rows that are hard on encodings, their way into chunks and back,
// and a table with something of everything.
#pragma once

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/chunk.h"
#include "core/error.h"
#include "storage/codec/block_codec.h"
#include "storage/storage.h"
#include "tests/support/database.h"

namespace warplite::storage {

using testing::Database;

// A row as the test knows it; `vectors` that are NULL are empty.
struct Row {
  RowId rowid = 0;
  std::vector<std::string> vectors;
  std::vector<Value> plains;
  std::vector<Value> aux;
};

bool same(const Cell& a, const Cell& b);

// Of the sparse vectors that are drawn.
inline constexpr std::uint32_t kSparseDim = 200000;

// Draws rows that are hard on encodings: extremes, NULLs, odd texts.
class Generator {
 public:
  explicit Generator(const Layout& layout, unsigned seed = 1) : layout_(layout), random_(seed) {}

  double nulls = 0.2;
  bool few_texts = false;

  Row row(RowId rowid);
  std::vector<Row> rows(RowId first, std::size_t n, RowId step = 1);

 private:
  bool chance(double p) { return std::uniform_real_distribution<>()(random_) < p; }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::string vector(const Layout::Vector& shape);
  Value plain(PlainType type);
  Value integer();
  Value real();
  Value text();
  Value sparse();

  const Layout& layout_;
  std::mt19937_64 random_;
};

// Every element type, every plain type, two +columns.
Layout rich_layout();

Chunk make_chunk(const Layout& layout, const std::vector<Row>& rows,
                 std::size_t header = kBlockHeader);
std::vector<RowRef> refs(const Chunk& chunk);
// Of a new table, papers.
Store create_store(Database& db, const Layout& layout);

// Compares a segment with `rows`, in ascending order of rowid.
void check_segment(Store& store, const SegmentInfo& info, const std::vector<Row>& rows);
// Compares the rows of a chunk from `first` on.
void check_chunk(const Chunk& chunk, std::uint32_t first, const std::vector<Row>& rows);

// As the engine ends a flush: the state record describes the directory as it is.
void write_state(Store& store, State& state);

// What `body` throws: its message, after its kind was checked.
template <typename Body>
std::string thrown(ErrorKind kind, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

// A table with one segment (rowids and alive blocks too, and codes of vector column 1), a tail,
// +columns and keys.
struct Filled {
  explicit Filled(Database& database, const std::string& schema = "main",
                  const std::string& table = "papers");
  void read_all();

  Database& db;
  Layout layout;
  Store store;
  std::vector<Row> rows, tail;
  SegmentInfo info;
};

}  // namespace warplite::storage
