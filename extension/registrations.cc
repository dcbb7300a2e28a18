#include "extension/registrations.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "compute/device.h"
#include "compute/devices/plugin.h"
#include "compute/host/host_kernels.h"
#include "compute/host/parallel.h"
#include "cpu/cpu_device.h"
#include "cpu/host/kernels.h"
#include "cpu/runtime/thread_pool.h"
#include "engine/ivf/ivf_search.h"
#include "engine/lsh/lsh_search.h"
#include "index/flat.h"
#include "index/index.h"
#include "index/ivf/ivf.h"
#include "index/lsh/lsh.h"
#include "index/metric/list_of_clusters.h"
#include "index/metric/sss.h"
#include "sql/functions/model_functions.h"
#include "sql/functions/rank_fusion.h"
#include "sql/functions/scalar_functions.h"
#include "sql/host/guard.h"
#include "sql/host/statement.h"
#include "sql/table/context.h"
#include "sql/table/match_function.h"
#include "sql/table/warp_table.h"
#include "sql/table_functions/hybrid/fts5_source.h"
#include "sql/table_functions/table_functions.h"
#include "sql/vec0/import_vec0.h"

namespace warplite {
namespace {

// Loading the extension twice must leave the connection's tables, which know their context,
// alone. (Asking for a function that does not exist would leave an error on the connection.)
bool is_registered(sqlite3* db, std::string_view module) {
  const sql::Statement modules = sql::prepare(db, "PRAGMA module_list");
  while (sql::step(modules.get())) {
    const unsigned char* name = sqlite3_column_text(modules.get(), 0);
    if (name != nullptr && std::string_view(reinterpret_cast<const char*>(name)) == module) {
      return true;
    }
  }
  return false;
}

// `searcher`: of a kind that learns; the others say to devices which rows they may pass over.
void add_kind(const index::Kind& kind, const engine::Searcher* searcher = nullptr) {
  index::register_kind(kind);
  if (searcher != nullptr) engine::register_searcher(kind.name, *searcher);
}

}  // namespace

void register_process_parts() {
  compute::Registry& devices = compute::Registry::instance();
  devices.add(cpu::make_cpu_device());
  compute::set_workers(cpu::run_on_pool);
  compute::set_host_kernels(cpu::host_kernels);
  devices.add_later("gpu", [](const auto& add) {
    const std::string path = compute::plugin_path("WARPLITE_CUDA_PLUGIN", "warplite_cuda.so");
    return compute::open_plugin(path, WARPLITE_VERSION, add);
  });

  add_kind(index::flat_kind());
  add_kind(index::ivfflat_kind(), &engine::ivf_searcher());
  add_kind(index::ivfpq_kind(), &engine::ivf_searcher());
  add_kind(index::ivfrabitq_kind(), &engine::ivf_searcher());
  add_kind(index::approximate_kind(), &engine::ivf_searcher());
  add_kind(index::lsh_kind(), &engine::lsh_searcher());
  add_kind(index::list_of_clusters_kind());
  add_kind(index::sss_kind());
}

int register_connection_parts(sqlite3* db, char** message) {
  return sql::guarded(message, [&] {
    if (is_registered(db, "warp")) return SQLITE_OK;
    const bool has_vec0 = is_registered(db, "vec0");  // sqlite-vec was loaded first
    auto owned = std::make_unique<sql::Context>(db);
    sql::Context* context = owned.get();
    int code = sql::register_warp_module(db, std::move(owned));
    if (code == SQLITE_OK && !has_vec0) {
      code = sql::register_vec0_module(db, context);
      if (code == SQLITE_OK) code = sql::register_vec0_versions(db);
    }
    if (code == SQLITE_OK) code = sql::register_table_functions(db, context);
    if (code == SQLITE_OK) code = sql::register_match_function(db);
    if (code == SQLITE_OK) code = sql::register_scalar_functions(db, WARPLITE_VERSION);
    if (code == SQLITE_OK) code = sql::register_rank_fusion(db);
    if (code == SQLITE_OK) code = sql::register_model_functions(db, context);
    if (code == SQLITE_OK) code = sql::register_fts5_source(db, context);
    if (code == SQLITE_OK) code = sql::register_import_vec0(db, context);
    if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, sqlite3_errmsg(db));
    return SQLITE_OK;
  });
}

}  // namespace warplite
