// Tells which tables are shadow tables: by their names alone, as SQLite asks (is_shadow_suffix() in
// storage.h), and by what they are.
#pragma once

#include <string_view>

namespace warplite::storage {

// Whether the table NAME_suffix, of which sqlite_schema has this statement, is one.
bool is_shadow_table(std::string_view suffix, std::string_view create_statement);

}  // namespace warplite::storage
