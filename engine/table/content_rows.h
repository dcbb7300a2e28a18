// The values of a segment whose rows are in a content table: read from there when they are first
// asked for, each row known by its hash, and kept in the resident cache as blocks of the file are.
//
// The values of a position never change: an update takes the row out of it and appends another. So
// a block that was read is right for every view whose live rows it holds, and what is made of it
// too. Which rows it holds is a version, under a key of its own; connections share the newest one.
// A row that is alive and cannot be read, because it is gone or another one by now, is lost; it is
// looked for again once the content table may have changed.
// Threads: as the connection; versions and blocks are shared by all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "engine/table/view.h"

namespace warplite::engine {

struct TableOptions;

class ContentRows {
 public:
  // Everything outlives this. `part`: of the segment, for its rowids and live rows.
  ContentRows(storage::Store& store, const TableOptions& options,
              const storage::SegmentInfo& info, const storage::SegmentKeys& keys,
              const Part& part)
      : store_(store), options_(options), info_(info), keys_(keys), part_(part) {}

  // REQUIRES of these: info.vectors[column], or info.plains[column], is not null.
  std::shared_ptr<const ResidentVectors> vectors(std::size_t column);
  std::shared_ptr<const Column> plain(std::size_t column);
  // Return the keys of what the members above returned last. Reading again what was evicted may
  // find fewer rows, and then the key changes.
  CacheKey known_vector_key(std::size_t column) const;  // null: nothing was read
  CacheKey plain_key(std::size_t column);

  // REQUIRES: the row is alive.
  bool lost(std::uint32_t row);
  // Returns whether the row is known to be lost; before anything was read, no row is.
  bool known_lost(std::uint32_t row) const;
  std::uint64_t hash(std::uint32_t row);
  // Looks again for lost rows, except for those that are `erased` (null: none; perhaps shorter than
  // the segment). True when one is there: what was read is of no use any more.
  bool look_again(const Bitmap* erased);

 private:
  struct Version {
    Stamp stamp;
    Bitmap found;
  };
  struct Loaded;

  std::string owner(const std::string& what) const;
  CacheKey record_key() const;
  std::shared_ptr<const Version> recorded() const;
  void record(std::shared_ptr<const Version> version) const;
  static CacheKey key_of(const CacheKey& column, const Version& version);
  CacheKey key_of(const CacheKey& column) const;
  void forget(const Version& version) const;
  void settle();
  void adopt(std::shared_ptr<const Version> version, std::vector<std::uint32_t> lost);
  std::vector<std::uint32_t> missing_from(const Bitmap& found) const;
  bool any_there(const std::vector<std::uint32_t>& rows);
  const std::vector<RowId>& hashes();
  Loaded read();

  storage::Store& store_;
  const TableOptions& options_;
  const storage::SegmentInfo& info_;
  const storage::SegmentKeys& keys_;
  const Part& part_;
  std::shared_ptr<const Version> version_;   // null: not read yet, or to be read again
  std::vector<std::uint32_t> lost_;          // ascending
  std::shared_ptr<const std::vector<RowId>> hashes_;
};

}  // namespace warplite::engine
