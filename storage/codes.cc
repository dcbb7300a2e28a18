// Reads and writes what indexes keep: a model per column, and codes per segment. Storage knows
// neither.
#include <cstring>

#include "storage/store_impl.h"

namespace warplite::storage {

OpaqueBlock Store::Impl::load_opaque(BlockHeader header, const BlockFile* file) const {
  OpaqueBlock block{load_block(header, file), {}};
  block.payload = payload(block.memory);
  return block;
}

void Store::Impl::write_opaque(const BlockHeader& header, std::span<const std::byte> bytes) {
  const KeepLastInsertRowid keep(db);
  if (bytes.size() > kMostInOneStep) return write_pieces(header, bytes);
  Bytes block(kBlockHeader + bytes.size());
  if (!bytes.empty()) std::memcpy(block.data() + kBlockHeader, bytes.data(), bytes.size());
  write_block(header, {block.data(), block.size()});
}

OpaqueBlock Store::load_codes(const SegmentInfo& segment, std::size_t column,
                              const BlockFile* file) {
  return impl_->load_opaque(impl_->codes_header(segment, column), file);
}

OpaqueBlock Store::load_model(const Stamp& stamp, std::size_t column) {
  return impl_->load_opaque(impl_->model_header(stamp, column));
}

ModelOrigin Store::model_origin(const Stamp& stamp, std::size_t column) {
  BlockHeader header = impl_->model_header(stamp, column);
  impl_->load_block(header);
  return (header.flags & kGivenModel) != 0 ? ModelOrigin::kGiven : ModelOrigin::kLearnt;
}

void Store::write_codes(SegmentInfo& segment, std::size_t column, const Stamp& model,
                        std::span<const std::byte> codes) {
  SegmentInfo changed = segment;
  changed.codes.resize(impl_->layout.vectors.size());
  changed.codes[column] = {new_stamp(), model};
  impl_->write_opaque(impl_->codes_header(changed, column), codes);
  segment = std::move(changed);
}

void Store::erase_vectors(SegmentInfo& segment, std::size_t column) {
  if (segment.vectors[column].is_null()) return;
  impl_->statements.use(Sql::kEraseBlocks)
      .bind(impl_->vectors_header(segment, column).id())
      .bind(impl_->vectors_header(segment, column).id())
      .run();
  segment.vectors[column] = Stamp{};
}

void Store::write_model(State& state, std::size_t column, std::span<const std::byte> bytes,
                        ModelOrigin origin) {
  const Stamp stamp = new_stamp();
  state.models.resize(impl_->layout.vectors.size());
  BlockHeader header = impl_->model_header(stamp, column);
  if (origin == ModelOrigin::kGiven) header.flags = kGivenModel;
  impl_->write_opaque(header, bytes);
  state.models[column] = stamp;
}

}  // namespace warplite::storage
