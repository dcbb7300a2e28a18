// CREATE VIRTUAL TABLE … USING warp(…), or vec0(…): the columns as written, checked.
// The grammar is a superset of the one of vec0 tables (DESIGN §1.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/collection.h"
#include "index/text/text_index.h"

namespace warplite::sql {

// The name that stands behind USING. vec0, the name of sqlite-vec's module, shows a table's key as its
// first column: the primary key, or one named rowid where none is declared (DESIGN §1.5). With content= the
// key is that of another table, and is shown where it is declared alone.
enum class ModuleName { kWarp, kVec0 };

enum class ColumnKind { kRowId, kTextKey, kVector, kSparse, kPlain, kPartition, kAux };

// Which columns a function takes that searches vectors. kDense: sparse vectors are none.
enum class VectorColumns { kDense, kAll };

struct ColumnDefinition {
  std::string name;
  ColumnKind kind = ColumnKind::kPlain;
  int slot = -1;          // index into Layout::vectors, ::plains (plain, partition, text key, sparse) or of the aux columns
  std::string declared;   // type for sqlite3_declare_vtab: "INTEGER", "TEXT COLLATE nocase", "" …
  ElementType element = ElementType::kFloat32;  // kVector
  std::uint32_t dim = 0;                        // kVector, kSparse
  Distance distance = Distance::kL2;            // kVector, kSparse
  index::Spec index;                            // kVector
  PlainType plain = PlainType::kInteger;        // kPlain, kPartition, kTextKey, kSparse
  index::TextIndex text;                        // of a TEXT column

  // Says whether it is searched by the distance of vectors, dense or sparse.
  bool is_vector() const { return kind == ColumnKind::kVector || kind == ColumnKind::kSparse; }
  // Says whether MATCH on the column finds rows.
  bool searched() const { return is_vector() || text.kind != index::TextIndex::Kind::kNone; }

  // Returns the name of the index that answers MATCH. (index=match serves match counts, and no
  // search by edit distance.)
  const std::string& index_name() const {
    static const std::string kFlat = "flat";
    const bool every_text = text.kind == index::TextIndex::Kind::kEdit && text.metric == nullptr;
    return every_text ? kFlat : index.kind;
  }
};

// Hidden columns follow the declared ones, in this order; then one for commands, named as the table
// itself. (A vec0 table may have a column of its own name; there it is called warp.)
enum HiddenColumn { kDistance, kK, kNprobe, kRecall, kMatches, kCommand, kHiddenCount };

// Says whether a table is being made, or one that is there is being opened. Names that hidden columns
// have got since it was made stay those of its own columns.
enum class Life { kCreate, kConnect };

// content=: the rows are those of another table.
struct ContentOptions {
  std::string table;     // empty: they are not
  std::string rowid;     // content_rowid=, or empty
  bool triggers = true;  // sync=triggers, or manual
};

struct TableDefinition {
  std::string schema;
  std::string table;
  ModuleName module = ModuleName::kWarp;
  std::vector<ColumnDefinition> columns;  // in declared order
  int rowid_column = -1;                  // the INTEGER PRIMARY KEY, or -1
  bool codes_only = false;                // store=codes
  ContentOptions content;

  int hidden(HiddenColumn column) const { return static_cast<int>(columns.size()) + column; }
  // Returns the name under which the hidden column is declared.
  std::string hidden_name(HiddenColumn column) const;
  // Returns the text for sqlite3_declare_vtab.
  std::string declaration() const;
  // Returns the engine's options. With content=, +columns are none of the engine's, and the source
  // is left to the caller.
  engine::TableOptions options() const;
  const ColumnDefinition* find(std::string_view name) const;  // ASCII case-insensitive
  // Throws Error{kInvalid}, for this function, that names the columns it takes.
  const ColumnDefinition& vector_column(std::string_view name, std::string_view function,
                                        VectorColumns taken) const;
  bool has_content() const { return !content.table.empty(); }
};

// `arguments` as xCreate receives them from index 3 on. Throws Error{kInvalid} that quotes the argument and
// says what was expected, Error{kUnsupported} for an index kind that is not available.
TableDefinition parse_definition(const std::string& schema, const std::string& table,
                                 const std::vector<std::string>& arguments,
                                 ModuleName module = ModuleName::kWarp,
                                 Life life = Life::kCreate);

// Throws Error{kInvalid} when a hidden column has that name, or a column of the table, unless its module
// allows that.
void check_table_name(const TableDefinition& definition, const std::string& table,
                      Life life = Life::kCreate);

}  // namespace warplite::sql
