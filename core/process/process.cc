#if !defined(_WIN32)
#include "core/process/process.h"

#include <atomic>
#include <vector>

#include <pthread.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

namespace warplite {
namespace {

std::atomic<unsigned> fork_count{0};

// Its own mutex is the first that a fork takes, so that the list stays as it is until the end.
struct Guarded {
  std::mutex mutex;
  std::vector<std::mutex*> list;
};

Guarded& guarded() {
  static Guarded& all = *new Guarded;  // used by children that are forked while the process ends
  return all;
}

void lock_all() {
  guarded().mutex.lock();
  for (std::mutex* mutex : guarded().list) mutex->lock();
}

void unlock_all() {
  for (std::mutex* mutex : guarded().list) mutex->unlock();
  guarded().mutex.unlock();
}

void unlock_in_child() {
  ++fork_count;
  unlock_all();
}

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool on_main_thread() {
#if defined(__linux__)
  return syscall(SYS_gettid) == getpid();
#else
  return pthread_main_np() != 0;
#endif
}

long process_id() { return static_cast<long>(getpid()); }

bool threads_reach_exit() { return true; }

unsigned forks() { return fork_count; }

void lock_across_forks(std::mutex& mutex) {
  static const int registered = pthread_atfork(lock_all, unlock_all, unlock_in_child);
  static_cast<void>(registered);
  const std::lock_guard lock(guarded().mutex);
  guarded().list.push_back(&mutex);
}

}  // namespace warplite
#endif
