// Errors: one exception type inside, translated once at the C boundary
// (sql/host/guard.h). A Device reports errors as Status values instead, because it
// may live in a plug-in; raise() turns them into exceptions.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace warplite {

enum class ErrorKind {
  kOk = 0,       // only in a Status
  kInvalid,      // the caller's statement or value is wrong
  kConstraint,   // uniqueness, NOT NULL, a datatype: the conflict clause applies
  kCorrupt,      // a shadow table does not hold what was written
  kNoMemory,     // an allocation failed, on the host or on a device
  kLimit,        // larger than this build or device can do
  kReadOnly,
  kInterrupted,  // sqlite3_interrupt()
  kUnsupported,  // this build, device or index kind does not do that
  kDevice,       // a device failed or was lost
  kHost,         // SQLite returned an error; host_code() has it
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  // `host_code` is a SQLite result code, passed on unchanged (BUSY, FULL, IOERR…).
  Error(ErrorKind kind, int host_code, std::string message)
      : kind_(kind), host_code_(host_code), message_(std::move(message)) {}

  ErrorKind kind() const { return kind_; }
  int host_code() const { return host_code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  int host_code_ = 0;
  std::string message_;
};

// The outcome of a device operation. `if (!status.ok()) …`
struct [[nodiscard]] Status {
  ErrorKind kind = ErrorKind::kOk;
  std::string message;

  bool ok() const { return kind == ErrorKind::kOk; }
  void raise() const {
    if (!ok()) throw Error(kind, message);
  }
};

// Reports programmer errors only; bad input is an Error.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace warplite

#define WARP_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::warplite::check_failed(#expression, __FILE__, __LINE__))
#ifdef NDEBUG
#define WARP_DCHECK(expression) static_cast<void>(0)
#else
#define WARP_DCHECK(expression) WARP_CHECK(expression)
#endif
