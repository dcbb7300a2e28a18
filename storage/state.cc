// The table's one state record.
#include "storage/codec/segment_codec.h"
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

constexpr auto kPlace = [] { return std::string("state record"); };

}  // namespace

Stamp Store::read_generation() {
  Execution query = impl_->statements.use(Sql::kReadState);
  if (!query.step()) impl_->corrupt(kPlace(), "is missing");
  return impl_->at(kPlace, [&] { return decode_generation(query.blob(0)); });
}

State Store::read_state() {
  Execution query = impl_->statements.use(Sql::kReadState);
  if (!query.step()) impl_->corrupt(kPlace(), "is missing");
  return impl_->at(kPlace, [&] { return decode_state(query.blob(0), impl_->layout); });
}

void Store::write_state(State& state) {
  const KeepLastInsertRowid keep(impl_->db);
  State fresh = state;
  fresh.generation = new_stamp();
  const std::string record = encode_state(fresh);
  impl_->statements.use(Sql::kWriteState)
      .bind_blob(std::as_bytes(std::span(record)))
      .run();
  state = fresh;
}

}  // namespace warplite::storage
