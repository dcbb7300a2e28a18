#include "sql/table/warp_table.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sql/content/table.h"
#include "sql/definition/argument_lexer.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"
#include "sql/plan/plan.h"
#include "sql/table/commands.h"
#include "sql/table/foreign_vec0.h"
#include "sql/table/match_function.h"

namespace warplite::sql {
namespace {

constexpr int kConstraintSupport = 1;  // SQLITE_VTAB_CONSTRAINT_SUPPORT
constexpr int kInnocuous = 2;          // SQLITE_VTAB_INNOCUOUS
constexpr int kMaxFaults = 100;        // that xIntegrity reports

WarpTable& table_of(sqlite3_vtab* vtab) { return *static_cast<WarpTable*>(vtab); }

std::shared_ptr<OpenTable> open_table(sqlite3* db, Context& context,
                                      std::vector<std::string> arguments, Life life) {
  auto open = std::make_shared<OpenTable>();
  const ModuleName module =
      ascii_lower(arguments[0]) == "vec0" ? ModuleName::kVec0 : ModuleName::kWarp;
  open->definition = parse_definition(arguments[1].c_str(), arguments[2].c_str(),
                                      {arguments.begin() + 3, arguments.end()}, module, life);
  open->arguments = std::move(arguments);
  if (life == Life::kConnect) {
    const bool foreign = module == ModuleName::kVec0 &&
                         is_foreign(db, open->definition.schema, open->definition.table);
    if (foreign) return open;
    if (const auto known = context.still_open(open->arguments)) {
      open->content = known->content;
      open->collection = known->collection;
      return open;
    }
  }
  const TableDefinition& definition = open->definition;
  engine::TableOptions options = definition.options();
  if (definition.has_content()) {
    open->content = std::make_shared<ContentTable>(db, definition);
    if (life == Life::kCreate) open->content->verify();
    options.content = open->content;
  }
  const auto make = life == Life::kCreate ? engine::Collection::create : engine::Collection::open;
  open->collection = make(db, definition.schema, definition.table, std::move(options));
  if (open->content != nullptr) open->content->attach(*open->collection);
  return open;
}

// Fills a table that is being created with what the content table has by now.
void fill(sqlite3* db, const OpenTable& open) {
  Interrupt interrupt(db);
  const index::Progress progress = work_reporter(*open.collection);
  open.content->create_triggers();
  open.collection->fill(&interrupt, progress);
  open.collection->sync(&interrupt, progress);
}

int connect(sqlite3* db, void* aux, int argc, const char* const* argv, sqlite3_vtab** out,
            char** error, Life life) {
  return guarded(error, [&] {
    auto* context = static_cast<Context*>(aux);
    const std::shared_ptr<OpenTable> open =
        open_table(db, *context, {argv, argv + argc}, life);
    const TableDefinition& definition = open->definition;
    int code = sqlite3_declare_vtab(db, definition.declaration().c_str());
    if (code == SQLITE_OK) code = sqlite3_vtab_config(db, kConstraintSupport, 1);
    if (code == SQLITE_OK) code = sqlite3_vtab_config(db, kInnocuous);
    if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, sqlite3_errmsg(db));
    if (life == Life::kCreate) {
      // SQLite takes the new table for one whose transaction has begun.
      open->collection->begin();
      if (open->content != nullptr) fill(db, *open);
    }
    auto table = std::make_unique<WarpTable>(context, open);
    if (table->rows() != nullptr) context->add(open);
    *out = table.release();
    return SQLITE_OK;
  });
}

int warp_create(sqlite3* db, void* aux, int argc, const char* const* argv, sqlite3_vtab** out,
                char** error) {
  return connect(db, aux, argc, argv, out, error, Life::kCreate);
}

int warp_connect(sqlite3* db, void* aux, int argc, const char* const* argv, sqlite3_vtab** out,
                 char** error) {
  return connect(db, aux, argc, argv, out, error, Life::kConnect);
}

int warp_disconnect(sqlite3_vtab* vtab) {
  const std::unique_ptr<WarpTable> table(&table_of(vtab));
  return guarded(static_cast<char**>(nullptr), [&] {
    // Unless a later connection shares it.
    if (table->open.use_count() == 1) table->context->remove(*table->open);
    return SQLITE_OK;
  });
}

int warp_destroy(sqlite3_vtab* vtab) {
  const int code = guarded(vtab, [&] {
    WarpTable& table = table_of(vtab);
    if (table.rows() == nullptr) {
      drop_foreign_tables(table.context->db(), table.definition());
      return SQLITE_OK;
    }
    table.collection().check_drop();
    if (table.open->content != nullptr) table.open->content->drop_triggers();
    table.collection().drop();
    return SQLITE_OK;
  });
  return code == SQLITE_OK ? warp_disconnect(vtab) : code;
}

int warp_best_index(sqlite3_vtab* vtab, sqlite3_index_info* info) {
  return guarded(vtab, [&] {
    WarpTable& table = table_of(vtab);
    table.check_own();
    return best_index(table.context->db(), table.definition(), table.memo, info);
  });
}

// SQLite connects the table anew afterwards, under its new name. The old name stays known until
// this connection of it ends, since a savepoint may bring it back.
int warp_rename(sqlite3_vtab* vtab, const char* name) {
  return guarded(vtab, [&] {
    WarpTable& table = table_of(vtab);
    check_table_name(table.definition(), name);
    table.collection().sync();
    if (table.open->content != nullptr) table.open->content->rename_triggers(name);
    table.collection().rename(name);
    return SQLITE_OK;
  });
}

int warp_begin(sqlite3_vtab* vtab) {
  return guarded(vtab, [&] {
    if (engine::Collection* rows = table_of(vtab).rows()) rows->begin();
    return SQLITE_OK;
  });
}

// Every table's rows are written first: once an interrupt has ended what takes long, nothing can be
// written.
int warp_sync(sqlite3_vtab* vtab) {
  return guarded(vtab, [&] {
    table_of(vtab).context->write_all(&table_of(vtab).interrupt);
    if (engine::Collection* rows = table_of(vtab).rows()) {
      rows->sync(&table_of(vtab).interrupt, work_reporter(*rows));
    }
    return SQLITE_OK;
  });
}

int warp_commit(sqlite3_vtab* vtab) {
  if (engine::Collection* rows = table_of(vtab).rows()) rows->commit();
  return SQLITE_OK;
}

int warp_rollback(sqlite3_vtab* vtab) {
  if (engine::Collection* rows = table_of(vtab).rows()) rows->rollback();
  return SQLITE_OK;
}

int warp_savepoint(sqlite3_vtab* vtab, int n) {
  if (engine::Collection* rows = table_of(vtab).rows()) rows->savepoint(n);
  return SQLITE_OK;
}

int warp_release(sqlite3_vtab* vtab, int n) {
  if (engine::Collection* rows = table_of(vtab).rows()) rows->release(n);
  return SQLITE_OK;
}

int warp_rollback_to(sqlite3_vtab* vtab, int n) {
  if (engine::Collection* rows = table_of(vtab).rows()) rows->rollback_to(n);
  return SQLITE_OK;
}

int warp_shadow_name(const char* suffix) { return storage::is_shadow_suffix(suffix) ? 1 : 0; }

// PRAGMA integrity_check and quick_check, on SQLite 3.44 and later.
int warp_integrity(sqlite3_vtab* vtab, const char* schema, const char* name, int, char** report) {
  return guarded(report, [&] {
    std::string text;
    int count = 0;
    WarpTable& table = table_of(vtab);
    if (table.rows() == nullptr) return SQLITE_OK;
    // An index is not damaged when it lacks changes of which it is not told.
    using Against = engine::Collection::AgainstContent;
    const Against against = table.definition().content.triggers ? Against::kButVanished
                                                                : Against::kNothing;
    for (const std::string& fault : table.collection().integrity_check(nullptr, against)) {
      if (++count > kMaxFaults) break;
      text += (text.empty() ? "" : "\n") + fault;
    }
    if (!text.empty()) {
      text = std::string("warp table ") + schema + "." + name + ": " + text;
      set_message(report, text, std::string::npos);
    }
    return SQLITE_OK;
  });
}

// sqlite3_module as of iVersion 4, for builds against older headers; older libraries read
// only the members they know.
struct ModuleWithIntegrity {
  sqlite3_module base;
  int (*integrity)(sqlite3_vtab*, const char* schema, const char* name, int flags, char** report);
};

sqlite3_module base_module(int library) {
  sqlite3_module module{};
  module.iVersion = 4;
  module.xCreate = entry<warp_create>(library);
  module.xConnect = entry<warp_connect>(library);
  module.xBestIndex = entry<warp_best_index>(library);
  module.xDisconnect = entry<warp_disconnect>(library);
  module.xDestroy = entry<warp_destroy>(library);
  module.xOpen = entry<warp_open>(library);
  module.xClose = entry<warp_close>(library);
  module.xFilter = entry<warp_filter>(library);
  module.xNext = entry<warp_next>(library);
  module.xEof = entry<warp_eof>(library);
  module.xColumn = entry<warp_column>(library);
  module.xRowid = entry<warp_rowid>(library);
  module.xUpdate = entry<warp_update>(library);
  module.xBegin = entry<warp_begin>(library);
  module.xSync = entry<warp_sync>(library);
  module.xCommit = entry<warp_commit>(library);
  module.xRollback = entry<warp_rollback>(library);
  module.xFindFunction = entry<find_match_function>(library);
  module.xRename = entry<warp_rename>(library);
  module.xSavepoint = entry<warp_savepoint>(library);
  module.xRelease = entry<warp_release>(library);
  module.xRollbackTo = entry<warp_rollback_to>(library);
  module.xShadowName = entry<warp_shadow_name>(library);
  return module;
}

#if SQLITE_VERSION_NUMBER >= 3044000
sqlite3_module make_module(int library) {
  sqlite3_module module = base_module(library);
  module.xIntegrity = entry<warp_integrity>(library);
  return module;
}

const sqlite3_module* warp_module() { return library_module<make_module>(); }
#else
ModuleWithIntegrity make_module(int library) {
  return {base_module(library), entry<warp_integrity>(library)};
}

const sqlite3_module* warp_module() { return &library_module<make_module>()->base; }
#endif

}  // namespace

WarpTable::WarpTable(Context* shared, std::shared_ptr<OpenTable> table)
    : sqlite3_vtab{}, context(shared), open(std::move(table)), interrupt(shared->db()) {
  if (rows() == nullptr) return;
  const Layout& layout = collection().options().layout;
  row.vectors.resize(layout.vectors.size());
  row.plains.resize(layout.plains.size());
  row.aux.resize(layout.aux);
  row.inputs.resize(definition().columns.size());
  row.kept.resize(definition().columns.size());
}

void WarpTable::check_own() const {
  if (rows() == nullptr) throw_foreign(definition());
}

engine::Collection& WarpTable::collection() const {
  check_own();
  return *rows();
}

int register_warp_module(sqlite3* db, std::unique_ptr<Context> context) {
  return create_module(db, "warp", warp_module(), context.release());
}

int register_vec0_module(sqlite3* db, Context* context) {
  return create_alias(db, "vec0", warp_module(), context);
}

}  // namespace warplite::sql
