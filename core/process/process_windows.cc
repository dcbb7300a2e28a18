// Nothing is forked there, and no signal comes.
#if defined(_WIN32)
#include "core/process/process.h"

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

namespace warplite {

SignalsBlocked::SignalsBlocked() = default;
SignalsBlocked::~SignalsBlocked() = default;

bool on_main_thread() { return false; }
long process_id() { return static_cast<long>(GetCurrentProcessId()); }
bool threads_reach_exit() { return false; }
unsigned forks() { return 0; }
void lock_across_forks(std::mutex&) {}

}  // namespace warplite
#endif
