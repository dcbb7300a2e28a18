#include "engine/training/passed_rows.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <utility>

#include "compute/devices/guarded.h"
#include "engine/residency/common_cancellation.h"
#include "engine/residency/residency.h"
#include "engine/residency/together.h"
#include "engine/table/block_reader.h"
#include "index/clustering/tally.h"

namespace warplite::engine {
namespace {

// What makes a device's share of a pass worth while, times its worthwhile_bytes(): some 1.5 ms of
// an H200. Its thread, its copy of the centroids and the sums that it takes and gives cost up to a
// third of that.
constexpr double kWorthAShare = 10000;

const index::Progress kSilent;

// How far each of several has come that add to the same lists.
class Relay {
 public:
  explicit Relay(std::size_t runners) : runners_(runners) {}

  // Says of a runner that it goes no further.
  void fail(std::size_t i) { change(i, [](Runner& runner) { runner.failed = true; }); }
  void pass_on(std::size_t i, std::uint32_t end) {
    change(i, [end](Runner& runner) { runner.end = end; });
  }
  bool await(std::size_t i, std::uint32_t end, compute::Cancellation* cancellation) {
    constexpr std::chrono::milliseconds kPollInterval{5};
    std::unique_lock lock(mutex_);
    const Runner& runner = runners_[i];
    const auto decided = [&] { return runner.failed || runner.end >= end; };
    while (!changed_.wait_for(lock, kPollInterval, decided)) {
      lock.unlock();
      if (cancellation != nullptr && cancellation->requested()) return false;
      lock.lock();
    }
    return runner.end >= end;
  }

 private:
  struct Runner {
    std::uint32_t end = 0;  // of the lists to which it has added its rows
    bool failed = false;
  };

  template <typename Change>
  void change(std::size_t i, const Change& apply) {
    const std::lock_guard lock(mutex_);
    apply(runners_[i]);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Runner> runners_;
};

class Turn : public compute::TallyTurn {
 public:
  Turn(Relay& relay, std::size_t i, compute::Cancellation* cancellation)
      : relay_(relay), i_(i), cancellation_(cancellation) {}

  bool await(std::uint32_t end) override {
    return i_ == 0 || relay_.await(i_ - 1, end, cancellation_);
  }
  void pass_on(std::uint32_t end) override { relay_.pass_on(i_, end); }

 private:
  Relay& relay_;
  const std::size_t i_;
  compute::Cancellation* const cancellation_;
};

// Each takes what follows, up to `most` bytes and its room. Empty: something is left.
std::vector<std::size_t> fill_in_order(std::span<const std::size_t> bytes,
                                       std::span<const std::size_t> room, std::size_t most) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  for (const std::size_t own : room) {
    std::size_t left = std::min(own, most);
    while (at < bytes.size() && bytes[at] <= left) left -= bytes[at++];
    ends.push_back(at);
  }
  return at == bytes.size() ? ends : std::vector<std::size_t>();
}

}  // namespace

std::vector<std::size_t> divide_in_order(std::span<const std::size_t> bytes,
                                         std::span<const std::size_t> room) {
  std::size_t least = 0, most = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  if (fill_in_order(bytes, room, most).empty()) return {};
  while (least < most) {
    const std::size_t middle = least + (most - least) / 2;
    if (fill_in_order(bytes, room, middle).empty()) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  std::vector<std::size_t> ends = fill_in_order(bytes, room, most);
  // Nobody is left with nothing at the end.
  while (ends.size() > 1 && ends[ends.size() - 2] == bytes.size()) ends.pop_back();
  return ends;
}

PassedRows::PassedRows(const View& view, std::size_t column, compute::Devices devices,
                       double compared, compute::Cancellation* cancellation)
    : view_(view), column_(column) {
  while (!devices.empty() && devices.front()->own_memory()) {
    const std::vector<std::size_t> ends = divide(devices, compared);
    if (ends.empty()) return;
    compute::Device* const without = hold(devices, ends, cancellation);
    if (without == nullptr) return;
    sets_.clear();
    std::erase(devices, without);
  }
}

std::vector<std::size_t> PassedRows::divide(const compute::Devices& devices,
                                            double compared) const {
  std::vector<std::size_t> bytes, room;
  for (std::size_t i = 0; i < view_.parts(); ++i) {
    bytes.push_back(view_.part(i).vector_bytes(column_));
  }
  Residency& cache = Residency::instance();
  // In the host's cache, too, through which they get to devices.
  if (std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) > cache.limit()) return {};
  const double each = kWorthAShare * static_cast<double>(devices.front()->worthwhile_bytes());
  std::vector<std::size_t> ends;
  for (compute::Device* device : devices) {
    room.push_back(cache.holding(*device, {}).budget);
    const bool worth = compared >= each * static_cast<double>(room.size());
    if (ends.empty() || worth) {
      std::vector<std::size_t> more = divide_in_order(bytes, room);
      if (!more.empty()) ends = std::move(more);
    }
  }
  return ends;
}

compute::Device* PassedRows::hold(const compute::Devices& devices,
                                  const std::vector<std::size_t>& ends,
                                  compute::Cancellation* cancellation) {
  std::vector<const Part*> parts;
  for (std::size_t i = 0; i < view_.parts(); ++i) parts.push_back(&view_.part(i));
  read_ahead(std::move(parts), Part::Ahead::kVectors, column_);
  std::vector<std::shared_ptr<SearchBlocks>> blocks;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ask(cancellation);
    blocks.push_back(std::make_shared<SearchBlocks>());
    load(i == 0 ? 0 : ends[i - 1], ends[i], *blocks.back());
  }
  sets_.resize(ends.size());
  std::size_t number = 0;
  const auto hold_share = [&](std::size_t i, compute::Cancellation* asked) {
    Status status;
    sets_[i] = DeviceSet::create(*devices[i], blocks[i], nullptr, asked, status);
    // What is read over the bus in every pass is better sent piece by piece.
    if (status.ok() && !sets_[i]->lasting()) status.kind = ErrorKind::kNoMemory;
    return status;
  };
  const Status status = run_together(ends.size(), cancellation, hold_share, number);
  if (status.kind == ErrorKind::kInterrupted) status.raise();
  return status.ok() ? nullptr : devices[number];
}

void PassedRows::load(std::size_t first, std::size_t end, SearchBlocks& out) const {
  for (std::size_t i = first; i < end; ++i) {
    SearchBlock block;
    if (load_block(view_, column_, static_cast<std::uint32_t>(i), block)) {
      out.push_back(std::move(block));
    }
  }
}

void PassedRows::add_up(const index::TrainingTask& task, std::span<const float> centroids,
                        const compute::TallyWork& work, compute::ListTallies& out) const {
  sets_.empty() ? add_read(task, centroids, work, out) : add_held(task, centroids, work, out);
}

void PassedRows::add_held(const index::TrainingTask& task, std::span<const float> centroids,
                          const compute::TallyWork& work, compute::ListTallies& out) const {
  Relay relay(sets_.size());
  const auto add = [&](std::size_t i, compute::Cancellation* cancellation) {
    Turn turn(relay, i, cancellation);
    const Status status = compute::guarded([&] {
      const index::TrainingTask own(sets_[i]->device(), cancellation, kSilent);
      compute::TallyWork share = work;
      share.blocks = sets_[i]->all();
      share.turn = sets_.size() > 1 ? &turn : nullptr;
      index::TallyPass(own, centroids.data(), work.lists, work.dim).add(share, true, out);
      // Also where nothing was to be added, or not by the device.
      if (!turn.await(work.lists)) throw Error(ErrorKind::kInterrupted, "interrupted");
      turn.pass_on(work.lists);
    });
    if (!status.ok()) relay.fail(i);
    return status;
  };
  std::size_t number = 0;
  const Status status = run_together(sets_.size(), task.cancellation(), add, number);
  if (!status.ok()) throw compute::DeviceError(sets_[number]->device(), status);
}

void PassedRows::add_read(const index::TrainingTask& task, std::span<const float> centroids,
                          const compute::TallyWork& work, compute::ListTallies& out) const {
  const index::TallyPass pass(task, centroids.data(), work.lists, work.dim);
  for (std::size_t first = 0; first < view_.parts(); first += kPartsAtOnce) {
    SearchBlocks some;
    load(first, std::min(first + kPartsAtOnce, view_.parts()), some);
    std::vector<compute::Block> blocks;
    for (const SearchBlock& one : some) blocks.push_back(one.block);
    compute::TallyWork part = work;
    part.blocks = blocks;
    pass.add(part, false, out);
  }
}

}  // namespace warplite::engine
