// Functions as SQLite may call them. Whatever SQLite is given to call later (methods of modules, functions,
// destructors) is entry<f>() and not f: it makes the calls of f go to the library that called it,
// which is known by the pointer alone, since each library is given another one.
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "storage/sqlite_api.h"

namespace warplite::sql {

template <int library, auto function>
struct Entry;

template <int library, typename Result, typename... Arguments, Result (*function)(Arguments...)>
struct Entry<library, function> {
  static Result call(Arguments... arguments) {
    const host::Scope scope(host::library(library));
    return function(arguments...);
  }
};

// Returns the entry for the library of this number.
template <auto function>
auto entry(int library) {
  constexpr auto kEntries = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array{&Entry<i, function>::call...};
  }(std::make_integer_sequence<int, host::kMostLibraries>());
  return kEntries[static_cast<std::size_t>(library)];
}

// REQUIRES: called by SQLite, as everything below.
template <auto function>
auto entry() {
  return entry<function>(host::current_library());
}

// A module whose methods are entries: one for each library, as Make(library) makes them, once.
template <auto make>
const auto* library_module() {
  static const auto kModules = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array{make(i)...};
  }(std::make_integer_sequence<int, host::kMostLibraries>());
  return &kModules[static_cast<std::size_t>(host::current_library())];
}

template <typename Data>
void destroy(void* data) {
  delete static_cast<Data*>(data);
}

// `data` is deleted with the module, also when this fails.
template <typename Data>
int create_module(sqlite3* db, const char* name, const sqlite3_module* module, Data* data) {
  return sqlite3_api->create_module_v2(db, name, module, data, entry<destroy<Data>>());
}
// `data` is another module's of the connection.
inline int create_alias(sqlite3* db, const char* name, const sqlite3_module* module, void* data) {
  return sqlite3_api->create_module_v2(db, name, module, data, nullptr);
}

// `data` outlives the connection. It takes the place of a function that has the name, as whatever is
// loaded last does; while a statement runs, as during SELECT load_extension(), SQLite keeps the one
// there is (its own match(), or another extension's), which is no failure.
template <void (*function)(sqlite3_context*, int, sqlite3_value**)>
int create_function(sqlite3* db, const char* name, int arguments, int flags, void* data) {
  const int code =
      sqlite3_api->create_function_v2(db, name, arguments, SQLITE_UTF8 | flags, data,
                                      entry<function>(), nullptr, nullptr, nullptr);
  return code == SQLITE_BUSY ? SQLITE_OK : code;
}

// Has SQLite keep `data` for the calls that follow of the same place in a statement, as long as the argument is a
// constant there: sqlite3_get_auxdata() has it then. Returns it, as long as the call lasts, or null where SQLite has
// no memory for that.
template <typename Data>
Data* keep_with_argument(sqlite3_context* context, int argument, std::unique_ptr<Data> data) {
  sqlite3_api->set_auxdata(context, argument, data.release(), entry<destroy<Data>>());
  return static_cast<Data*>(sqlite3_get_auxdata(context, argument));
}

// The same for a function of the rows of a group.
template <void (*step)(sqlite3_context*, int, sqlite3_value**), void (*final)(sqlite3_context*)>
int create_aggregate(sqlite3* db, const char* name, int arguments, int flags) {
  const int code =
      sqlite3_api->create_function_v2(db, name, arguments, SQLITE_UTF8 | flags, nullptr, nullptr,
                                      entry<step>(), entry<final>(), nullptr);
  return code == SQLITE_BUSY ? SQLITE_OK : code;
}

}  // namespace warplite::sql
