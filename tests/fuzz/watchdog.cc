#include "tests/fuzz/watchdog.h"

#include <dirent.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace warplite::fuzzing {
namespace {

std::atomic<long> steps{0};

void print_stack(int) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
  if (write(STDERR_FILENO, "--\n", 3) < 0) _exit(2);
}

// One thread after another, so that their lines do not mix.
void print_stacks() {
  std::signal(SIGUSR2, print_stack);
  DIR* threads = opendir("/proc/self/task");
  if (threads == nullptr) return;
  const long self = syscall(SYS_gettid);
  while (const dirent* entry = readdir(threads)) {
    const long thread = std::atol(entry->d_name);
    if (thread == 0 || thread == self) continue;
    syscall(SYS_tgkill, getpid(), thread, SIGUSR2);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  closedir(threads);
}

void run(int seconds) {
  long seen = -1;
  for (int waited = 0; waited < seconds; ++waited) {
    const long now = steps.load();
    if (now != seen) waited = 0;
    seen = now;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  std::fprintf(stderr, "an input takes more than %d s\n", seconds);
  print_stacks();
  std::abort();
}

}  // namespace

void watch(int seconds) {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs now, not in a signal handler
  std::thread(run, seconds).detach();
}

void step() noexcept {
  ++steps;
}

}  // namespace warplite::fuzzing
