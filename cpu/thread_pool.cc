#include "cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <system_error>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#endif

namespace warplite::cpu {
namespace {

long process_id() {
#if defined(__unix__) || defined(__APPLE__)
  return static_cast<long>(getpid());
#else
  return 0;
#endif
}

// While it lives, threads that are started leave the host's signals alone.
class SignalsBlocked {
 public:
#if defined(__unix__) || defined(__APPLE__)
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
#endif
};

// Joins the workers when the library is unloaded. A child of fork() has the pool but
// not its threads: there it is left alone.
struct Owner {
  std::atomic<ThreadPool*> pool{nullptr};
  std::atomic<long> process{0};
  ~Owner() {
    if (process == process_id()) delete pool.load();
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

void ThreadPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    serve(*jobs_.front(), lock);
  }
}

void ThreadPool::serve(Job& job, std::unique_lock<std::mutex>& lock) {
  const unsigned number = job.next++;
  if (job.next == job.end) jobs_.remove(&job);
  ++job.running;
  lock.unlock();
  (*job.body)(number);
  lock.lock();
  if (--job.running == 0) job.idle.notify_one();
}

void ThreadPool::run(unsigned n, const std::function<void(unsigned)>& body,
                     const std::function<void()>& waiting) {
  if (n <= 1) {
    body(0);
    return;
  }
  Job job{&body, 1, n, 0, {}};
  std::list<Job*> entry{&job};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    grow(n - 1);
    jobs_.splice(jobs_.end(), entry);
  }
  for (unsigned i = 1; i < n; ++i) wake_.notify_one();
  body(0);
  std::unique_lock<std::mutex> lock(mutex_);
  if (job.next != job.end) jobs_.remove(&job);
  while (job.running != 0) {
    if (job.idle.wait_for(lock, std::chrono::milliseconds(2)) == std::cv_status::timeout) {
      lock.unlock();
      waiting();
      lock.lock();
    }
  }
}

}  // namespace warplite::cpu
