// A View is what one statement sees: a snapshot's segments and tail, and the connection's own
// pending rows, minus what was deleted. Immutable and cheap to hold; a cursor keeps its view while
// later statements change the table.
// Threads: as the connection (blocks are read through its statements).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/bitmap.h"
#include "core/chunk.h"
#include "core/column.h"
#include "core/process/cache_key.h"
#include "core/process/derived_store.h"
#include "core/types.h"
#include "engine/residency/residency.h"
#include "engine/table/rowid_index.h"
#include "storage/storage.h"

namespace warplite::index {
class Index;
class Model;
class Trained;
}  // namespace warplite::index

namespace warplite::engine {

class ContentSource;

// Rows that are searched together: a sealed segment, the tail, or a pending chunk.
// Accessors load and cache what they need; results stay valid while held.
class Part {
 public:
  virtual ~Part() = default;

  virtual std::uint32_t rows() const = 0;
  virtual std::uint32_t live_rows() const = 0;
  // Null when every row is alive.
  virtual const Bitmap* alive() const = 0;
  virtual RowIdView rowids() const = 0;
  virtual RowId min_rowid() const = 0;  // of all rows, dead ones included
  virtual RowId max_rowid() const = 0;
  virtual std::optional<std::uint32_t> find(RowId rowid) const = 0;  // alive or not

  // A vector column: `owner` keeps `data` (rows() vectors) alive; `present` is null
  // when no vector is NULL. `key` is null for rows that are not sealed.
  struct Vectors {
    std::shared_ptr<const void> owner;
    std::shared_ptr<const ResidentVectors> resident;  // set for sealed segments
    MatrixView data;
    const Bitmap* present = nullptr;
    CacheKey key;
    // Of rows that are not sealed: what every connection calls vectors that are the same, row by row;
    // null: nobody else has them.
    CacheKey name;
    bool all_null = false;
  };
  virtual Vectors vectors(std::size_t column) const = 0;
  // Returns their key, as far as it is known without reading anything; else null.
  virtual CacheKey vector_key(std::size_t) const { return {}; }
  // The stamp of the block that has them; null: there is none, or the rows are not sealed.
  virtual Stamp vectors_stamp(std::size_t) const { return {}; }
  // Copies the vectors of some rows, which ascend, to `out`, one after another, and says which of
  // the rows have one; an empty answer: all of them. Those alone are read, where the file can be
  // read so and memory has no room for the others.
  virtual Bitmap read_vectors(std::size_t column, std::span<const std::uint32_t> rows,
                              std::byte* out) const;
  // Returns how many bytes vectors(column) would add to memory if it is not resident yet.
  virtual std::size_t vector_bytes(std::size_t column) const = 0;
  // Null: every value is NULL.
  virtual std::shared_ptr<const Column> plain(std::size_t column) const = 0;
  // Returns the key of that column's block; null: every value is NULL, or the rows are not sealed.
  virtual CacheKey plain_key(std::size_t) const { return {}; }
  // Null when the part keeps none (tail, pending).
  virtual const storage::ZoneMap* zone(std::size_t column) const = 0;
  // The number of the segment; 0 for rows that are not sealed.
  virtual std::int64_t segment() const { return 0; }
  // The key of a column's codes, of this model's; null unless there are any, made by it.
  virtual CacheKey codes(std::size_t, const Stamp& /* model */) const { return {}; }
  // Says whether vectors(column) are made from codes, because those are all that was kept.
  virtual bool decodes(std::size_t) const { return false; }
  // Decodes one of the vectors, as View::vector() does, for less. REQUIRES: decodes(column)
  virtual Value decode_vector(std::size_t column, std::uint32_t row) const;
  // REQUIRES: there are any.
  virtual std::shared_ptr<const storage::OpaqueBlock> load_codes(
      std::size_t column, const storage::BlockFile* file = nullptr) const;
  // Whose file may have the part's blocks; null: nobody's.
  virtual storage::Store* store() const { return nullptr; }
  // Blocks that are read ahead: those of vectors(column), or of plain(column); or, for
  // read_vectors(column), what tells rows from damaged ones.
  enum class Ahead { kVectors, kPlain, kRows };
  // Says whether there is such a block, which is not in memory.
  virtual bool lacks(Ahead, std::size_t) const { return false; }
  // Reads it from the file; on any thread, while the connection's waits. REQUIRES: lacks() it.
  virtual void read_ahead(Ahead, std::size_t, const storage::BlockFile&) const {}
  // For content=, returns whether a live row's values cannot be read, since the content table has
  // it no more or has another one; such values count as NULL. hash() is that of the
  // values the row had.
  virtual bool lost(std::uint32_t) const { return false; }
  // The same, as far as it is known already: nothing is read.
  virtual bool known_lost(std::uint32_t row) const { return lost(row); }
  virtual std::uint64_t hash(std::uint32_t) const { return 0; }

  // Not null when +columns are at hand (pending rows); else they are read from NAME_aux when asked
  // for.
  virtual const Chunk* chunk() const = 0;

  // Call this before the file loses blocks of a segment that a view may still read: if this part is
  // one of the segments (ascending ids), it takes into memory what will be lost, so that it stays
  // readable.
  enum class Loss { kAliveRows, kEverything };
  virtual void keep(std::span<const std::int64_t> segments, Loss loss) const = 0;
};

struct Location {
  std::uint32_t part;
  std::uint32_t row;
};

// The first `count` parts of a view are segments, all that the table has and just as it has them: what
// searches keep of these serves every view that shares `derived`.
struct SharedSegments {
  std::size_t count = 0;
  std::shared_ptr<DerivedStore> derived = nullptr;
};

class View {
 public:
  // `models`: per vector column, or empty. `content`: where the rows are, when they are elsewhere.
  View(const Layout& layout, storage::Store& store, std::vector<std::shared_ptr<const Part>> parts,
       std::vector<Stamp> models = {}, ContentSource* content = nullptr,
       SharedSegments segments = {});
  // The same rows, held by other parts: as many, each with as many rows. It has no models.
  View(const View& rows, std::vector<std::shared_ptr<const Part>> parts);
  // The rows of all of these, whose tables have the same vector columns; it has no models. REQUIRES:
  // there is one, they outlive this, and none has content().
  explicit View(std::span<const std::shared_ptr<const View>> views);

  const Layout& layout() const { return *layout_; }
  std::size_t parts() const { return parts_.size(); }
  const Part& part(std::size_t i) const { return *parts_[i]; }
  std::uint64_t live_rows() const;

  // The live row with this rowid.
  std::optional<Location> find(RowId rowid) const;
  // The largest live rowid, if there is any row.
  std::optional<RowId> max_rowid() const;

  RowId rowid(Location at) const { return parts_[at.part]->rowids()[at.row]; }
  Value plain(Location at, std::size_t column) const;
  // The stored bytes as a blob, or NULL.
  Value vector(Location at, std::size_t column) const;
  Value aux(Location at, std::size_t column) const;

  // While somebody holds what this returns, +columns stay those of the view's rows.
  std::shared_ptr<const void> hold_aux() const;
  bool holds_aux() const { return !aux_holders_.expired(); }
  // Call this before the file loses the +columns of these rows: it takes those that are held into
  // memory.
  void keep_aux(std::span<const RowId> rowids) const;
  // The table has other rows by now, of which this view knows nothing.
  void outdate() const { outdated_ = true; }
  bool outdated() const { return outdated_; }
  // A rollback took what the file had of these rows: they cannot be read any more.
  void undo() const { undone_ = true; }
  bool undone() const { return undone_; }

  std::string name() const;  // "schema.table"

  ContentSource* content() const { return content_; }
  // Live rows that were found to be no more in the content table (content_hits.h).
  std::vector<Location>& vanished() const { return vanished_; }

  // The stamp of the column's model. Null: it has none, or lost it.
  Stamp model(std::size_t column) const;
  // REQUIRES: that stamp is not null.
  CacheKey model_key(std::size_t column, const index::Index& index) const;
  // REQUIRES: model(column) is not null.
  std::shared_ptr<const index::Model> load_model(std::size_t column,
                                                 const index::Trained& index) const;
  // The file is about to get other models and codes: from now on this view has none.
  void lose_models() const { models_lost_ = true; }

  // Things that searches keep for the next search of this view, each kind for itself.
  DerivedStore& derived() const { return derived_; }
  // Those that are of its segments alone serve the next views too, as long as only other rows change.
  std::size_t shared_segments() const { return segments_.count; }
  DerivedStore& derived_of_segments() const {
    return segments_.count == 0 ? derived_ : *segments_.derived;
  }
  // Things that the next views may find of use, as long as only rows that are not sealed change; they must find
  // out whether they are.
  DerivedStore& derived_for_next() const {
    return segments_.derived == nullptr ? derived_ : *segments_.derived;
  }

 private:
  const Layout* layout_;
  storage::Store* store_;
  std::vector<std::shared_ptr<const Part>> parts_;
  std::vector<Stamp> models_;
  ContentSource* content_;
  SharedSegments segments_;
  mutable std::vector<Location> vanished_;
  mutable bool models_lost_ = false;
  mutable bool outdated_ = false;
  mutable bool undone_ = false;
  mutable std::weak_ptr<const void> aux_holders_;
  mutable std::unordered_map<RowId, std::vector<Value>> kept_aux_;
  mutable RowIdIndex rowids_;  // made by the second find(): many views are asked once
  mutable int finds_ = 0;
  mutable DerivedStore derived_;
};

}  // namespace warplite::engine
