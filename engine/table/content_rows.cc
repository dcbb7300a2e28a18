#include "engine/table/content_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/residency/derived_key.h"
#include "engine/table/content_source.h"
#include "engine/table/parts.h"
#include "storage/codec/row_hash.h"

namespace warplite::engine {
namespace {

// The columns of a segment as its rows come in, by ascending position.
class BlockBuilder {
 public:
  BlockBuilder(const Layout& layout, const storage::SegmentInfo& info)
      : layout_(layout), info_(info), found_(info.rows) {
    for (std::size_t i = 0; i < layout.vectors.size(); ++i) {
      storage::VectorBlock& block = vectors_.emplace_back();
      if (info.vectors[i].is_null()) continue;
      const Layout::Vector& shape = layout.vectors[i];
      block.memory = Bytes(info.rows * shape.stride());
      block.present = Bitmap(info.rows);
      block.vectors = {block.memory.data(), info.rows, shape.dim, shape.type};
    }
    for (const PlainType type : layout.plains) plains_.emplace_back(type).reserve(info.rows);
  }

  void add(std::uint32_t position, const ContentSource::Row& row) {
    pass_to(position);
    for (std::size_t i = 0; i < vectors_.size(); ++i) put_vector(i, row.vectors[i]);
    for (std::size_t i = 0; i < plains_.size(); ++i) plains_[i].append(row.plains[i]);
    found_.set(next_++);
  }

  void finish() {
    pass_to(info_.rows);
    for (storage::VectorBlock& block : vectors_) {
      if (block.present.size() != 0 && block.present.all()) block.present = Bitmap();
    }
  }

  Bitmap& found() { return found_; }
  storage::VectorBlock& vectors(std::size_t column) { return vectors_[column]; }
  Column& plain(std::size_t column) { return plains_[column]; }

 private:
  // Rows that are not there have neither vector nor value.
  void pass_to(std::uint32_t position) {
    for (; next_ < position; ++next_) {
      for (std::size_t i = 0; i < vectors_.size(); ++i) put_vector(i, Cell::null());
      for (Column& column : plains_) column.append(Cell::null());
    }
  }

  void put_vector(std::size_t column, const Cell& cell) {
    storage::VectorBlock& block = vectors_[column];
    if (info_.vectors[column].is_null()) return;
    const std::size_t stride = layout_.vectors[column].stride();
    std::byte* const to = block.memory.data() + next_ * stride;
    if (cell.is_null()) {
      std::memset(to, 0, stride);
    } else {
      std::memcpy(to, cell.bytes.data(), stride);
      block.present.set(next_);
    }
  }

  const Layout& layout_;
  const storage::SegmentInfo& info_;
  std::vector<storage::VectorBlock> vectors_;
  std::vector<Column> plains_;
  Bitmap found_;
  std::uint32_t next_ = 0;
};

bool same(const Bitmap& a, const Bitmap& b) {
  return a.size() == b.size() && std::equal(a.words(), a.words() + a.word_count(), b.words());
}

}  // namespace

// Null where info has no stamp.
struct ContentRows::Loaded {
  std::vector<std::shared_ptr<const ResidentVectors>> vectors;
  std::vector<std::shared_ptr<const Column>> plains;
};

std::string ContentRows::owner(const std::string& what) const {
  return store_.schema() + "." + store_.table() + " segment " + std::to_string(info_.id) + " " +
         what;
}

CacheKey ContentRows::record_key() const {
  return derived_key(Derived::kContentVersion, keys_.hashes);
}

std::shared_ptr<const ContentRows::Version> ContentRows::recorded() const {
  const auto known = Residency::instance().find(record_key());
  return known == nullptr ? nullptr : std::static_pointer_cast<const Version>(known->owner);
}

void ContentRows::record(std::shared_ptr<const Version> version) const {
  ResidentVectors entry;
  entry.beside = version->found.word_count() * 8 + sizeof(Version);
  entry.owner = std::move(version);
  Residency::instance().replace(record_key(), owner("rows read"), std::move(entry));
}

// Returns the key of `column` for the rows of a version.
CacheKey ContentRows::key_of(const CacheKey& column, const Version& version) {
  return derive(Derived::kContent, {&column, 1}).add(version.stamp).key();
}
CacheKey ContentRows::key_of(const CacheKey& column) const { return key_of(column, *version_); }

// Who still has it reads the rows again.
void ContentRows::forget(const Version& version) const {
  std::vector<CacheKey> keys;
  for (const auto* columns : {&keys_.vectors, &keys_.plains}) {
    for (const CacheKey& column : *columns) {
      if (!column.is_null()) keys.push_back(key_of(column, version));
    }
  }
  Residency::instance().forget(keys);
}

std::vector<std::uint32_t> ContentRows::missing_from(const Bitmap& found) const {
  std::vector<std::uint32_t> missing;
  const Bitmap* alive = part_.alive();
  for (std::uint32_t row = 0; row < info_.rows; ++row) {
    if ((alive == nullptr || alive->test(row)) && !found.test(row)) missing.push_back(row);
  }
  return missing;
}

const std::vector<RowId>& ContentRows::hashes() {
  if (hashes_ == nullptr) {
    hashes_ = Residency::instance().rowids(keys_.hashes, owner("hashes"), [this] {
      const std::vector<std::uint64_t> loaded = store_.load_hashes(info_);
      return std::vector<RowId>(loaded.begin(), loaded.end());
    });
  }
  return *hashes_;
}

std::uint64_t ContentRows::hash(std::uint32_t row) {
  return static_cast<std::uint64_t>(hashes()[row]);
}

bool ContentRows::any_there(const std::vector<std::uint32_t>& rows) {
  const RowIdView rowids = part_.rowids();
  bool any = false;
  for (const std::uint32_t row : rows) {
    const RowId rowid = rowids[row];
    bool gone = true;
    options_.content->read({&rowid, 1}, [&](const ContentSource::Row& found) {
      gone = false;
      any |= storage::row_hash(options_.layout, found.vectors, found.plains) == hash(row);
    });
    if (any) break;
    if (gone) options_.content->note_gone(rowid);
  }
  return any;
}

void ContentRows::adopt(std::shared_ptr<const Version> version, std::vector<std::uint32_t> lost) {
  version_ = std::move(version);
  lost_ = std::move(lost);
}

// Another connection may have read what this one needs.
void ContentRows::settle() {
  if (version_ != nullptr) return;
  if (auto known = recorded()) {
    std::vector<std::uint32_t> lost = missing_from(known->found);
    if (!any_there(lost)) return adopt(std::move(known), std::move(lost));
  }
  read();
}

// All columns at once: each row is read as a whole to be known by its hash.
ContentRows::Loaded ContentRows::read() {
  std::vector<RowId> wanted;
  const Bitmap* alive = part_.alive();
  const RowIdView rowids = part_.rowids();
  for (std::uint32_t row = 0; row < info_.rows; ++row) {
    if (alive == nullptr || alive->test(row)) wanted.push_back(rowids[row]);
  }
  BlockBuilder builder(options_.layout, info_);
  options_.content->read(wanted, [&](const ContentSource::Row& row) {
    const std::uint32_t position = *part_.find(row.rowid);
    if (storage::row_hash(options_.layout, row.vectors, row.plains) == hash(position)) {
      builder.add(position, row);
    }
  });
  builder.finish();
  auto version = recorded();
  if (version == nullptr || !same(version->found, builder.found())) {
    // What devices have of the same rows is found again under its key.
    const bool again = version_ != nullptr && same(version_->found, builder.found());
    const auto former = std::exchange(
        version, again ? version_
                       : std::make_shared<const Version>(
                             Version{new_stamp(), std::move(builder.found())}));
    record(version);
    if (former != nullptr) forget(*former);
  }
  adopt(version, missing_from(version->found));
  Loaded loaded;
  for (std::size_t i = 0; i < info_.vectors.size(); ++i) {
    const CacheKey& column = keys_.vectors[i];
    loaded.vectors.push_back(
        column.is_null() ? nullptr
                         : Residency::instance().vectors(
                               key_of(column), owner(options_.vectors[i].name), 0,
                               [&] { return std::move(builder.vectors(i)); }));
  }
  for (std::size_t i = 0; i < info_.plains.size(); ++i) {
    const CacheKey& column = keys_.plains[i];
    loaded.plains.push_back(
        column.is_null() ? nullptr
                         : Residency::instance().column(
                               key_of(column), owner(options_.plain_names[i]),
                               [&] { return std::move(builder.plain(i)); }));
  }
  return loaded;
}

std::shared_ptr<const ResidentVectors> ContentRows::vectors(std::size_t column) {
  if (version_ == nullptr) settle();
  auto known = Residency::instance().find(key_of(keys_.vectors[column]));
  return known != nullptr ? known : read().vectors[column];
}

std::shared_ptr<const Column> ContentRows::plain(std::size_t column) {
  if (version_ == nullptr) settle();
  auto known = Residency::instance().find_column(key_of(keys_.plains[column]));
  return known != nullptr ? known : read().plains[column];
}

CacheKey ContentRows::known_vector_key(std::size_t column) const {
  return version_ == nullptr || keys_.vectors[column].is_null() ? CacheKey{}
                                                                : key_of(keys_.vectors[column]);
}

CacheKey ContentRows::plain_key(std::size_t column) {
  if (version_ == nullptr) settle();
  return key_of(keys_.plains[column]);
}

bool ContentRows::lost(std::uint32_t row) {
  if (version_ == nullptr) settle();
  return known_lost(row);
}

bool ContentRows::known_lost(std::uint32_t row) const {
  return version_ != nullptr && std::binary_search(lost_.begin(), lost_.end(), row);
}

bool ContentRows::look_again(const Bitmap* erased) {
  if (version_ == nullptr || lost_.empty()) return false;
  std::vector<std::uint32_t> rows = lost_;
  std::erase_if(rows, [&](std::uint32_t row) {
    return erased != nullptr && row < erased->size() && erased->test(row);
  });
  if (!any_there(rows)) return false;
  version_ = nullptr;
  return true;
}

}  // namespace warplite::engine
