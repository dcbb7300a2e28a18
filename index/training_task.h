// A TrainingTask is what every part of training needs to know of whoever asked for it: the devices,
// how to say how far it is, and whether to go on.
// Threads: belongs to the thread that trains; poll() may be called on any.
#pragma once

#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include "compute/device.h"
#include "core/error.h"
#include "core/process/interruption.h"
#include "index/trained.h"

namespace warplite::index {

// Asked by work that is spread over threads: throws Error{kInterrupted} where whoever waits for
// the work said so, which in_parallel() takes to the others.
class Poll {
 public:
  explicit Poll(compute::Cancellation* cancellation) : cancellation_(cancellation) {}

  void operator()() const {
    if (cancellation_ == nullptr || !on_caller()) return poll_interruption();
    if (cancellation_->requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
  }
  bool on_caller() const { return std::this_thread::get_id() == caller_; }

 private:
  compute::Cancellation* cancellation_;
  std::thread::id caller_ = std::this_thread::get_id();
};

// For devices: whether in_parallel() asked the thread to end that it took the work to.
class HelperCancellation : public compute::Cancellation {
 public:
  bool requested() override { return interruption_requested(); }
};

class TrainingTask {
 public:
  // `devices`: those that large products are divided among; the first does all else.
  TrainingTask(compute::Devices devices, compute::Cancellation* cancellation,
               const Progress& progress)
      : devices_(std::move(devices)), cancellation_(cancellation), progress_(progress),
        poll_(cancellation) {}

  // The same, with something else to hear of it, which outlives this.
  TrainingTask(const TrainingTask& task, const Progress& progress)
      : devices_(task.devices_), cancellation_(task.cancellation_), progress_(progress),
        poll_(task.poll_) {}

  // The same, for a part that reaches from `begin` to `end` of the whole, 0 … 1.
  TrainingTask part(double begin, double end) const {
    TrainingTask task = *this;
    task.begin_ = begin_ + (end_ - begin_) * begin;
    task.end_ = begin_ + (end_ - begin_) * end;
    return task;
  }

  // The same, for the n-th of many small pieces of work, which one device does.
  TrainingTask turn(std::size_t n) const {
    TrainingTask task = *this;
    task.devices_ = *devices_[n % devices_.size()];
    return task;
  }

  compute::Device& device() const { return *devices_.front(); }
  const compute::Devices& devices() const { return devices_; }
  // For this thread, which may be one that in_parallel() took the work to.
  compute::Cancellation* cancellation() const {
    static HelperCancellation helper;
    return poll_.on_caller() ? cancellation_ : &helper;
  }
  const Poll& poll() const { return poll_; }

  // "training: k-means 3 of 10", where 2 of 10 are done. Only who asked for the work hears of it.
  void report(const std::string& what, std::size_t step, std::size_t steps) const {
    poll_();
    if (!progress_ || !poll_.on_caller()) return;
    const double done = static_cast<double>(step) / static_cast<double>(steps);
    progress_("training: " + what + " " + std::to_string(step + 1) + " of " +
                  std::to_string(steps),
              begin_ + (end_ - begin_) * done);
  }

 private:
  compute::Devices devices_;  // never empty
  compute::Cancellation* cancellation_;
  const Progress& progress_;
  Poll poll_;
  double begin_ = 0, end_ = 1;
};

}  // namespace warplite::index
