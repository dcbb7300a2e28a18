// Where SQLite has the bytes of a long value in the database file, and what stands there. SQLite
// finds byte n of a value by following a list of n / 4,092 pages; who knows the pages reads one of
// them. Nothing says that this is what a statement would read: a newer page may be in the
// write-ahead log or in the connection's memory, pages move, and a file may be encrypted. So who
// reads must know the bytes by a checksum, and ask SQLite when they differ. The format is SQLite's
// (sqlite.org/fileformat2.html, §1.6), which is to stay for good. Threads: as the connection, and
// any while that waits, of what was made for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "storage/sqlite_api.h"

namespace warplite::storage {

// A blob at the end of a row: its first `local` bytes are in the row's own page, which is SQLite's
// to change, the others in pages, `each` bytes in one after kPageLink of them.
struct ValuePlace {
  std::size_t local = 0;
  std::size_t each = 0;
  std::vector<std::uint32_t> pages;
};
inline constexpr std::size_t kPageLink = 4;

class FilePages {
 public:
  enum class For { kConnection, kAnyThread };
  // The file of a schema.
  FilePages(sqlite3* db, const std::string& schema, For readers = For::kConnection);

  // False: there is no file, or none that tells its pages to whom they are for.
  bool usable() const { return page_bytes_ != 0; }
  std::size_t page_bytes() const { return page_bytes_; }

  // Reads consecutive pages, as many as `out` has room for. False: they are not there.
  bool read(std::uint32_t page, std::span<std::byte> out) const { return read_at(page, 0, out); }

  // Looks for the blob of `bytes` bytes that is the last column of row `id`, before which there is
  // only the id, in the table with this root page. None: it is not found.
  std::optional<ValuePlace> find(std::uint32_t root, std::int64_t id, std::size_t bytes) const;
  // Reads such a blob, however long it is. None: it is not found, or not all of it. REQUIRES: this
  // is for any thread.
  std::optional<Bytes> value(std::uint32_t root, std::int64_t id) const;

 private:
  class Page;
  struct Blob;  // in its cell
  std::optional<Blob> look_up(std::uint32_t root, std::int64_t id) const;
  bool read_at(std::uint32_t page, std::size_t offset, std::span<std::byte> out) const;
  bool follow(std::uint32_t first, std::size_t count, std::vector<std::uint32_t>& pages) const;
  std::optional<Blob> blob_in(Page leaf, std::size_t cell) const;
  bool copy_pages(std::uint32_t page, std::span<std::byte> out) const;
  std::size_t copy_some(std::uint32_t& page, std::size_t count, std::span<std::byte> out) const;

  sqlite3_file* file_ = nullptr;
  int descriptor_ = -1;  // that any thread reads
  sqlite3_int64 file_bytes_ = 0;
  std::size_t page_bytes_ = 0;
  std::size_t usable_bytes_ = 0;  // of a page
};

}  // namespace warplite::storage
