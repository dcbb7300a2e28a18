// Row tables beside the segments: +columns and the TEXT PRIMARY KEY.
#include "storage/codec/wire.h"
#include "storage/store_impl.h"

namespace warplite::storage {

Value Store::read_aux(RowId rowid, std::size_t column) {
  WARP_CHECK(column < impl_->layout.aux);
  Execution query = impl_->statements.use(Sql::kReadAux, column);
  return query.bind(rowid).step() ? Value(query.cell(0)) : Value();
}

void Store::put_aux(std::span<const RowRef> rows) {
  const KeepLastInsertRowid keep(impl_->db);
  const LiftedLimit columns(impl_->db, SQLITE_LIMIT_VARIABLE_NUMBER);
  Execution query = impl_->statements.use(Sql::kWriteAux);
  for (const RowRef& ref : rows) {
    query.bind(ref.chunk->rowids()[ref.row]);
    for (std::size_t i = 0; i < impl_->layout.aux; ++i) {
      query.bind_cell(ref.chunk->aux(ref.row, i).cell());
    }
    query.run();
  }
}

void Store::erase_aux(std::span<const RowId> rowids) {
  Execution query = impl_->statements.use(Sql::kEraseAux);
  for (RowId rowid : rowids) query.bind(rowid).run();
}

std::optional<RowId> Store::find_key(std::string_view key) {
  Execution query = impl_->statements.use(Sql::kFindKey);
  if (!query.bind_blob(as_bytes(key)).step()) return std::nullopt;
  return query.integer(0);
}

void Store::put_keys(std::span<const RowRef> rows) {
  const KeepLastInsertRowid keep(impl_->db);
  const auto column = static_cast<std::size_t>(impl_->layout.text_key);
  Execution query = impl_->statements.use(Sql::kWriteKey);
  for (const RowRef& ref : rows) {
    const Cell key = ref.chunk->plain(column).cell(ref.row);
    query.bind(ref.chunk->rowids()[ref.row]);
    if (key.is_null()) {
      query.bind_cell(key);
    } else {
      query.bind_blob(as_bytes(key.bytes));
    }
    try {
      query.run();
    } catch (const Error& error) {
      if ((error.host_code() & 0xff) != SQLITE_CONSTRAINT) throw;
      throw Error(ErrorKind::kConstraint,
                  key.is_null() ? impl_->table + ": the text primary key is NULL"
                                : impl_->table + ": the text primary key '" +
                                      std::string(key.bytes) + "' exists already");
    }
  }
}

void Store::erase_keys(std::span<const RowId> rowids) {
  Execution query = impl_->statements.use(Sql::kEraseKey);
  for (RowId rowid : rowids) query.bind(rowid).run();
}

}  // namespace warplite::storage
