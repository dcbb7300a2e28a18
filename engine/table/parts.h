// The kinds of Part a view is made of: a sealed segment, rows in a chunk (the tail or pending
// rows), and either of them minus rows that were deleted since, or otherwise changed.
// Threads: as the connection. Ownership: a part outlives neither its Store nor its TableOptions.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/table/content_rows.h"
#include "engine/table/table_options.h"
#include "engine/table/view.h"
#include "index/trained.h"

namespace warplite::engine {

// A sealed segment; its blocks are read on demand and shared through Residency.
class SegmentPart : public Part {
 public:
  SegmentPart(storage::Store& store, const TableOptions& options, storage::SegmentInfo info);

  const storage::SegmentInfo& info() const { return info_; }
  // Of its directory entry, made once: at every flush those of all segments are summed up.
  std::uint64_t digest() const { return digest_; }
  // Names of what the file has of it.
  const std::vector<CacheKey>& blocks() const { return blocks_.keys(); }
  // Takes a bitmap that is known already, so that it is not read back.
  void adopt_alive(std::shared_ptr<const Bitmap> alive) const { alive_ = std::move(alive); }

  std::uint32_t rows() const override { return info_.rows; }
  std::uint32_t live_rows() const override { return info_.live_rows; }
  const Bitmap* alive() const override;
  RowIdView rowids() const override;
  RowId min_rowid() const override { return info_.min_rowid; }
  RowId max_rowid() const override { return info_.max_rowid; }
  std::optional<std::uint32_t> find(RowId rowid) const override;
  Vectors vectors(std::size_t column) const override;
  CacheKey vector_key(std::size_t column) const override;
  Stamp vectors_stamp(std::size_t column) const override { return info_.vectors[column]; }
  Bitmap read_vectors(std::size_t column, std::span<const std::uint32_t> rows,
                      std::byte* out) const override;
  std::size_t vector_bytes(std::size_t column) const override;
  std::shared_ptr<const Column> plain(std::size_t column) const override;
  CacheKey plain_key(std::size_t column) const override;
  const storage::ZoneMap* zone(std::size_t column) const override { return &info_.zones[column]; }
  std::int64_t segment() const override { return info_.id; }
  CacheKey codes(std::size_t column, const Stamp& model) const override;
  std::shared_ptr<const storage::OpaqueBlock> load_codes(
      std::size_t column, const storage::BlockFile* file) const override;
  storage::Store* store() const override { return content_ == nullptr ? store_ : nullptr; }
  bool lacks(Ahead what, std::size_t column) const override;
  void read_ahead(Ahead what, std::size_t column, const storage::BlockFile& file) const override;
  bool decodes(std::size_t column) const override;
  Value decode_vector(std::size_t column, std::uint32_t row) const override;
  bool lost(std::uint32_t row) const override { return content_ != nullptr && content_->lost(row); }
  bool known_lost(std::uint32_t row) const override {
    return content_ != nullptr && content_->known_lost(row);
  }
  std::uint64_t hash(std::uint32_t row) const override { return content_->hash(row); }
  // For content=, see ContentRows. REQUIRES: the segment is there; perhaps again, after a rollback,
  // and then what was kept for those who read it meanwhile lacks the rows that were changed.
  bool look_again(const Bitmap* erased) const {
    if (!content_->look_again(erased)) return false;
    pinned_ = nullptr;
    return true;
  }
  const Chunk* chunk() const override { return nullptr; }
  void keep(std::span<const std::int64_t> segments, Loss loss) const override;

 private:
  std::string owner(const std::string& what) const;
  std::shared_ptr<const ResidentVectors> resident(std::size_t column,
                                                  const storage::BlockFile* file = nullptr) const;
  std::shared_ptr<const Column> values(std::size_t column,
                                       const storage::BlockFile* file = nullptr) const;
  std::shared_ptr<const ResidentVectors> decoded(std::size_t column) const;
  std::shared_ptr<const ResidentVectors> pieces(std::size_t column,
                                                const storage::BlockFile* file = nullptr) const;
  bool has_room(std::size_t column) const;
  std::shared_ptr<const index::Model> model(std::size_t column) const;
  index::CodedBlock checked_codes(std::size_t column, const index::Model& model,
                                  const storage::OpaqueBlock& block) const;
  void pin() const;
  std::shared_ptr<const storage::OpaqueBlock> spare_codes(std::size_t column) const;

  HeldBlocks blocks_;  // goes last: what is kept below is of them
  storage::Store* store_;
  const TableOptions* options_;
  storage::SegmentInfo info_;
  std::uint64_t digest_;
  storage::SegmentKeys keys_;  // of its codes: see Derived::kCodes
  mutable std::shared_ptr<const Bitmap> alive_;
  mutable std::shared_ptr<const std::vector<RowId>> rowids_;
  mutable std::vector<std::string> vector_owners_;
  // Columns used last, as long as the cache keeps them: this saves a look-up for each row.
  mutable std::vector<std::weak_ptr<const Column>> columns_;
  std::unique_ptr<ContentRows> content_;  // null: the rows are in blocks of their own
  struct Pinned {
    std::vector<std::shared_ptr<const ResidentVectors>> vectors;
    std::vector<CacheKey> vector_keys;
    std::vector<std::shared_ptr<const Column>> columns;
    std::vector<CacheKey> column_keys;
    std::vector<std::shared_ptr<const storage::OpaqueBlock>> codes;
  };
  mutable std::unique_ptr<Pinned> pinned_;
};

// What is known of those rows of a chunk that are in a content table.
struct ContentTail {
  std::vector<std::uint64_t> hashes;  // parallel to the chunk
  std::vector<std::uint32_t> lost;    // ascending

  bool is_lost(std::uint32_t row) const {
    return std::binary_search(lost.begin(), lost.end(), row);
  }
  // Appends what another one says of a row.
  void add(const ContentTail& other, std::uint32_t row) {
    if (other.is_lost(row)) lost.push_back(static_cast<std::uint32_t>(hashes.size()));
    hashes.push_back(other.hashes[row]);
  }
};

// The first `rows` rows of a chunk, which may grow meanwhile.
class ChunkPart : public Part {
 public:
  struct Shape {
    std::uint32_t rows;
    RowId min_rowid;
    RowId max_rowid;
    bool has_aux;  // +columns are in the chunk
    CacheKey name;  // of these rows for all connections; null: they are this one's alone
  };
  // `alive`: null when all rows are. `content`: null when values are read from the chunk alone.
  ChunkPart(std::shared_ptr<const Chunk> chunk, const Shape& shape,
            std::shared_ptr<const Bitmap> alive,
            std::shared_ptr<const ContentTail> content = nullptr);

  std::uint32_t rows() const override { return shape_.rows; }
  std::uint32_t live_rows() const override { return live_; }
  const Bitmap* alive() const override { return alive_.get(); }
  RowIdView rowids() const override { return {0, chunk_->rowids()}; }
  RowId min_rowid() const override { return shape_.min_rowid; }
  RowId max_rowid() const override { return shape_.max_rowid; }
  std::optional<std::uint32_t> find(RowId rowid) const override;
  Vectors vectors(std::size_t column) const override;
  std::size_t vector_bytes(std::size_t) const override { return 0; }
  std::shared_ptr<const Column> plain(std::size_t column) const override;
  const storage::ZoneMap* zone(std::size_t) const override { return nullptr; }
  bool lost(std::uint32_t row) const override;
  std::uint64_t hash(std::uint32_t row) const override;
  const Chunk* chunk() const override { return shape_.has_aux ? chunk_.get() : nullptr; }
  void keep(std::span<const std::int64_t>, Loss) const override {}

 private:
  std::shared_ptr<const Chunk> chunk_;
  Shape shape_;
  std::shared_ptr<const Bitmap> alive_;
  std::shared_ptr<const ContentTail> content_;
  std::uint32_t live_;
  mutable std::vector<std::unique_ptr<Bitmap>> present_;  // per vector column, made on demand
  std::vector<CacheKey> names_;                           // per vector column
};

// Another part, as far as nothing else is said.
class DelegatingPart : public Part {
 public:
  explicit DelegatingPart(std::shared_ptr<const Part> base) : base_(std::move(base)) {}

  std::uint32_t rows() const override { return base_->rows(); }
  std::uint32_t live_rows() const override { return base_->live_rows(); }
  const Bitmap* alive() const override { return base_->alive(); }
  RowIdView rowids() const override { return base_->rowids(); }
  RowId min_rowid() const override { return base_->min_rowid(); }
  RowId max_rowid() const override { return base_->max_rowid(); }
  std::optional<std::uint32_t> find(RowId rowid) const override { return base_->find(rowid); }
  Vectors vectors(std::size_t column) const override { return base_->vectors(column); }
  CacheKey vector_key(std::size_t column) const override { return base_->vector_key(column); }
  Stamp vectors_stamp(std::size_t column) const override { return base_->vectors_stamp(column); }
  Bitmap read_vectors(std::size_t column, std::span<const std::uint32_t> rows,
                      std::byte* out) const override {
    return base_->read_vectors(column, rows, out);
  }
  std::size_t vector_bytes(std::size_t column) const override {
    return base_->vector_bytes(column);
  }
  std::shared_ptr<const Column> plain(std::size_t column) const override {
    return base_->plain(column);
  }
  CacheKey plain_key(std::size_t column) const override { return base_->plain_key(column); }
  const storage::ZoneMap* zone(std::size_t column) const override { return base_->zone(column); }
  std::int64_t segment() const override { return base_->segment(); }
  CacheKey codes(std::size_t column, const Stamp& model) const override {
    return base_->codes(column, model);
  }
  std::shared_ptr<const storage::OpaqueBlock> load_codes(
      std::size_t column, const storage::BlockFile* file) const override {
    return base_->load_codes(column, file);
  }
  storage::Store* store() const override { return base_->store(); }
  bool lacks(Ahead what, std::size_t column) const override { return base_->lacks(what, column); }
  void read_ahead(Ahead what, std::size_t column, const storage::BlockFile& file) const override {
    base_->read_ahead(what, column, file);
  }
  bool decodes(std::size_t column) const override { return base_->decodes(column); }
  Value decode_vector(std::size_t column, std::uint32_t row) const override {
    return base_->decode_vector(column, row);
  }
  bool lost(std::uint32_t row) const override { return base_->lost(row); }
  bool known_lost(std::uint32_t row) const override { return base_->known_lost(row); }
  std::uint64_t hash(std::uint32_t row) const override { return base_->hash(row); }
  const Chunk* chunk() const override { return base_->chunk(); }
  void keep(std::span<const std::int64_t> segments, Loss loss) const override {
    base_->keep(segments, loss);
  }

 protected:
  const Part& base() const { return *base_; }

 private:
  std::shared_ptr<const Part> base_;
};

// A part of which fewer rows are alive.
class OverlayPart : public DelegatingPart {
 public:
  OverlayPart(std::shared_ptr<const Part> base, Bitmap alive);

  std::uint32_t live_rows() const override { return live_; }
  const Bitmap* alive() const override { return &alive_; }

 private:
  Bitmap alive_;
  std::uint32_t live_;
};

inline bool is_alive(const Part& part, std::uint32_t row) {
  const Bitmap* alive = part.alive();
  return alive == nullptr || alive->test(row);
}

// Has the parts of all views keep what the file loses.
void keep_for(const std::vector<std::shared_ptr<const View>>& views,
              std::span<const std::int64_t> segments, Part::Loss loss);

// The alive bitmap of a part, as a copy of its own.
Bitmap copy_alive(const Part& part);

// Copies rows of a part into a chunk; their +columns are NULL.
class PartReader {
 public:
  // `leaves_out`: vector columns that are NULL in the copies.
  PartReader(const Layout& layout, const Part& part,
             const std::function<bool(std::size_t column)>& leaves_out = {});
  void copy(std::uint32_t row, Chunk& to);

 private:
  RowIdView rowids_;
  std::vector<Part::Vectors> vectors_;
  std::vector<std::shared_ptr<const Column>> columns_;
  std::vector<Cell> vector_cells_;
  std::vector<Cell> plain_cells_;
  std::vector<Cell> aux_cells_;
};

}  // namespace warplite::engine
