// The names of blocks in memory.
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

bool has_full_name(const char* file) { return file != nullptr && *file == '/'; }

}  // namespace

// One file is one place, whoever opens it. What has no full name (in memory, temporary, deserialized)
// may be replaced by anything whenever the table is connected to.
KeyWriter Store::Impl::start_key() const {
  KeyWriter key;
  const char* file = sqlite3_db_filename(db, schema.c_str());
  const bool named = has_full_name(file);
  key.add_text(named ? file : "").add(named ? Stamp{} : connected);
  return key;
}

KeyWriter Store::Impl::start_key(const BlockHeader& header) const {
  return start_key().add(header.kind).add(header.slot).add(header.segment).add(header.rows)
      .add(header.stamp).add(header.type).add(header.dim);
}

CacheKey Store::Impl::key(const BlockHeader& header) const {
  return header.stamp.is_null() ? CacheKey{} : start_key(header).key();
}

bool Store::shares_keys() const {
  return has_full_name(sqlite3_db_filename(impl_->db, impl_->schema.c_str()));
}

SegmentKeys Store::keys(const SegmentInfo& segment) const {
  const Impl& impl = *impl_;
  SegmentKeys keys;
  if (!segment.rowids.is_null()) {
    keys.rowids = impl.start_key(impl.rowids_header(segment))
                      .add(segment.min_rowid).add(segment.max_rowid).key();
  }
  if (!segment.alive.is_null()) {
    keys.alive = impl.start_key(impl.alive_header(segment)).add(segment.live_rows).key();
  }
  keys.hashes = impl.key(impl.hashes_header(segment));
  for (std::size_t i = 0; i < segment.vectors.size(); ++i) {
    keys.vectors.push_back(impl.key(impl.vectors_header(segment, i)));
  }
  for (std::size_t i = 0; i < segment.plains.size(); ++i) {
    keys.plains.push_back(impl.key(impl.plain_header(segment, i)));
  }
  for (std::size_t i = 0; i < segment.codes.size(); ++i) {
    keys.codes.push_back(impl.key(impl.codes_header(segment, i)));
  }
  return keys;
}

CacheKey Store::tail_key(const State& state) const {
  if (impl_->layout.content || state.tail_rows == 0 || !state.tail_digest) return {};
  return impl_->start_key().add_text(impl_->table).add(state.tail_epoch).add(state.last_flush)
      .add(state.last_sequence).add(state.tail_rows).add(*state.tail_digest).key();
}

CacheKey Store::model_key(const Stamp& stamp, std::size_t column) const {
  return impl_->key(impl_->model_header(stamp, column));
}

}  // namespace warplite::storage
