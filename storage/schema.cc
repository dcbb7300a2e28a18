// The shadow tables as a whole: made, dropped, renamed.
#include <algorithm>
#include <array>

#include "storage/store_impl.h"

namespace warplite::storage {
namespace {

constexpr std::string_view kSuffixes[] = {"state", "segments", "blocks", "tail", "aux", "keys"};

bool exists(std::string_view suffix, const Layout& layout) {
  if (suffix == "aux") return layout.aux > 0;
  if (suffix == "keys") return layout.text_key >= 0;
  return true;
}

// The columns of NAME_suffix after id.
std::string_view columns_of(std::string_view suffix) {
  if (suffix == "state") return ", record BLOB";
  if (suffix == "segments") return ", info BLOB";
  if (suffix == "blocks") return ", data BLOB";
  if (suffix == "tail") return ", flush BLOB, row INTEGER, sum INTEGER{tail_columns}";
  if (suffix == "aux") return "{aux_columns}";
  return ", key BLOB NOT NULL UNIQUE";
}

// The table's name in a pattern for Statements::expand().
std::string braced(std::string_view suffix) {
  std::string name("{");
  return name.append(suffix).append("}");
}

}  // namespace

bool is_shadow_suffix(std::string_view suffix) {
  return std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix) != std::end(kSuffixes);
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

void Store::create_tables() {
  for (std::string_view suffix : kSuffixes) {
    if (!exists(suffix, impl_->layout)) continue;
    impl_->statements.execute("CREATE TABLE " + braced(suffix) + "(id INTEGER PRIMARY KEY" +
                              std::string(columns_of(suffix)) + ")");
  }
  State state;
  state.tail_epoch = new_stamp();
  write_state(state);
}

void Store::drop_tables() {
  impl_->statements.finalize();
  for (std::string_view suffix : kSuffixes) {
    impl_->statements.execute("DROP TABLE IF EXISTS " + braced(suffix));
  }
}

void Store::rename_tables(const std::string& new_table) {
  impl_->statements.finalize();
  for (std::string_view suffix : kSuffixes) {
    if (!exists(suffix, impl_->layout)) continue;
    // The new name goes around expand(): it may hold braces.
    const std::string sql = impl_->statements.expand("ALTER TABLE " + braced(suffix)) +
                            " RENAME TO " + quoted(new_table + "_" + std::string(suffix));
    if (sqlite3_exec(impl_->db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      throw_host(impl_->db, impl_->table);
    }
  }
  impl_->former_names.push_back(impl_->table);
  impl_->table = new_table;
}

bool Store::present() const {
  const std::string state = impl_->table + "_state";
  return sqlite3_table_column_metadata(impl_->db, impl_->schema.c_str(), state.c_str(), nullptr,
                                       nullptr, nullptr, nullptr, nullptr, nullptr) == SQLITE_OK;
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
