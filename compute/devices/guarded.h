// Exceptions end here: a device reports errors as Status values, since it may live in a plug-in or
// run on a thread of its own.
#pragma once

#include <exception>
#include <new>
#include <type_traits>

#include "core/error.h"

namespace warplite::compute {

// Returns a status, without its message if there is no memory for one.
inline Status failed(ErrorKind kind, const char* message) noexcept {
  try {
    return {kind, message};
  } catch (...) {
    return {kind, {}};
  }
}

// Runs `body`, which returns a Status or nothing, and turns what it throws into a Status.
template <typename Body>
Status guarded(const Body& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return {};
    } else {
      return body();
    }
  } catch (const Error& error) {
    return failed(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(ErrorKind::kNoMemory, "out of memory");
  } catch (const std::exception& error) {
    return failed(ErrorKind::kDevice, error.what());
  }
}

}  // namespace warplite::compute
