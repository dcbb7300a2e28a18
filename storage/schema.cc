// The shadow tables as a whole: made, dropped, renamed.
#include <algorithm>

#include "core/listing.h"
#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

// NAME_suffix and its columns after id, to which a layout adds its own.
struct ShadowTable {
  std::string_view suffix;
  std::string_view columns;
  std::string_view columns_of_layout;
};
constexpr ShadowTable kTables[] = {
    {"state", ", record BLOB", ""},
    {"segments", ", info BLOB", ""},
    {"blocks", ", data BLOB", ""},
    {"tail", ", flush BLOB, row INTEGER, sum INTEGER", "{tail_columns}"},
    {"aux", "", "{aux_columns}"},
    {"keys", ", key BLOB NOT NULL UNIQUE", ""},
};
constexpr std::string_view kId = "(id INTEGER PRIMARY KEY";

bool belongs(std::string_view suffix, const Layout& layout) {
  if (suffix == "aux") return layout.aux > 0;
  if (suffix == "keys") return layout.text_key >= 0;
  return true;
}

// The table's name in a pattern for Statements::expand().
std::string braced(std::string_view suffix) {
  std::string name("{");
  return name.append(suffix).append("}");
}

}  // namespace

bool is_shadow_suffix(std::string_view suffix) {
  return std::any_of(std::begin(kTables), std::end(kTables),
                     [&](const ShadowTable& table) { return table.suffix == suffix; });
}

bool is_shadow_table(std::string_view suffix, std::string_view create_statement) {
  for (const ShadowTable& table : kTables) {
    if (table.suffix != suffix) continue;
    std::string made(kId);
    made.append(table.columns.empty() ? ", a0" : table.columns);
    return create_statement.find(made) != std::string_view::npos;
  }
  return false;
}

Store::Store(sqlite3* db, std::string schema, std::string table, Layout layout)
    : impl_(std::make_unique<Impl>(db, std::move(schema), std::move(table), std::move(layout))) {
  const std::size_t slots =
      kFirstColumnSlot + 2 * impl_->layout.vectors.size() + impl_->layout.plains.size() +
      (impl_->layout.content ? 1 : 0);
  if (slots > static_cast<std::size_t>(kSlots)) {
    throw Error(ErrorKind::kLimit, impl_->table + ": more than " +
                                       std::to_string(kSlots - kFirstColumnSlot) +
                                       " columns, of which vectors count twice");
  }
}

Store::~Store() = default;

const Layout& Store::layout() const { return impl_->layout; }
const std::string& Store::schema() const { return impl_->schema; }
const std::string& Store::table() const { return impl_->table; }
sqlite3* Store::db() const { return impl_->db; }
void Store::notice(const std::string& text) const {
  sqlite3_log(SQLITE_NOTICE, "%s", text.c_str());
}

void Store::create_tables() {
  for (const ShadowTable& table : kTables) {
    if (!belongs(table.suffix, impl_->layout)) continue;
    std::string sql = "CREATE TABLE " + braced(table.suffix);
    sql.append(kId).append(table.columns).append(table.columns_of_layout).append(")");
    impl_->statements.execute(sql);
  }
  State state;
  state.tail_epoch = new_stamp();
  write_state(state);
}

// Others may have a table or a view of a name that this layout has no use for, or that was free
// since its own table was dropped.
std::vector<std::string_view> Store::Impl::own_tables() {
  std::vector<std::string_view> own;
  for (const ShadowTable& shadow : kTables) {
    if (!belongs(shadow.suffix, layout)) continue;
    const std::string name = table + "_" + std::string(shadow.suffix);
    Execution query = statements.use(Sql::kSchema);
    if (query.bind_cell(Cell::text(name)).step() &&
        is_shadow_table(shadow.suffix, query.cell(0).bytes)) {
      own.push_back(shadow.suffix);
    }
  }
  return own;
}

void Store::drop_tables() {
  const std::vector<std::string_view> own = impl_->own_tables();
  impl_->statements.finalize();
  for (std::string_view suffix : own) {
    impl_->statements.execute("DROP TABLE " + braced(suffix));
  }
}

void Store::rename_tables(const std::string& new_table) {
  const std::vector<std::string_view> own = impl_->own_tables();
  impl_->statements.finalize();
  for (std::string_view suffix : own) {
    // The new name goes around expand(): it may hold braces.
    const std::string sql = impl_->statements.expand("ALTER TABLE " + braced(suffix)) +
                            " RENAME TO " + quoted_name(new_table + "_" + std::string(suffix));
    if (sqlite3_exec(impl_->db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      throw_host(impl_->db, impl_->table);
    }
  }
  impl_->former_names.push_back(impl_->table);
  impl_->table = new_table;
}

bool Store::present() const {
  const std::string state = impl_->table + "_state";
  const int code =
      sqlite3_table_column_metadata(impl_->db, impl_->schema.c_str(), state.c_str(), nullptr,
                                    nullptr, nullptr, nullptr, nullptr, nullptr);
  // Too little memory to tell whether the table is present does not mean that it is absent.
  if (code != SQLITE_OK && code != SQLITE_ERROR) throw_host(impl_->db, impl_->table);
  return code == SQLITE_OK;
}

void Store::settle_name() {
  std::vector<std::string>& former = impl_->former_names;
  while (!former.empty() && !present()) {
    impl_->statements.finalize();
    impl_->table = std::move(former.back());
    former.pop_back();
  }
}

std::size_t Store::renames() const noexcept { return impl_->former_names.size(); }

void Store::undo_renames(std::size_t kept) noexcept {
  std::vector<std::string>& former = impl_->former_names;
  if (former.size() <= kept) return;
  impl_->statements.finalize();
  impl_->table = std::move(former[kept]);
  former.resize(kept);
}

void Store::keep_name() noexcept { impl_->former_names.clear(); }

}  // namespace warplite::storage
