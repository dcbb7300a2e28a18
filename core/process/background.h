// Work that another thread does while its owner goes on.
// Threads: an object belongs to one thread. Errors: std::system_error where no thread can be
// started.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace warplite {

class Background {
 public:
  // Starts a thread that calls `work`, which asks poll_interruption() as everybody does
  // (core/process/interruption.h), and is told to end when nobody waits for it any more.
  explicit Background(std::function<void()> work);
  // Tells the work to end, and waits for it. (In a child of fork() it is not there.)
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // False in a child of fork(): the thread is its parent's.
  bool is_here() const;
  // Waits so long at most. Returns whether the work has ended. Where the thread is not here it
  // never has, and nobody waits.
  bool wait(std::chrono::milliseconds patience);
  // Throws what the work threw. REQUIRES: wait() has returned true.
  void rethrow() const;

  // For work that holds a device: the process ends only after such work has, or some seconds after
  // it was told to. Called once the device is there, so that its driver ends later.
  static void end_before_drivers();

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace warplite
