#include "engine/table/parts.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/residency/derived_key.h"
#include "engine/table/models.h"
#include "engine/table/rows.h"
#include "storage/codec/row_hash.h"

namespace warplite::engine {

namespace {

// Of a column's vectors. `misses`: how often the file did not have them where it had.
struct Pieces {
  explicit Pieces(storage::VectorPieces pieces) : known(std::move(pieces)) {}

  const storage::VectorPieces known;
  mutable std::atomic<int> misses{0};
};

}  // namespace

SegmentPart::SegmentPart(storage::Store& store, const TableOptions& options,
                         storage::SegmentInfo info)
    : store_(&store),
      options_(&options),
      info_(std::move(info)),
      digest_(storage::DirectorySummary::digest_of(info_)),
      keys_(store.keys(info_)),
      columns_(options.layout.plains.size()) {
  for (std::size_t i = 0; i < keys_.codes.size(); ++i) {
    if (keys_.codes[i].is_null()) continue;
    const CacheKey from[] = {
        keys_.codes[i], model_key(store, i, info_.codes[i].model, *options.vectors[i].made)};
    keys_.codes[i] = derive(Derived::kCodes, from).key();
  }
  if (options.layout.content) {
    content_ = std::make_unique<ContentRows>(store, options, info_, keys_, *this);
  }
  std::vector<CacheKey> blocks{keys_.rowids, keys_.alive, keys_.hashes};
  for (const auto* more : {&keys_.vectors, &keys_.plains, &keys_.codes}) {
    blocks.insert(blocks.end(), more->begin(), more->end());
  }
  std::erase_if(blocks, [](const CacheKey& key) { return key.is_null(); });
  blocks_.hold(std::move(blocks));
}

std::string SegmentPart::owner(const std::string& what) const {
  return store_->schema() + "." + store_->table() + " segment " + std::to_string(info_.id) + " " +
         what;
}

const Bitmap* SegmentPart::alive() const {
  if (info_.alive.is_null()) return nullptr;
  if (alive_ == nullptr) {
    alive_ = Residency::instance().alive(keys_.alive, owner("alive rows"),
                                         [&] { return store_->load_alive(info_); });
  }
  return alive_.get();
}

RowIdView SegmentPart::rowids() const {
  if (info_.rowids.is_null()) return {info_.min_rowid, nullptr};
  if (rowids_ == nullptr) {
    rowids_ = Residency::instance().rowids(keys_.rowids, owner("rowids"),
                                           [&] { return store_->load_rowids(info_); });
  }
  return {0, rowids_->data()};
}

std::optional<std::uint32_t> SegmentPart::find(RowId rowid) const {
  if (rowid < info_.min_rowid || rowid > info_.max_rowid) return std::nullopt;
  const RowIdView ids = rowids();
  if (ids.list == nullptr) return static_cast<std::uint32_t>(rowid - ids.first);
  const RowId* end = ids.list + info_.rows;
  const RowId* at = std::lower_bound(ids.list, end, rowid);
  if (at == end || *at != rowid) return std::nullopt;
  return static_cast<std::uint32_t>(at - ids.list);
}

std::shared_ptr<const ResidentVectors> SegmentPart::resident(std::size_t column,
                                                             const storage::BlockFile* file) const {
  if (pinned_ != nullptr) return pinned_->vectors[column];
  if (content_ != nullptr) return content_->vectors(column);
  if (vector_owners_.empty()) {
    std::vector<std::string> owners;
    for (const TableOptions::VectorColumn& vector : options_->vectors) {
      owners.push_back(owner(vector.name));
    }
    vector_owners_ = std::move(owners);
  }
  return Residency::instance().vectors(keys_.vectors[column], vector_owners_[column],
                                       vector_bytes(column),
                                       [&] { return store_->load_vectors(info_, column, file); });
}

bool SegmentPart::lacks(Ahead what, std::size_t column) const {
  if (pinned_ != nullptr || content_ != nullptr) return false;
  Residency& memory = Residency::instance();
  if (what == Ahead::kPlain) {
    const CacheKey& key = keys_.plains[column];
    return !key.is_null() && columns_[column].expired() && memory.find_column(key) == nullptr;
  }
  const CacheKey& key = keys_.vectors[column];
  if (key.is_null() || memory.find(key) != nullptr) return false;
  return what == Ahead::kVectors || memory.find(derived_key(Derived::kPieces, key)) == nullptr;
}

void SegmentPart::read_ahead(Ahead what, std::size_t column, const storage::BlockFile& file) const {
  if (what == Ahead::kPlain) {
    values(column, &file);
  } else if (what == Ahead::kRows && !has_room(column)) {
    pieces(column, &file);
  } else {
    resident(column, &file);
  }
}

void SegmentPart::keep(std::span<const std::int64_t> segments, Loss loss) const {
  if (pinned_ != nullptr) return;
  if (!std::binary_search(segments.begin(), segments.end(), info_.id)) return;
  try {
    alive();
    if (loss == Loss::kEverything) pin();
  } catch (const Error& error) {
    // A rollback took this segment away before, and its number was given to another: whoever
    // still reads the view finds out.
    if (error.kind() != ErrorKind::kCorrupt) throw;
  }
}

void SegmentPart::pin() const {
  auto pinned = std::make_unique<Pinned>();
  rowids();
  for (std::size_t i = 0; i < info_.vectors.size(); ++i) {
    const Vectors kept = decodes(i) ? Vectors{} : vectors(i);
    pinned->vectors.push_back(kept.resident);
    pinned->vector_keys.push_back(kept.key);
  }
  for (std::size_t i = 0; i < info_.plains.size(); ++i) {
    pinned->columns.push_back(plain(i));
    pinned->column_keys.push_back(plain_key(i));
  }
  for (std::size_t i = 0; i < info_.codes.size(); ++i) pinned->codes.push_back(spare_codes(i));
  pinned_ = std::move(pinned);
}

Part::Vectors SegmentPart::vectors(std::size_t column) const {
  Vectors out;
  if (decodes(column)) {
    out.resident = decoded(column);
  } else if (keys_.vectors[column].is_null()) {
    out.all_null = true;
    return out;
  } else {
    out.resident = resident(column);
  }
  out.key = vector_key(column);
  out.owner = out.resident;
  out.data = out.resident->block.vectors;
  if (out.resident->block.present.size() != 0) out.present = &out.resident->block.present;
  return out;
}

CacheKey SegmentPart::vector_key(std::size_t column) const {
  if (decodes(column)) return derived_key(Derived::kDecoded, keys_.codes[column]);
  if (pinned_ != nullptr) return pinned_->vector_keys[column];
  if (content_ != nullptr) return content_->known_vector_key(column);
  return keys_.vectors[column];
}

std::shared_ptr<const ResidentVectors> SegmentPart::pieces(std::size_t column,
                                                           const storage::BlockFile* file) const {
  return Residency::instance().bytes(
      derived_key(Derived::kPieces, keys_.vectors[column]),
      owner(options_->vectors[column].name + " (pieces)"), 0, [&] {
        auto cut = std::make_shared<Pieces>(store_->cut_vectors(info_, column, file));
        ResidentVectors entry;
        entry.beside = cut->known.sums.size() * sizeof(cut->known.sums[0]) +
                       cut->known.pages.size() * sizeof(cut->known.pages[0]) +
                       cut->known.present.word_count() * sizeof(std::uint64_t);
        entry.owner = std::move(cut);
        return entry;
      });
}

// Blocks that come as long as there is room leave some for what is small and comes after them: else
// one would push the other out for ever.
bool SegmentPart::has_room(std::size_t column) const {
  const Residency& memory = Residency::instance();
  return memory.used() + vector_bytes(column) <= memory.limit() / 8 * 7;
}

Bitmap SegmentPart::read_vectors(std::size_t column, std::span<const std::uint32_t> rows,
                                 std::byte* out) const {
  Residency& memory = Residency::instance();
  const CacheKey& key = keys_.vectors[column];
  if (pinned_ != nullptr || content_ != nullptr || key.is_null() || has_room(column) ||
      memory.find(key) != nullptr) {
    return Part::read_vectors(column, rows, out);
  }
  auto held = pieces(column);
  const auto& cut = *static_cast<const Pieces*>(held->owner.get());
  Bitmap present = some_bits(cut.known.present, rows);
  if (store_->read_vectors(info_, column, cut.known, rows, out)) return present;
  // What is in the log, or in the connection's memory, gets to its place sooner or later.
  constexpr int kPatience = 16;
  if (++cut.misses < kPatience) return present;
  held = nullptr;
  const CacheKey forgotten = derived_key(Derived::kPieces, key);
  memory.forget({&forgotten, 1});
  return present;
}

std::size_t SegmentPart::vector_bytes(std::size_t column) const {
  if (info_.vectors[column].is_null() && !decodes(column)) return 0;
  return info_.rows * options_->layout.vectors[column].stride();
}

std::shared_ptr<const Column> SegmentPart::plain(std::size_t column) const {
  const CacheKey& key = keys_.plains[column];
  if (key.is_null()) return nullptr;
  if (pinned_ != nullptr) return pinned_->columns[column];
  if (content_ != nullptr) return content_->plain(column);
  if (auto known = columns_[column].lock()) return known;
  return values(column);
}

std::shared_ptr<const Column> SegmentPart::values(std::size_t column,
                                                  const storage::BlockFile* file) const {
  auto loaded =
      Residency::instance().column(keys_.plains[column], owner(options_->plain_names[column]),
                                   [&] { return store_->load_plain(info_, column, file); });
  columns_[column] = loaded;
  return loaded;
}

CacheKey SegmentPart::plain_key(std::size_t column) const {
  const CacheKey& key = keys_.plains[column];
  if (content_ == nullptr || key.is_null()) return key;
  return pinned_ != nullptr ? pinned_->column_keys[column] : content_->plain_key(column);
}

CacheKey SegmentPart::codes(std::size_t column, const Stamp& model) const {
  if (column >= info_.codes.size() || info_.codes[column].model != model) return {};
  return keys_.codes[column];
}

// Returns what there is to keep of a column's codes. Damaged codes do not stop what needs none.
std::shared_ptr<const storage::OpaqueBlock> SegmentPart::spare_codes(std::size_t column) const {
  try {
    return info_.codes[column].block.is_null() ? nullptr : load_codes(column, nullptr);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    return nullptr;
  }
}

std::shared_ptr<const storage::OpaqueBlock> SegmentPart::load_codes(
    std::size_t column, const storage::BlockFile* file) const {
  // Codes that could not be kept, because the file then had other codes or damaged ones, may be
  // there again after a rollback.
  if (pinned_ != nullptr && pinned_->codes[column] != nullptr) return pinned_->codes[column];
  return std::make_shared<const storage::OpaqueBlock>(store_->load_codes(info_, column, file));
}

bool SegmentPart::decodes(std::size_t column) const {
  return info_.vectors[column].is_null() && column < info_.codes.size() &&
         !info_.codes[column].block.is_null();
}

std::shared_ptr<const index::Model> SegmentPart::model(std::size_t column) const {
  return load_model(*store_, column, info_.codes[column].model,
                    *options_->vectors[column].made->trained());
}

index::CodedBlock SegmentPart::checked_codes(std::size_t column, const index::Model& model,
                                             const storage::OpaqueBlock& block) const {
  try {
    model.check_codes(block.payload, info_.rows);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kCorrupt, owner(options_->vectors[column].name) + ": " + error.what());
  }
  return {block.payload, info_.rows};
}

// All of them, which serve whoever compares them.
std::shared_ptr<const ResidentVectors> SegmentPart::decoded(std::size_t column) const {
  const CacheKey key = derived_key(Derived::kDecoded, keys_.codes[column]);
  const std::string& name = options_->vectors[column].name;
  const auto load = [&] {
    const Layout::Vector& shape = options_->layout.vectors[column];
    const auto learnt = model(column);
    const auto codes = load_codes(column, nullptr);
    storage::VectorBlock block;
    block.memory = Bytes(info_.rows * shape.stride());
    learnt->decode(checked_codes(column, *learnt, *codes), {0, info_.rows}, block.memory.data(),
                   &block.present);
    if (block.present.all()) block.present = Bitmap();
    block.vectors = {block.memory.data(), info_.rows, shape.dim, shape.type};
    return block;
  };
  return Residency::instance().vectors(key, owner(name + " (decoded)"), vector_bytes(column),
                                       load);
}

// The codes stay in memory for the next one, which is a small part of what all vectors take.
Value SegmentPart::decode_vector(std::size_t column, std::uint32_t row) const {
  const auto learnt = model(column);
  const std::string& name = options_->vectors[column].name;
  const auto codes =
      Residency::instance().bytes(keys_.codes[column], owner(name + " (codes)"), 0, [&] {
        const auto loaded = load_codes(column, nullptr);
        checked_codes(column, *learnt, *loaded);
        const std::size_t size = loaded->payload.size();
        ResidentVectors out;
        out.block.memory = Bytes(size);
        std::memcpy(out.block.memory.data(), loaded->payload.data(), size);
        out.block.vectors = {out.block.memory.data(), size, 1, ElementType::kInt8};
        return out;
      });
  const MatrixView& bytes = codes->block.vectors;
  const Layout::Vector& shape = options_->layout.vectors[column];
  std::string vector(shape.stride(), '\0');
  Bitmap present;
  learnt->decode({{bytes.data, bytes.rows}, info_.rows}, {row, 1},
                 reinterpret_cast<std::byte*>(vector.data()), &present);
  return present.test(0) ? Value(Cell::blob(vector)) : Value();
}

ChunkPart::ChunkPart(std::shared_ptr<const Chunk> chunk, const Shape& shape,
                     std::shared_ptr<const Bitmap> alive,
                     std::shared_ptr<const ContentTail> content)
    : chunk_(std::move(chunk)),
      shape_(shape),
      alive_(std::move(alive)),
      content_(std::move(content)),
      live_(alive_ == nullptr ? shape.rows : static_cast<std::uint32_t>(alive_->count())),
      present_(chunk_->layout().vectors.size()),
      names_(present_.size()) {
  for (std::size_t i = 0; !shape.name.is_null() && i < names_.size(); ++i) {
    names_[i] = KeyWriter().add(shape.name).add(i).key();
  }
}

std::optional<std::uint32_t> ChunkPart::find(RowId rowid) const {
  if (rowid < shape_.min_rowid || rowid > shape_.max_rowid) return std::nullopt;
  return find_row(*chunk_, shape_.rows, rowid);
}

Part::Vectors ChunkPart::vectors(std::size_t column) const {
  Vectors out;
  out.owner = chunk_;
  out.data = chunk_->vectors(column);
  out.data.rows = shape_.rows;
  out.name = names_[column];
  if (chunk_->missing_vectors(column) == 0) return out;
  if (present_[column] == nullptr) {
    auto present = std::make_unique<Bitmap>(shape_.rows);
    for (std::uint32_t row = 0; row < shape_.rows; ++row) {
      if (chunk_->has_vector(column, row)) present->set(row);
    }
    present_[column] = std::move(present);
  }
  out.present = present_[column].get();
  out.all_null = out.present->count() == 0;
  return out;
}

bool ChunkPart::lost(std::uint32_t row) const {
  return content_ != nullptr && content_->is_lost(row);
}

std::uint64_t ChunkPart::hash(std::uint32_t row) const {
  return content_ != nullptr ? content_->hashes[row]
                             : storage::row_hash(chunk_->layout(), {chunk_.get(), row});
}

std::shared_ptr<const Column> ChunkPart::plain(std::size_t column) const {
  return {chunk_, &chunk_->plain(column)};
}

OverlayPart::OverlayPart(std::shared_ptr<const Part> base, Bitmap alive)
    : DelegatingPart(std::move(base)),
      alive_(std::move(alive)),
      live_(static_cast<std::uint32_t>(alive_.count())) {}

void keep_for(const std::vector<std::shared_ptr<const View>>& views,
              std::span<const std::int64_t> segments, Part::Loss loss) {
  for (const auto& view : views) {
    for (std::size_t i = 0; i < view->parts(); ++i) view->part(i).keep(segments, loss);
  }
}

Bitmap copy_alive(const Part& part) {
  const Bitmap* alive = part.alive();
  return alive != nullptr ? *alive : Bitmap(part.rows(), true);
}

PartReader::PartReader(const Layout& layout, const Part& part,
                       const std::function<bool(std::size_t)>& leaves_out)
    : rowids_(part.rowids()),
      vector_cells_(layout.vectors.size()),
      plain_cells_(layout.plains.size()),
      aux_cells_(layout.aux) {
  for (std::size_t i = 0; i < layout.vectors.size(); ++i) {
    const bool without = leaves_out && leaves_out(i);
    vectors_.push_back(without ? Part::Vectors{} : part.vectors(i));
    if (without) vectors_.back().all_null = true;
  }
  for (std::size_t i = 0; i < layout.plains.size(); ++i) columns_.push_back(part.plain(i));
}

void PartReader::copy(std::uint32_t row, Chunk& to) {
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    const Part::Vectors& vectors = vectors_[i];
    vector_cells_[i] = Cell::null();
    if (vectors.all_null || (vectors.present != nullptr && !vectors.present->test(row))) continue;
    vector_cells_[i] =
        Cell::blob({reinterpret_cast<const char*>(vectors.data.row(row)), vectors.data.stride()});
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    plain_cells_[i] = columns_[i] == nullptr ? Cell::null() : columns_[i]->cell(row);
  }
  to.append({rowids_[row], vector_cells_.data(), plain_cells_.data(), aux_cells_.data()});
}

}  // namespace warplite::engine
