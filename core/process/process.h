// Threads of our own owe this to the process they live in: its signals are not theirs, and a child
// of fork() has their memory but not them. (Windows has neither signals nor forks, but ends threads
// before it unloads what they run.)
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#if !defined(_WIN32)
#include <signal.h>
#endif

namespace warplite {

// While it lives, threads that are started leave the host's signals alone.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

#if !defined(_WIN32)
 private:
  sigset_t before_;
#endif
};

// Says whether this is the thread that the process, or the child of a fork, began with.
bool on_main_thread();

// A number that nothing else in this process has, before or after; not 0. Keys of what is kept are made of it, so that
// what was made for one state is not mistaken for another's.
inline std::uint64_t new_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Names the process: a child of a fork has another number.
long process_id();

// Whether threads that were started are still there when what this library registered for the end of
// the process is run. Where not, joining or waking them would wait for ever.
bool threads_reach_exit();

// Returns how many times a child was forked between the process that loaded this code and this one.
// Counted from the first call of lock_across_forks().
unsigned forks();

// A child is forked only while nobody holds `mutex`, so that it is free there too. For mutexes
// that live as long as the process and are never held while another such one is taken.
void lock_across_forks(std::mutex& mutex);

}  // namespace warplite
