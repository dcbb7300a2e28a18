// The C boundary: nothing thrown ever reaches SQLite, and every message that does is UTF-8, whatever
// a value, a name or a file brought into it.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "core/error.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// The SQLite result code for an error: CONSTRAINT, CORRUPT_VTAB, NOMEM, INTERRUPT,
// READONLY, the host's own code, or ERROR.
int result_code(const Error& error);

inline constexpr std::size_t kMostMessage = 2000;  // bytes of an error's message

// Replaces *slot (a message SQLite frees with sqlite3_free) by the message, made printable and cut.
void set_message(char** slot, std::string_view message, std::size_t most = kMostMessage);
// Makes it the result of a scalar function, which is an error.
void result_message(sqlite3_context* context, std::string_view message);

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
    // The message and the code are set in this order: the code alone would bring SQLite's own text.
    result_message(context, error.what());
    sqlite3_result_error_code(context, result_code(error));
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  } catch (const std::exception& error) {
    result_message(context, error.what());
  } catch (...) {
    result_message(context, "unknown error");
  }
}

}  // namespace warplite::sql
