// (table, column [, options]) as table-valued functions name the texts they search.
#pragma once

#include <string_view>

#include "engine/text/text_search.h"
#include "sql/table_functions/table_function.h"

namespace warplite::sql {

// A TEXT column of a warp table with an index of the kind.
struct TextTarget {
  std::shared_ptr<OpenTable> table;
  const ColumnDefinition* column;  // of table->definition

  // `device`: "" for the configured one.
  engine::TextRequest request(const std::string& device, compute::Cancellation& cancellation) const;
};

// Throws Error{kInvalid} when there is no such table or column; it names those there are.
TextTarget text_target(Call& call, int table_parameter, int column_parameter,
                       index::TextIndex::Kind kind);

// The text of a query; blobs and numbers are refused. REQUIRES: !call.is_null(parameter)
std::string query_text(const Call& call, int parameter);

}  // namespace warplite::sql
