// Notices an input that takes too long: prints where every thread stands, and aborts.
// Threads: one of its own. step() from one thread at a time.
#pragma once

namespace warplite::fuzzing {

// Begins to watch; `seconds` is what one step may take.
void watch(int seconds);
// A new input begins.
void step() noexcept;

}  // namespace warplite::fuzzing
