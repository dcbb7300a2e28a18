#include "cpu/runtime/thread_pool.h"

#include <atomic>
#include <chrono>
#include <system_error>

#include "core/process/process.h"

namespace warplite::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Short against the wake-up of a sleeping thread and against what a search takes.
constexpr std::chrono::microseconds kSpin{60};
constexpr int kPatience = 4;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `done`, or for a moment. Whoever else wants the core gets it.
template <class Done>
void spin(const Done& done) {
  const Clock::time_point end = Clock::now() + kSpin;
  while (!done()) {
    for (int i = 0; i < 8 && !done(); ++i) relax();
    std::this_thread::yield();
    if (Clock::now() >= end) return;
  }
}

// Joins the workers when the library is unloaded. A child of fork() has the pool but
// not its threads: there it is left alone.
struct Owner {
  std::atomic<ThreadPool*> pool{nullptr};
  std::atomic<long> process{0};
  ~Owner() {
    if (process == process_id() && threads_reach_exit()) delete pool.load();
  }
};

Owner owner;

}  // namespace

ThreadPool& ThreadPool::instance() {
  const long process = process_id();
  ThreadPool* pool = owner.pool;
  while (pool == nullptr || pool->process_ != process) {
    auto* fresh = new ThreadPool();
    if (owner.pool.compare_exchange_strong(pool, fresh)) {
      owner.process = process;
      return *fresh;
    }
    delete fresh;
  }
  return *pool;
}

ThreadPool::ThreadPool() : process_(process_id()) {}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::grow(std::size_t workers) {
  if (workers_.size() >= workers) return;
  const SignalsBlocked blocked;
  try {
    workers_.reserve(workers);
    while (workers_.size() < workers) workers_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    return;  // fewer threads: the callers do more themselves
  }
}

void ThreadPool::Vigil::keep(const std::atomic<unsigned>& open_jobs) {
  since_ = Clock::now();
  if (patience_ > 0) spin([&] { return open_jobs.load(std::memory_order_relaxed) != 0; });
}

// A job has come.
void ThreadPool::Vigil::ended(bool slept) {
  if (!slept || Clock::now() - since_ < 2 * kSpin) {
    patience_ = kPatience;
  } else if (patience_ > 0) {
    --patience_;
  }
}

void ThreadPool::work() {
  Vigil vigil;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (jobs_.empty() && !stopping_) {
      lock.unlock();
      vigil.keep(open_jobs_);
      lock.lock();
      const bool slept = jobs_.empty();
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      vigil.ended(slept);
    }
    if (stopping_) return;
    serve(*jobs_.front(), lock);
  }
}

void ThreadPool::serve(Job& job, std::unique_lock<std::mutex>& lock) {
  const unsigned number = job.next++;
  const unsigned end = job.end;
  if (job.next == end) close(job);
  ++job.running;
  lock.unlock();
  // Each wakes two, so that the caller wakes but one and the last does not wait for all others.
  for (unsigned other = 2 * number; other < end && other <= 2 * number + 1; ++other) {
    wake_.notify_one();
  }
  (*job.body)(number);
  lock.lock();
  if (--job.running == 0) job.idle.notify_one();
}

// REQUIRES: the lock; the job is open.
void ThreadPool::close(Job& job) {
  jobs_.remove(&job);
  --open_jobs_;
}

void ThreadPool::wait_for(Job& job, const std::function<void()>& waiting) {
  spin([&] { return job.running.load(std::memory_order_relaxed) == 0; });
  std::unique_lock<std::mutex> lock(mutex_);
  while (job.running != 0) {
    if (job.idle.wait_for(lock, std::chrono::milliseconds(2)) == std::cv_status::timeout) {
      lock.unlock();
      waiting();
      lock.lock();
    }
  }
}

void ThreadPool::run(unsigned n, const std::function<void(unsigned)>& body,
                     const std::function<void()>& waiting) {
  Job job{.body = &body, .next = 1, .end = n};
  std::list<Job*> entry{&job};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    grow(n - 1);
    jobs_.splice(jobs_.end(), entry);
    ++open_jobs_;
  }
  wake_.notify_one();
  body(0);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (job.next != job.end) close(job);
  }
  wait_for(job, waiting);
}

void run_on_pool(unsigned n, const std::function<void(unsigned)>& body,
                 const std::function<void()>& waiting) {
  // Not to ask for the process spares a system call.
  if (n <= 1) return body(0);
  ThreadPool::instance().run(n, body, waiting);
}

}  // namespace warplite::cpu
