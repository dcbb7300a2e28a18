// Copies vectors to devices in the background, while searches are answered elsewhere.
// Threads: every member may be called from any thread; the uploads to a device run on one thread of
// low priority, which starts when first needed.
// Ownership: vectors are held until they were copied, so that the cache keeps them.
// Errors: what cannot be copied is left out; a device that refused gets nothing for a while.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "compute/device.h"
#include "engine/residency/residency.h"

namespace warplite::engine {

class Uploader {
 public:
  // Lives as long as the process.
  static Uploader& instance();

  struct Item {
    CacheKey key;
    std::shared_ptr<const ResidentVectors> vectors;
    Extent extent = Extent::kAll;

    std::size_t bytes() const { return vectors->size(extent); }  // that the device is to hold
  };
  // Asks for what one search would like to find on a device the next time, in the order of use. The
  // request is ignored when some of it is under way to that device already: the next search asks
  // again.
  void request(compute::Device& device, std::vector<Item> items);
  // Waits until nothing is left to be done. Returns false when `patience` ran out before.
  bool wait_idle(std::chrono::milliseconds patience);

 private:
  struct Job {
    compute::Device* device;
    std::vector<Item> items;
  };
  struct Refusal {
    const compute::Device* device;
    std::chrono::steady_clock::time_point until;
  };

  Uploader();
  ~Uploader() = default;
  bool start(compute::Device& device);
  void work(compute::Device& device);
  std::list<Job>::iterator first_job(const compute::Device& device);
  bool upload(const Job& job);
  bool refused(const compute::Device& device);
  void stop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::list<Job> jobs_;  // the first one of each device is under way
  std::list<Refusal> refusals_;
  unsigned forks_ = 0;  // when the threads were started
  std::vector<const compute::Device*> served_;  // that have a thread
  bool stopping_ = false;
};

}  // namespace warplite::engine
