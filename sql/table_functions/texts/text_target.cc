#include "sql/table_functions/texts/text_target.h"

#include <string>

namespace warplite::sql {

engine::TextRequest TextTarget::request(const std::string& device,
                                        compute::Cancellation& cancellation) const {
  return {static_cast<std::size_t>(column->slot), column->text, device, &cancellation};
}

TextTarget text_target(Call& call, int table_parameter, int column_parameter,
                       index::TextIndex::Kind kind) {
  const std::string wanted = kind == index::TextIndex::Kind::kWords ? "words" : "ngram";
  TextTarget target{call.table(table_parameter), nullptr};
  const TableDefinition& definition = target.table->definition;
  const std::string name =
      call.text(column_parameter, ("the name of a TEXT column with index=" + wanted).c_str());
  target.column = definition.find(name);
  if (target.column != nullptr && target.column->text.kind == kind) return target;
  std::string known;
  for (const ColumnDefinition& column : definition.columns) {
    if (column.text.kind == kind) known += (known.empty() ? "" : ", ") + column.name;
  }
  throw Error(ErrorKind::kInvalid,
              std::string(call.function()) + ": " + definition.table + "." + name + " is " +
                  (target.column == nullptr ? "no column" : "no TEXT column with index=" + wanted) +
                  "; such columns of " + definition.table + ": " +
                  (known.empty() ? "none" : known));
}

std::string query_text(const Call& call, int parameter) {
  sqlite3_value* const value = call.value(parameter);
  if (sqlite3_value_type(value) != SQLITE_TEXT) call.refuse(parameter, "a text");
  return std::string(cell_of(value).bytes);
}

}  // namespace warplite::sql
