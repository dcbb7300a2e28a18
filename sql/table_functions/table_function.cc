#include "sql/table_functions/table_function.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/host/parallel.h"
#include "core/process/interruption.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"
#include "sql/host/shared_blob.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

struct Module {
  const TableFunction* function;
  Context* context;
};

struct Table : sqlite3_vtab {
  explicit Table(const Module& of) : sqlite3_vtab{}, module(of) {}
  Module module;
};

struct FreeValue {
  void operator()(sqlite3_value* value) const { sqlite3_value_free(value); }
};

bool same_value(sqlite3_value* a, sqlite3_value* b) {
  if (sqlite3_value_type(a) != sqlite3_value_type(b) ||
      sqlite3_value_subtype(a) != sqlite3_value_subtype(b)) {
    return false;
  }
  const Cell x = cell_of(a);
  const Cell y = cell_of(b);
  switch (x.kind) {
    case CellKind::kNull: return true;
    case CellKind::kInteger: return x.integer == y.integer;
    case CellKind::kReal: return x.real == y.real;
    default: return x.bytes == y.bytes;
  }
}

// An argument as long as its cursor shows it: SQLite's copy, or of a large BLOB, which many queries
// are, one that several threads make.
class Argument {
 public:
  explicit Argument(sqlite3_value* value) {
    if (value == nullptr) return;
    constexpr std::size_t kLarge = std::size_t{1} << 20;
    const bool blob = sqlite3_value_type(value) == SQLITE_BLOB;
    if (blob && cell_of(value).bytes.size() >= kLarge) {
      copy_large(value);
      return;
    }
    copy_.reset(sqlite3_value_dup(value));
    if (copy_ == nullptr) throw std::bad_alloc();
  }

  bool is(sqlite3_value* value) const {
    if (value == nullptr) return copy_ == nullptr && large_ == nullptr;
    if (large_ == nullptr) return copy_ != nullptr && same_value(copy_.get(), value);
    return sqlite3_value_type(value) == SQLITE_BLOB && sqlite3_value_subtype(value) == subtype_ &&
           cell_of(value).bytes == large_->bytes();
  }

  // What is not given is NULL.
  void result(sqlite3_context* context) const {
    if (copy_ != nullptr) sqlite3_result_value(context, copy_.get());
    if (large_ == nullptr) return;
    large_->result(context);
    if (subtype_ != 0) sqlite3_result_subtype(context, subtype_);
  }

 private:
  void copy_large(sqlite3_value* value) {
    constexpr std::size_t kBytesPerThread = std::size_t{1} << 18;
    const std::string_view bytes = cell_of(value).bytes;
    large_ = std::make_unique<SharedBlob>(bytes.size());
    subtype_ = sqlite3_value_subtype(value);
    const std::span<char> to = large_->as<char>();
    compute::in_parallel(to.size(), kBytesPerThread, to.size() / kBytesPerThread,
                         [&](std::size_t first, std::size_t last) {
                           std::copy(bytes.begin() + first, bytes.begin() + last,
                                     to.begin() + first);
                         });
  }

  std::unique_ptr<sqlite3_value, FreeValue> copy_;
  std::unique_ptr<SharedBlob> large_;
  unsigned subtype_ = 0;
};

struct Cursor : sqlite3_vtab_cursor {
  explicit Cursor(sqlite3* db) : sqlite3_vtab_cursor{}, interrupt(db) {}
  Interrupt interrupt;
  CallCache cache;
  std::vector<Argument> arguments;  // per parameter
  std::unique_ptr<Rows> rows;
  sqlite3_int64 position = 0;
  int visible = 0;  // columns
  bool at_row = false;

  const TableFunction& function() const {
    return *static_cast<const Table*>(pVtab)->module.function;
  }
};

Cursor& cursor_of(sqlite3_vtab_cursor* cursor) { return *static_cast<Cursor*>(cursor); }

std::string signature(const TableFunction& function) {
  std::string text = std::string(function.name) + "(";
  if (function.usage != nullptr) return text + function.usage + ")";
  std::string closing = ")";
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    const char* comma = i == 0 ? "" : ", ";
    text += parameter.required ? std::string(comma) : " [" + std::string(comma);
    text += parameter.name;
    if (!parameter.required) closing.insert(0, "]");
  }
  return text + closing;
}

int connect(sqlite3* db, void* aux, int, const char* const*, sqlite3_vtab** out, char** message) {
  return guarded(message, [&] {
    const Module& module = *static_cast<const Module*>(aux);
    std::string declaration = "CREATE TABLE x(" + std::string(module.function->columns);
    for (const Parameter& parameter : module.function->parameters) {
      const char* name = parameter.hidden != nullptr ? parameter.hidden : parameter.name;
      declaration += ", " + quoted_name(name) + " HIDDEN";
    }
    int code = sqlite3_declare_vtab(db, (declaration + ")").c_str());
    if (code != SQLITE_OK) return code;
    code = sqlite3_vtab_config(
        db, module.function->direct_only ? SQLITE_VTAB_DIRECTONLY : SQLITE_VTAB_INNOCUOUS);
    if (code == SQLITE_OK) *out = new Table(module);
    return code;
  });
}

int disconnect(sqlite3_vtab* table) {
  delete static_cast<Table*>(table);
  return SQLITE_OK;
}

bool is_ordered(const TableFunction& function, const sqlite3_index_info& info) {
  for (int i = 0; i < info.nOrderBy; ++i) {
    if (info.aOrderBy[i].desc) return false;
  }
  return std::any_of(function.orders.begin(), function.orders.end(), [&](const Order& order) {
    if (static_cast<std::size_t>(info.nOrderBy) > order.size()) return false;
    for (int i = 0; i < info.nOrderBy; ++i) {
      if (info.aOrderBy[i].iColumn != order[static_cast<std::size_t>(i)]) return false;
    }
    return true;
  });
}

// The plan is the set of parameters that are given: bit i of idxNum for parameter i; and above
// these, counted from 1, the first of them that SQLite compares with its hidden column as well: it
// passes over that for its first 16 constraints alone. A NULL equals nothing, so that a NULL there
// would leave no rows.
constexpr int kComparedShift = 24;
constexpr int kConstraintsOmitted = 16;

int best_index(sqlite3_vtab* vtab, sqlite3_index_info* info) {
  const TableFunction& function = *static_cast<Table*>(vtab)->module.function;
  int arguments = 0;
  std::size_t compared = 0;
  bool complete = true;
  for (std::size_t p = 0; p < function.parameters.size(); ++p) {
    const int column = function.column_count + static_cast<int>(p);
    int given = -1;
    bool pending = false;
    for (int i = info->nConstraint - 1; i >= 0; --i) {
      const auto& constraint = info->aConstraint[i];
      if (constraint.iColumn != column || constraint.op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
      if (constraint.usable) {
        given = i;
      } else {
        pending = true;
      }
    }
    if (given >= 0) {
      info->aConstraintUsage[given].argvIndex = ++arguments;
      info->aConstraintUsage[given].omit = 1;
      info->idxNum |= 1 << p;
      const bool omitted = given < kConstraintsOmitted && arguments <= kConstraintsOmitted;
      if (!omitted && compared == 0) compared = p + 1;
    } else if (pending) {
      return SQLITE_CONSTRAINT;  // its value comes from a table further right
    } else if (function.parameters[p].required) {
      complete = false;
    }
  }
  info->idxNum |= static_cast<int>(compared) << kComparedShift;
  // Branches of an OR are offered without the arguments. Nobody chooses this plan
  // unless there is no other; then filter() says what is missing.
  info->estimatedCost = complete ? 1000 + function.estimated_rows : 1e98;
  info->estimatedRows = static_cast<sqlite3_int64>(function.estimated_rows);
  info->orderByConsumed = info->nOrderBy > 0 && is_ordered(function, *info);
  return SQLITE_OK;
}

int open(sqlite3_vtab* vtab, sqlite3_vtab_cursor** out) {
  return guarded(vtab, [&] {
    *out = new Cursor(static_cast<Table*>(vtab)->module.context->db());
    return SQLITE_OK;
  });
}

int close(sqlite3_vtab_cursor* cursor) {
  delete &cursor_of(cursor);
  return SQLITE_OK;
}

int next(sqlite3_vtab_cursor* base) {
  Cursor& cursor = cursor_of(base);
  return guarded(base->pVtab, [&] {
    const Interruptible scope(&cursor.interrupt);
    cursor.at_row = cursor.rows != nullptr && cursor.rows->next();
    ++cursor.position;
    return SQLITE_OK;
  });
}

// A join may ask again with the same arguments, for every row of another table.
bool is_repeated(const Cursor& cursor, const std::vector<sqlite3_value*>& values) {
  if (cursor.arguments.size() != values.size()) return false;
  for (std::size_t p = 0; p < values.size(); ++p) {
    if (!cursor.arguments[p].is(values[p])) return false;
  }
  return true;
}

// Returns a value for each parameter, null for one that is not given.
std::vector<sqlite3_value*> given_values(const TableFunction& function, int given,
                                         sqlite3_value** argv) {
  std::vector<sqlite3_value*> values;
  const auto compared = static_cast<std::size_t>(given >> kComparedShift);
  for (std::size_t p = 0; p < function.parameters.size(); ++p) {
    const bool present = (given >> p & 1) != 0;
    if (!present && function.parameters[p].required) {
      throw Error(ErrorKind::kInvalid, std::string(function.name) + ": argument " +
                                           function.parameters[p].name + " is missing; expected " +
                                           signature(function));
    }
    values.push_back(present ? *argv++ : nullptr);
    if (present && compared != 0 && p + 1 >= compared &&
        sqlite3_value_type(values.back()) == SQLITE_NULL) {
      throw Error(ErrorKind::kInvalid,
                  std::string(function.name) + ": " + function.parameters[p].name +
                      ": expected a value that is not NULL after " +
                      std::to_string(kConstraintsOmitted) + " arguments and conditions");
    }
  }
  return values;
}

int filter(sqlite3_vtab_cursor* base, int given, const char*, int, sqlite3_value** argv) {
  Cursor& cursor = cursor_of(base);
  const int code = guarded(base->pVtab, [&] {
    const Interruptible scope(&cursor.interrupt);
    const TableFunction& function = cursor.function();
    std::vector<sqlite3_value*> values = given_values(function, given, argv);
    cursor.visible = function.column_count;
    cursor.at_row = false;
    if (cursor.rows != nullptr && is_repeated(cursor, values) && cursor.rows->rewind()) {
      return SQLITE_OK;
    }
    cursor.rows.reset();
    cursor.arguments.clear();
    for (sqlite3_value* value : values) cursor.arguments.emplace_back(value);
    Call call(*static_cast<Table*>(base->pVtab)->module.context, function, cursor.cache,
              std::move(values));
    cursor.rows = function.run(call);
    return SQLITE_OK;
  });
  if (code != SQLITE_OK) return code;
  const int moved = next(base);
  cursor.position = 0;
  return moved;
}

int eof(sqlite3_vtab_cursor* cursor) { return !cursor_of(cursor).at_row; }

int column(sqlite3_vtab_cursor* base, sqlite3_context* context, int column) {
  const Cursor& cursor = cursor_of(base);
  return guarded(base->pVtab, [&] {
    if (column < cursor.visible) {
      cursor.rows->column(context, column);
    } else {
      cursor.arguments[static_cast<std::size_t>(column - cursor.visible)].result(context);
    }
    return SQLITE_OK;
  });
}

int rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* out) {
  *out = cursor_of(cursor).position;
  return SQLITE_OK;
}

// A module without xCreate is usable by its name alone, and only so.
sqlite3_module make_methods(int library) {
  sqlite3_module methods{};
  methods.xConnect = entry<connect>(library);
  methods.xBestIndex = entry<best_index>(library);
  methods.xDisconnect = entry<disconnect>(library);
  methods.xOpen = entry<open>(library);
  methods.xClose = entry<close>(library);
  methods.xFilter = entry<filter>(library);
  methods.xNext = entry<next>(library);
  methods.xEof = entry<eof>(library);
  methods.xColumn = entry<column>(library);
  methods.xRowid = entry<rowid>(library);
  return methods;
}

}  // namespace

bool Call::is_null(int parameter) const {
  return value(parameter) == nullptr || sqlite3_value_type(value(parameter)) == SQLITE_NULL;
}

void Call::refuse(int parameter, const std::string& expected, const std::string& why) const {
  const Cell came = value(parameter) == nullptr ? Cell::null() : cell_of(value(parameter));
  throw Error(ErrorKind::kInvalid,
              std::string(function_.name) + ": " + this->parameter(parameter) + ": expected " +
                  expected + ", got " + describe(came) + (why.empty() ? "" : " (" + why + ")"));
}

std::string Call::text(int parameter, const char* expected) const {
  if (is_null(parameter) || sqlite3_value_type(value(parameter)) != SQLITE_TEXT) {
    refuse(parameter, expected);
  }
  return std::string(cell_of(value(parameter)).bytes);
}

std::int64_t Call::count(int parameter) const {
  return count(parameter, 0, std::numeric_limits<std::int64_t>::max(), "an integer, 0 or more");
}

std::int64_t Call::count(int parameter, std::int64_t low, std::int64_t high) const {
  return count(parameter, low, high,
               "an integer from " + std::to_string(low) + " to " + std::to_string(high));
}

std::int64_t Call::count(int parameter, std::int64_t low, std::int64_t high,
                         const std::string& expected) const {
  constexpr double kEnd = 9223372036854775808.0;
  if (is_null(parameter)) refuse(parameter, expected);
  const Value number = compare_operand(value(parameter), PlainType::kInteger);
  const Cell cell = number.cell();
  std::int64_t count = -1;
  if (cell.kind == CellKind::kInteger) count = cell.integer;
  if (cell.kind == CellKind::kReal && cell.real >= 0 && cell.real < kEnd &&
      cell.real == std::floor(cell.real)) {
    count = static_cast<std::int64_t>(cell.real);
  }
  if (count < 0 || count < low || count > high) refuse(parameter, expected);
  return count;
}

double Call::real(int parameter) const {
  if (is_null(parameter)) refuse(parameter, "a number");
  const Value number = compare_operand(value(parameter), PlainType::kReal);
  if (number.kind() == CellKind::kInteger) return static_cast<double>(number.cell().integer);
  if (number.kind() != CellKind::kReal) refuse(parameter, "a number");
  return number.cell().real;
}

const std::shared_ptr<OpenTable>& Call::table(int parameter) {
  const std::string name = text(parameter, "the name of a warp table");
  if (cache_.table == nullptr || cache_.name != name) {
    cache_.table = context_.find(name);
    cache_.name = name;
  }
  return cache_.table;
}

int register_table_function(sqlite3* db, const TableFunction& function, Context* context) {
  auto* module = new (std::nothrow) Module{&function, context};
  if (module == nullptr) return SQLITE_NOMEM;
  return create_module(db, function.name, library_module<make_methods>(), module);
}

}  // namespace warplite::sql
