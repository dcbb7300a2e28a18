// Work that only this thread may do, as what needs the host's connection, beside a search whose rows the
// threads of a device share: this thread begins with it, the others with the rows. Nobody has to hand it
// to the search, which lies deep below. A search that shares nothing leaves it undone.
// Threads: each has its own.
#pragma once

#include <exception>
#include <functional>

namespace warplite::compute {

class Meanwhile {
 public:
  // Pending as long as it lives and is not done; the innermost one counts.
  explicit Meanwhile(std::function<void()> work);
  ~Meanwhile();
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

  // Does the work, unless that has begun, and throws what it has thrown, if it has.
  void finish();
  bool failed() const { return failure_ != nullptr; }

  // Says whether this thread has work that is not done.
  static bool is_pending();
  // Does that; throws what it throws.
  static void run_pending();

 private:
  const std::function<void()> work_;
  Meanwhile* const outer_;
  bool begun_ = false;
  std::exception_ptr failure_;
};

}  // namespace warplite::compute
