#include "sql/definition/definition.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/listing.h"
#include "sql/definition/argument_parser.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

struct HiddenName {
  std::string_view name, type;
  bool later = false;  // there are tables from before it, whose columns may have its name
};
// In the order of HiddenColumn.
constexpr HiddenName kHiddenNames[] = {
    {"distance", "REAL"}, {"k", "INTEGER"},      {"nprobe", "INTEGER"},
    {"recall", "REAL", true}, {"matches", "INTEGER"},
};
static_assert(std::size(kHiddenNames) == kCommand);

// Says whether the name, in lower case, is that of a hidden column and of nothing else.
bool is_hidden(std::string_view lower, Life life) {
  return std::any_of(std::begin(kHiddenNames), std::end(kHiddenNames), [&](const HiddenName& row) {
    return row.name == lower && (life == Life::kCreate || !row.later);
  });
}

// A TableBuilder checks what can only be checked once the other columns are known; it gives the
// column its slot.
class TableBuilder {
 public:
  TableBuilder(TableDefinition& definition, Life life) : definition_(definition), life_(life) {}

  void add(ColumnDefinition column, const ArgumentParser& parser) {
    const std::string lower = ascii_lower(column.name);
    if (is_hidden(lower, life_)) {
      parser.fail("the name \"" + lower + "\" belongs to a hidden column of every warp table");
    }
    if (lower == ascii_lower(definition_.table) && definition_.module == ModuleName::kWarp) {
      parser.fail("a column cannot have its table's name, which belongs to the hidden column "
                  "that takes commands");
    }
    if (definition_.find(column.name) != nullptr) {
      parser.fail("there is already a column named " + column.name);
    }
    if (column.kind == ColumnKind::kRowId || column.kind == ColumnKind::kTextKey) {
      if (std::exchange(has_key_, true)) parser.fail("there is already a PRIMARY KEY");
    }
    place(column);
    definition_.columns.push_back(std::move(column));
  }

 private:
  void place(ColumnDefinition& column) {
    switch (column.kind) {
      case ColumnKind::kRowId:
        definition_.rowid_column = static_cast<int>(definition_.columns.size());
        break;
      case ColumnKind::kVector: column.slot = vectors_++; break;
      case ColumnKind::kAux: column.slot = aux_++; break;
      case ColumnKind::kTextKey:
      case ColumnKind::kSparse:
      case ColumnKind::kPlain:
      case ColumnKind::kPartition: column.slot = plains_++; break;
    }
  }

  TableDefinition& definition_;
  const Life life_;
  int vectors_ = 0, plains_ = 0, aux_ = 0;
  bool has_key_ = false;
};

// Every vector column has codes to keep, and an index that asks for nothing else.
void check_codes_only(const TableDefinition& definition) {
  bool any = false;
  for (const ColumnDefinition& column : definition.columns) {
    if (column.kind != ColumnKind::kVector) continue;
    any = true;
    const std::string place = definition.table + "." + column.name + ": ";
    if (!index::codes_suffice(column.index.kind)) {
      throw Error(ErrorKind::kInvalid, place + "store=codes needs index=" +
                                           index::kinds_with_codes() +
                                           ", but the column has index=" + column.index.kind);
    }
    try {
      index::make_index(column.index, {column.element, column.dim, column.distance, true});
    } catch (const Error& error) {
      throw Error(error.kind(), place + error.what());
    }
  }
  if (any) return;
  throw Error(ErrorKind::kInvalid,
              definition.table + ": store=codes needs a vector column with index=" +
                  index::kinds_with_codes());
}

// Checks that the definition has only what goes with rows that are another table's.
void check_content(const TableDefinition& definition) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kInvalid, definition.table + ": " + why);
  };
  const ContentOptions& content = definition.content;
  if (!definition.has_content()) {
    if (!content.rowid.empty()) refuse("content_rowid= needs content=, which names a table");
    if (!content.triggers) refuse("sync= needs content=, which names a table");
    return;
  }
  if (definition.codes_only) {
    refuse("store=codes has no use with content=: the vectors are those of " + content.table +
           ", and the file gets nothing but their codes as it is");
  }
  for (const ColumnDefinition& column : definition.columns) {
    if (column.kind != ColumnKind::kTextKey) continue;
    refuse("column " + column.name + " cannot be a TEXT PRIMARY KEY with content=: its rows are "
           "known by the rowid of " + content.table);
  }
}

void show_key_first(TableDefinition& definition) {
  std::vector<ColumnDefinition>& columns = definition.columns;
  const auto key = std::find_if(columns.begin(), columns.end(), [](const ColumnDefinition& column) {
    return column.kind == ColumnKind::kRowId || column.kind == ColumnKind::kTextKey;
  });
  if (key != columns.end()) {
    std::rotate(columns.begin(), key, key + 1);
  } else if (!definition.has_content() && definition.find("rowid") == nullptr) {
    ColumnDefinition rowid;
    rowid.name = "rowid";
    rowid.kind = ColumnKind::kRowId;
    rowid.declared = "INTEGER";
    columns.insert(columns.begin(), std::move(rowid));
  }
  definition.rowid_column = columns.front().kind == ColumnKind::kRowId ? 0 : -1;
}

}  // namespace

// A TEXT PRIMARY KEY is not declared as one: PRAGMA integrity_check would look for its index in the
// file, and find none.
std::string TableDefinition::declaration() const {
  std::string sql = "CREATE TABLE x(";
  for (const ColumnDefinition& column : columns) {
    sql += quoted_name(column.name) + ' ' + column.declared;
    if (column.kind == ColumnKind::kRowId) sql += " PRIMARY KEY";
    sql += ", ";
  }
  for (const HiddenColumn column : {kDistance, kK, kNprobe, kRecall, kMatches}) {
    sql += hidden_name(column) + ' ' + std::string(kHiddenNames[column].type) + " HIDDEN, ";
  }
  return sql + quoted_name(hidden_name(kCommand)) + " HIDDEN)";
}

// A table from before a hidden column may have its name, or a column that has: then that one is
// found under a longer name.
std::string TableDefinition::hidden_name(HiddenColumn column) const {
  if (column == kCommand) return find(table) == nullptr ? table : "warp";
  std::string name(kHiddenNames[column].name);
  while (find(name) != nullptr || name == ascii_lower(table)) name = "warp_" + name;
  return name;
}

engine::TableOptions TableDefinition::options() const {
  engine::TableOptions options;
  Layout& layout = options.layout;
  for (const ColumnDefinition& column : columns) {
    switch (column.kind) {
      case ColumnKind::kRowId: options.rowid_name = column.name; break;
      case ColumnKind::kVector:
        layout.vectors.push_back({column.element, column.dim});
        options.vectors.push_back({column.name, column.distance, column.index});
        break;
      case ColumnKind::kAux: layout.aux += has_content() ? 0 : 1; break;
      case ColumnKind::kTextKey: layout.text_key = column.slot; [[fallthrough]];
      case ColumnKind::kSparse:
      case ColumnKind::kPlain:
      case ColumnKind::kPartition:
        if (column.kind == ColumnKind::kPartition) layout.partitions.push_back(column.slot);
        layout.plains.push_back(column.plain);
        layout.sparse_dims.push_back(column.kind == ColumnKind::kSparse ? column.dim : 0);
        layout.match.push_back(column.index.kind == "match");
        options.plain_names.push_back(column.name);
        break;
    }
  }
  layout.codes_only = codes_only;
  layout.content = has_content();
  layout.segment_rows = default_segment_rows(layout);
  return options;
}

const ColumnDefinition* TableDefinition::find(std::string_view name) const {
  const std::string lower = ascii_lower(name);
  for (const ColumnDefinition& column : columns) {
    if (ascii_lower(column.name) == lower) return &column;
  }
  return nullptr;
}

const ColumnDefinition& TableDefinition::vector_column(std::string_view name,
                                                       std::string_view function,
                                                       VectorColumns taken) const {
  const auto takes = [&](const ColumnDefinition& column) {
    return taken == VectorColumns::kAll ? column.is_vector() : column.kind == ColumnKind::kVector;
  };
  const ColumnDefinition* column = find(name);
  if (column != nullptr && takes(*column)) return *column;
  const auto name_of = [](const ColumnDefinition& other) -> std::string_view { return other.name; };
  const std::string known = listing(columns, takes, name_of, ", ");
  const char* what = column == nullptr      ? "no column"
                     : column->is_vector() ? "a SPARSE column, which it does not take"
                                           : "not a vector column";
  throw Error(ErrorKind::kInvalid, std::string(function) + ": " + table + "." + std::string(name) +
                                       " is " + what + "; vector columns of " + table + ": " +
                                       (known.empty() ? "none" : known));
}

void check_table_name(const TableDefinition& definition, const std::string& table, Life life) {
  const std::string lower = ascii_lower(table);
  if (is_hidden(lower, life)) {
    throw Error(ErrorKind::kInvalid, "a warp table cannot be named " + lower +
                                         ", which is a hidden column of every warp table");
  }
  if (definition.find(table) != nullptr && definition.module == ModuleName::kWarp) {
    throw Error(ErrorKind::kInvalid, definition.table + ": a warp table cannot be named " + table +
                                         " because it has a column of that name");
  }
}

TableDefinition parse_definition(const std::string& schema, const std::string& table,
                                 const std::vector<std::string>& arguments, ModuleName module,
                                 Life life) {
  TableDefinition definition;
  definition.schema = schema;
  definition.table = table;
  definition.module = module;
  check_table_name(definition, table, life);
  TableBuilder builder(definition, life);
  std::set<std::string> options;
  for (const std::string& argument : arguments) {
    ArgumentParser parser(table, argument);
    if (parser.is_table_option()) {
      parser.table_option(definition);
      const std::string option = parser.table_option_name();
      if (!options.insert(option).second) parser.fail(option + "= is given twice");
    } else {
      builder.add(parser.column(), parser);
    }
  }
  if (definition.columns.empty()) {
    throw Error(ErrorKind::kInvalid,
                table + ": expected at least one column, as warp(embedding FLOAT[768])");
  }
  if (module == ModuleName::kVec0) show_key_first(definition);
  check_content(definition);
  if (definition.codes_only) check_codes_only(definition);
  return definition;
}

}  // namespace warplite::sql
