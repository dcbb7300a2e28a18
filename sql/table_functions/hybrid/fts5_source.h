// A table of FTS5 as a source of hybrid search: asked through the connection, so that its tokenizer,
// its columns' weights and its own ranking function (by default bm25) decide.
// Threads: as the connection.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/filter/filter.h"
#include "sql/table/context.h"

namespace warplite::sql {

// What a name stands for in the schemas of a connection.
enum class NamedTable { kNone, kOther, kFts5 };
struct Fts5Name {
  NamedTable kind;
  QualifiedName name;  // with its schema, of kFts5
};
// Throws Error{kInvalid} for what is no name of a table.
Fts5Name find_fts5(sqlite3* db, const std::string& name);

// The `depth` selected rows of the view that rank best among those that match, at their rank as
// distance, in the order of results. Rows that FTS5 has and the view does not are passed over.
// Throws FTS5's own errors, with the table named.
std::vector<Hit> fts5_matches(Context& context, const QualifiedName& table, std::string_view query,
                              const engine::View& view, const engine::Selection& rows,
                              std::size_t depth);

// The function by which the statement that asks FTS5 leaves out what a filter does. `context` outlives the
// connection.
int register_fts5_source(sqlite3* db, Context* context);

}  // namespace warplite::sql
