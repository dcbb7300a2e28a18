// The frame of a table-valued function: an eponymous virtual table whose hidden
// columns are the arguments. A function declares its columns and parameters and
// turns a Call into Rows; planning, cursors and errors are done here, once.
// Threads: as the connection. Ownership: a cursor owns the Rows of its last call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/value.h"
#include "sql/definition/values.h"
#include "sql/table/context.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

class Call;

// The rows of one call, in the order in which they are returned.
class Rows {
 public:
  virtual ~Rows() = default;
  // Goes to the first, then to the next row. False: there is none.
  virtual bool next() = 0;
  // Goes back before the first row. False: the call must be made again.
  virtual bool rewind() { return false; }
  // Sets the value of a visible column of the current row.
  virtual void column(sqlite3_context* context, int column) const = 0;
};

struct Parameter {
  const char* name;
  bool required = true;
  const char* hidden = nullptr;  // its hidden column's name, where a visible one has its own
};

// ORDER BY lists that the rows obey as they come: visible columns, ascending.
// A query's list is satisfied when it is the beginning of one of them.
using Order = std::vector<int>;

struct TableFunction {
  const char* name;
  const char* columns;  // the visible ones, as in CREATE TABLE
  int column_count;
  std::vector<Parameter> parameters;  // the required ones first
  // Null: no rows.
  std::unique_ptr<Rows> (*run)(Call& call);
  std::vector<Order> orders = {};
  double estimated_rows = 100;
  bool direct_only = false;  // not from views, triggers or other schema text
  const char* usage = nullptr;  // its arguments as messages show them, where the list would be long
};

// A CallCache is what a cursor keeps from call to call of one statement: in a join a function is
// called once a row, mostly on the same table.
struct CallCache {
  std::string name;
  std::shared_ptr<OpenTable> table;
};

// The arguments of one call, checked as they are read. Valid while run() is.
class Call {
 public:
  Call(Context& context, const TableFunction& function, CallCache& cache,
       std::vector<sqlite3_value*> arguments)
      : context_(context), function_(function), cache_(cache), arguments_(std::move(arguments)) {}

  Context& context() const { return context_; }
  const char* function() const { return function_.name; }
  bool direct_only() const { return function_.direct_only; }
  const char* parameter(int number) const {
    return function_.parameters[static_cast<std::size_t>(number)].name;
  }

  sqlite3_value* value(int parameter) const {
    return arguments_[static_cast<std::size_t>(parameter)];
  }
  // Has what was given as one parameter count as another, which was not given.
  void move_argument(int from, int to) {
    std::swap(arguments_[static_cast<std::size_t>(from)], arguments_[static_cast<std::size_t>(to)]);
  }
  // Absent or NULL.
  bool is_null(int parameter) const;
  // Numbers are taken as a column of that type takes them ('10' is 10). Throw Error{kInvalid}
  // "warp_knn_search: k: expected …, got …".
  std::string text(int parameter, const char* expected) const;
  std::int64_t count(int parameter) const;  // an integer ≥ 0
  std::int64_t count(int parameter, std::int64_t low, std::int64_t high) const;
  double real(int parameter) const;
  // The table that a parameter names.
  const std::shared_ptr<OpenTable>& table(int parameter);

  // `why`: more about what came, or empty.
  [[noreturn]] void refuse(int parameter, const std::string& expected,
                           const std::string& why = {}) const;

 private:
  std::int64_t count(int parameter, std::int64_t low, std::int64_t high,
                     const std::string& expected) const;

  Context& context_;
  const TableFunction& function_;
  CallCache& cache_;
  std::vector<sqlite3_value*> arguments_;  // per parameter; null when absent
};

// `function` and `context` outlive the connection's use of the module.
int register_table_function(sqlite3* db, const TableFunction& function, Context* context);

}  // namespace warplite::sql
