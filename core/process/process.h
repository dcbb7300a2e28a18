// Threads of our own owe this to the process they live in: its signals are not theirs, and a child
// of fork() has their memory but not them.
// Threads: any.
#pragma once

#include <mutex>

#include <signal.h>

namespace warplite {

// While it lives, threads that are started leave the host's signals alone.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Whether this is the thread that the process, or the child of a fork, began with.
bool on_main_thread();

// Returns how many times a child was forked between the process that loaded this code and this one.
// Counted from the first call of lock_across_forks().
unsigned forks();

// A child is forked only while nobody holds `mutex`, so that it is free there too. For mutexes
// that live as long as the process and are never held while another such one is taken.
void lock_across_forks(std::mutex& mutex);

}  // namespace warplite
