// The C boundary: nothing thrown ever reaches SQLite.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "core/error.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// The SQLite result code for an error: CONSTRAINT, CORRUPT_VTAB, NOMEM, INTERRUPT,
// READONLY, the host's own code, or ERROR.
int result_code(const Error& error);

// Replaces *slot (a message SQLite frees with sqlite3_free).
void set_message(char** slot, const std::string& message);

// Runs `body` (which returns a result code) for a virtual-table method; an exception becomes
// its code, with the message in vtab->zErrMsg (or *slot).
template <typename Body>
int guarded(char** slot, Body&& body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    try { set_message(slot, error.what()); } catch (...) {}
    return result_code(error);
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  } catch (const std::exception& error) {
    try { set_message(slot, error.what()); } catch (...) {}
    return SQLITE_ERROR;
  } catch (...) {
    return SQLITE_ERROR;
  }
}

template <typename Body>
int guarded(sqlite3_vtab* vtab, Body&& body) noexcept {
  return guarded(&vtab->zErrMsg, static_cast<Body&&>(body));
}

// The same for a scalar function: the error becomes the function's result.
template <typename Body>
void guarded(sqlite3_context* context, Body&& body) noexcept {
  try {
    body();
  } catch (const Error& error) {
    // In this order: the code alone would bring SQLite's own text.
    sqlite3_result_error(context, error.what(), -1);
    sqlite3_result_error_code(context, result_code(error));
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  } catch (const std::exception& error) {
    sqlite3_result_error(context, error.what(), -1);
  } catch (...) {
    sqlite3_result_error(context, "unknown error", -1);
  }
}

}  // namespace warplite::sql
