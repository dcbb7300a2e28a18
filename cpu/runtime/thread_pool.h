// Worker threads shared by all searches of the process, started when first needed.
// Threads: run() may be called from several threads at once; each caller takes part in
// its own work, so it finishes even when every worker is busy elsewhere.
// A forked child starts a pool of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace warplite::cpu {

class ThreadPool {
 public:
  static ThreadPool& instance();
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls body(0) on this thread and body(1) … body(n − 1) on workers as they become
  // free; workers that come too late are not waited for, so every body must take work
  // from a common counter until none is left. `waiting` is called every few
  // milliseconds while this thread waits for the others. Neither may throw. REQUIRES: n > 1.
  void run(unsigned n, const std::function<void(unsigned)>& body,
           const std::function<void()>& waiting);

 private:
  struct Job {
    const std::function<void(unsigned)>* body;
    unsigned next;                      // the number that the next worker gets
    unsigned end;
    std::atomic<unsigned> running = 0;  // workers inside body; changed under the lock
    std::condition_variable idle{};
  };

  // Says whether a worker waits for its next job awake: waking one takes as long as reading a
  // megabyte. It does so for a moment only, and only while jobs do follow one another that fast.
  class Vigil {
   public:
    void keep(const std::atomic<unsigned>& open_jobs);
    void ended(bool slept);

   private:
    int patience_ = 0;
    std::chrono::steady_clock::time_point since_;
  };

  ThreadPool();
  void grow(std::size_t workers);
  void work();
  void serve(Job& job, std::unique_lock<std::mutex>& lock);
  void close(Job& job);
  void wait_for(Job& job, const std::function<void()>& waiting);

  const long process_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Job*> jobs_;                // that still have numbers to give
  std::atomic<unsigned> open_jobs_{0};  // how many those are; changed under the lock
  std::vector<std::thread> workers_;
  bool stopping_ = false;
};

// The same on the pool of this process, for compute::set_workers(); n may be 1.
void run_on_pool(unsigned n, const std::function<void(unsigned)>& body,
                 const std::function<void()>& waiting);

}  // namespace warplite::cpu
