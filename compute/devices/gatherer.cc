#include "compute/devices/gatherer.h"

#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "compute/devices/guarded.h"

namespace warplite::compute {
namespace {

bool same_live(const Block& a, const Block& b) {
  if (a.live == b.live) return true;
  if (a.live == nullptr || b.live == nullptr || a.live_rows != b.live_rows) return false;
  return std::memcmp(a.live, b.live, (std::size_t{a.rows} + 63) / 64 * 8) == 0;
}

// The rows of both are the same, under the same names. Rowids need no look: the same vectors
// belong to the same segment.
bool same_rows(const Block& a, const Block& b) {
  return a.vectors == b.vectors && a.rows == b.rows && a.id == b.id && same_live(a, b);
}

bool gathers(const Workload& work) {
  return work.queries.rows <= Gatherer::kMostQueries && !work.has_after &&
         work.range.unbounded() && work.sample.empty();
}

}  // namespace

// Several requests as one search, in memory of its own, so that a member may leave early.
struct Gatherer::Batch {
  Batch(const Requests& members, std::size_t k) : hits(count(members), k) {
    const Workload& first = *members[0]->work;
    work = first;
    for (const auto& member : members) {
      const MatrixView& part = member->work->queries;
      queries.insert(queries.end(), part.data, part.data + part.rows * part.stride());
    }
    work.queries.data = queries.data();
    work.queries.rows = count(members);
  }
  static std::size_t count(const Requests& members) {
    std::size_t rows = 0;
    for (const auto& member : members) rows += member->work->queries.rows;
    return rows;
  }

  std::vector<std::byte> queries;
  Workload work;
  HitTable hits;
};

bool Gatherer::together(const Request& a, const Request& b) {
  const Workload &x = *a.work, &y = *b.work;
  if (x.distance != y.distance || x.queries.type != y.queries.type ||
      x.queries.dim != y.queries.dim || a.best->k() != b.best->k() ||
      x.blocks.size() != y.blocks.size()) {
    return false;
  }
  for (std::size_t i = 0; i < x.blocks.size(); ++i) {
    if (!same_rows(x.blocks[i], y.blocks[i])) return false;
  }
  return true;
}

// A Turn is held by the search that leads: it lets the next one lead, whatever ends this one.
struct Gatherer::Turn {
  Turn(Gatherer& of, std::unique_lock<std::mutex>& held) : gatherer(of), lock(held) {
    gatherer.running_ = true;
  }
  ~Turn() {
    if (!lock.owns_lock()) lock.lock();
    gatherer.running_ = false;
    gatherer.changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Gatherer& gatherer;
  std::unique_lock<std::mutex>& lock;
};

Status Gatherer::nearest(const Workload& work, HitTable& best, const Run& run) {
  return guarded([&] { return gathers(work) ? gather(work, best, run) : run(work, best); });
}

Status Gatherer::gather(const Workload& work, HitTable& best, const Run& run) {
  const auto request = std::make_shared<Request>(Request{&work, &best, work.queries.rows});
  std::unique_lock lock(mutex_);
  if (running_) {
    Status status;
    if (!wait_for_turn(request, lock, status)) return status;
    if (request->state == State::kAlone) {
      lock.unlock();
      return run(work, best);
    }
  }
  const Turn turn(*this, lock);
  const Requests members = take_along(request);
  if (members.size() > 1) return run_together(members, lock, run);
  lock.unlock();
  return run(work, best);
}

// True: the request is to run, as the next leader or alone; false: it has ended.
bool Gatherer::wait_for_turn(const std::shared_ptr<Request>& request,
                             std::unique_lock<std::mutex>& lock, Status& status) {
  waiting_.push_back(request);
  while (true) {
    if (request->state == State::kDone) return false;
    if (request->state == State::kAlone) return true;
    if (request->state == State::kFailed) {
      status = {ErrorKind::kNoMemory, "out of memory"};
      return false;
    }
    if (request->state == State::kWaiting && !running_) {
      waiting_.remove(request);
      return true;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(5));
    Cancellation* const cancellation = request->work->cancellation;
    if (cancellation == nullptr) continue;
    lock.unlock();
    const bool cancelled = cancellation->requested();
    lock.lock();
    if (!cancelled || request->state == State::kDone) continue;
    waiting_.remove(request);
    request->state = State::kAbandoned;
    status = {ErrorKind::kInterrupted, "interrupted"};
    return false;
  }
}

// The leader and those that can share its pass.
Gatherer::Requests Gatherer::take_along(const std::shared_ptr<Request>& leader) {
  Requests members;
  members.reserve(1 + waiting_.size());  // who is taken along is in the list, or was never taken
  members.push_back(leader);
  std::size_t queries = leader->work->queries.rows;
  for (const auto& other : waiting_) {
    const std::size_t more = other->work->queries.rows;
    if (!together(*leader, *other) || queries + more > kMostGathered) continue;
    queries += more;
    members.push_back(other);
  }
  for (std::size_t i = 1; i < members.size(); ++i) {
    members[i]->state = State::kTaken;
    waiting_.remove(members[i]);
  }
  return members;
}

Status Gatherer::run_together(const Requests& members, std::unique_lock<std::mutex>& lock,
                              const Run& run) {
  std::optional<Batch> batch;
  Status status = guarded([&] { batch.emplace(members, members[0]->best->k()); });
  if (status.ok()) {
    lock.unlock();
    status = guarded([&] { return run(batch->work, batch->hits); });
    lock.lock();
  }
  if (status.ok()) taken_along_ += members.size() - 1;
  std::size_t first = 0;
  for (const auto& member : members) {
    const std::size_t query = std::exchange(first, first + member->queries);
    if (member->state == State::kAbandoned) continue;
    // Whatever stopped the leader, an interrupt perhaps, need not stop the others.
    member->state = State::kAlone;
    if (!status.ok()) continue;
    const Status merged = guarded([&] {
      for (std::size_t i = 0; i < member->queries; ++i) {
        member->best->row(i).merge(batch->hits.row(query + i));
      }
    });
    member->state = merged.ok() ? State::kDone : State::kFailed;
  }
  if (members[0]->state == State::kFailed) return {ErrorKind::kNoMemory, "out of memory"};
  return status;
}

std::size_t Gatherer::taken_along() const {
  const std::lock_guard lock(mutex_);
  return taken_along_;
}

}  // namespace warplite::compute
