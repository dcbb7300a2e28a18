#include "compute/devices/gatherer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "compute/devices/guarded.h"
#include "compute/meanwhile.h"

namespace warplite::compute {
namespace {

// Asking whether to go on takes SQLite some microseconds, and many may wait.
constexpr std::chrono::milliseconds kBetweenQuestions{15};
// The part of a pass that the next one waits for those who were in it. After a wait in vain one pass
// does not, after the next two, then four: so that what held some up once does not keep them apart, as
// halves that take turns, and those who are gone cost little.
constexpr int kPartToWait = 4;
constexpr unsigned kMostHurriedPasses = 32;
// Waiting for them begins awake: to sleep and to wake takes as long as most of them take to come.
constexpr std::chrono::milliseconds kAwake{1};
constexpr std::size_t kMostPast = 16;

bool same_live(const Block& a, const Block& b) {
  if (a.live == b.live) return true;
  if (a.live == nullptr || b.live == nullptr || a.live_rows != b.live_rows) return false;
  return std::memcmp(a.live, b.live, (std::size_t{a.rows} + 63) / 64 * 8) == 0;
}

// The rows of both are the same, under the same names. Rowids need no look: the same vectors
// belong to the same segment, or to the same tail.
bool same_rows(const Block& a, const Block& b) {
  const bool same = a.vectors == b.vectors || (a.name == b.name && !a.name.is_null());
  return same && a.rows == b.rows && a.id == b.id && same_live(a, b);
}

// The blocks that are segments: the tail, which has a name of its own, follows them.
std::span<const Block> segments(const Workload& work) {
  const bool tail = !work.blocks.empty() && !work.blocks.back().name.is_null();
  return work.blocks.first(work.blocks.size() - static_cast<std::size_t>(tail));
}

bool same_blocks(std::span<const Block> a, std::span<const Block> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_rows);
}

bool same_tail(const Workload& x, const Workload& y) {
  return same_blocks(x.blocks.subspan(segments(x).size()), y.blocks.subspan(segments(y).size()));
}

// A bijection of which every bit of the result depends on every bit given.
std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ bits >> 32) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ bits >> 32) * 0x9e3779b97f4a7c15u;
  return bits ^ bits >> 32;
}

bool asks_to_end(Cancellation* cancellation) noexcept {
  try {
    return cancellation != nullptr && cancellation->requested();
  } catch (...) {  // to ask found no memory
    return false;
  }
}

}  // namespace

// Several requests as one search, in memory of its own, so that a member may leave early.
struct Gatherer::Batch {
  explicit Batch(const Requests& members) : hits(count(members), most_nearest(members)) {
    work = *members.front()->work;
    for (const auto& member : members) {
      const MatrixView& part = member->work->queries;
      queries.insert(queries.end(), part.data, part.data + part.rows * part.stride());
    }
    work.queries.data = queries.data();
    work.queries.rows = count(members);
    whole = std::all_of(members.begin(), members.end(), [this](const auto& member) {
      return same_tail(work, *member->work);
    });
    if (!whole) work.blocks = segments(work);
  }
  static std::size_t count(const Requests& members) {
    std::size_t rows = 0;
    for (const auto& member : members) rows += member->queries;
    return rows;
  }
  static std::size_t most_nearest(const Requests& members) {
    std::size_t k = 0;
    for (const auto& member : members) k = std::max(k, member->best->k());
    return k;
  }

  std::vector<std::byte> queries;
  Workload work;
  bool whole;  // their tails are one
  HitTable hits;
};

// A Turn is held by the search that leads: it lets the next one lead, whatever ends this one.
struct Gatherer::Turn {
  Turn(Gatherer& gatherer, Groups::iterator at, std::unique_lock<std::mutex>& held)
      : of(gatherer), group(at), lock(held) {}
  ~Turn() {
    if (!lock.owns_lock()) lock.lock();
    if (group->waiting.empty()) {
      of.remember(*group);
      of.groups_.erase(group);
      return;
    }
    group->leader = std::move(group->waiting.front());
    group->waiting.pop_front();
    group->leader->become(State::kLeads);
    group->leader->changed.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Gatherer& of;
  const Groups::iterator group;
  std::unique_lock<std::mutex>& lock;
};

Status Gatherer::nearest(const Workload& work, HitTable& best, const Run& run) {
  return guarded([&] { return gathers(work) ? gather(work, best, run) : run(work, best); });
}

bool Gatherer::gathers(const Workload& work) const {
  if (work.queries.rows > kMostQueries || work.has_after || !work.range.unbounded() ||
      !work.sample.empty() || Meanwhile::is_pending()) {
    return false;
  }
  std::size_t rows = 0;
  for (const Block& block : work.blocks) rows += block.rows;
  return rows * work.queries.stride() >= least_bytes_;
}

void Gatherer::expect_forks() { lock_across_forks(mutex_); }

// Under the lock. The threads that wait here in another process must not be waited for, as the end of
// what they wait on would.
void Gatherer::forget_other_processes() {
  if (forks_ == forks()) return;
  static_cast<void>(new Groups(std::move(groups_)));
  groups_.clear();
  forks_ = forks();
}

Gatherer::Request::Request(const Workload& of, HitTable& to)
    : work(&of), best(&to), queries(of.queries.rows), segments(fingerprint(compute::segments(of))) {}

void Gatherer::Request::become(State to) {
  const std::lock_guard own(mutex);
  state = to;
}

bool Gatherer::Request::is_over() {
  std::unique_lock own(mutex);
  return changed.wait_for(own, kBetweenQuestions, [this] {
    return state != State::kWaiting && state != State::kTaken;
  });
}

Gatherer::Fingerprint Gatherer::fingerprint(std::span<const Block> blocks) {
  Fingerprint print{blocks.size(), ~std::uint64_t{blocks.size()}};
  for (const Block& block : blocks) {
    const std::uint64_t vectors = reinterpret_cast<std::uintptr_t>(block.vectors);
    const std::uint64_t shape = std::uint64_t{block.rows} << 32 | block.id;
    print.low = mix(print.low ^ vectors) + shape;
    print.high = mix(print.high + shape) ^ vectors;
    print.bitmaps |= block.live != nullptr;
  }
  return print;
}

bool Gatherer::together(const Request& a, const Request& b) {
  const Workload &x = *a.work, &y = *b.work;
  const bool alike = x.distance == y.distance && x.queries.type == y.queries.type &&
                     x.queries.dim == y.queries.dim && x.select == y.select &&
                     a.segments.low == b.segments.low && a.segments.high == b.segments.high &&
                     a.segments.bitmaps == b.segments.bitmaps;
  if (!alike) return false;
  if (a.segments.bitmaps && !same_blocks(segments(x), segments(y))) return false;
  return !segments(x).empty() || same_tail(x, y);
}

// The greater number of rows is sought for both.
bool Gatherer::fit(const Request& a, const Request& b) {
  return a.best->k() == b.best->k() || std::max(a.best->k(), b.best->k()) <= kFewNearest;
}

Gatherer::Groups::iterator Gatherer::find(const Request& request) {
  return std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
    return fit(*group.leader, request) && together(*group.leader, request);
  });
}

// As far as they are just over: to wait for those who do not come is of little harm, so that a
// fingerprint is enough to know them by.
Gatherer::Habit Gatherer::recall(const Request& request) {
  const auto found = std::find_if(past_.begin(), past_.end(), [&](const Past& past) {
    return past.segments.low == request.segments.low && past.segments.high == request.segments.high;
  });
  if (found == past_.end()) return {};
  const bool just_over = Clock::now() - found->ended <= found->habit.took;
  const Habit habit = just_over ? found->habit : Habit{};
  past_.erase(found);
  return habit;
}

// Without memory for it, the next pass waits for nobody.
void Gatherer::remember(const Group& group) {
  if (group.habit.asked < 2) return;
  if (past_.size() == kMostPast) past_.erase(past_.begin());
  static_cast<void>(guarded([&] {
    past_.push_back({group.leader->segments, group.habit, Clock::now()});
  }));
}

Status Gatherer::gather(const Workload& work, HitTable& best, const Run& run) {
  const auto request = std::make_shared<Request>(work, best);
  std::unique_lock lock(mutex_);
  forget_other_processes();
  auto group = find(*request);
  if (group == groups_.end()) {
    group = groups_.insert(group, Group{.leader = request, .habit = recall(*request)});
  } else {
    Status status;
    const bool runs = wait_for_turn(*group, request, lock, status);
    if (!runs) return status.ok() ? finish(*request, run) : status;
    if (request->state == State::kAlone) return run(work, best);
    lock.lock();
  }
  Status status;
  Requests members;
  {
    const Turn turn(*this, group, lock);
    wait_for_others(*group, lock);
    status = lead(*group, members, lock, run);
  }
  lock.unlock();
  for (const auto& member : members) member->changed.notify_one();
  return status.ok() ? finish(*request, run) : status;
}

// Searches what a pass with others left out.
Status Gatherer::finish(const Request& request, const Run& run) {
  if (!request.has_segments_only) return {};
  Workload tail = *request.work;
  tail.blocks = tail.blocks.subspan(segments(tail).size());
  return tail.blocks.empty() ? Status{} : run(tail, *request.best);
}

void Gatherer::wait_for_others(Group& group, std::unique_lock<std::mutex>& lock) {
  Habit& habit = group.habit;
  const auto are_there = [&] { return group.waiting.size() + 1 >= habit.asked; };
  if (are_there()) return;
  if (habit.in_a_hurry != 0) {
    --habit.in_a_hurry;
    return;
  }
  const std::size_t before = group.waiting.size(), missing = habit.asked - 1 - before;
  const Clock::time_point begin = Clock::now(), end = begin + habit.took / kPartToWait;
  while (!are_there() && Clock::now() < std::min(end, begin + kAwake)) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  group.leader->changed.wait_until(lock, end, are_there);
  const std::size_t come = group.waiting.size() - std::min(before, group.waiting.size());
  const bool in_vain = 2 * come < missing;
  habit.in_vain = in_vain ? std::clamp(2 * habit.in_vain, 1u, kMostHurriedPasses) : 0;
  habit.in_a_hurry = habit.in_vain;
}

// True: the request is to run, as the leader or alone; false: it has ended. Lets go of the lock.
bool Gatherer::wait_for_turn(Group& group, const std::shared_ptr<Request>& request,
                             std::unique_lock<std::mutex>& lock, Status& status) {
  const Workload& work = *request->work;
  group.waiting.push_back(request);
  if (group.leader->state == State::kLeads && group.waiting.size() + 1 == group.habit.asked) {
    group.leader->changed.notify_one();
  }
  lock.unlock();
  while (!request->is_over()) {
    if (!asks_to_end(work.cancellation)) continue;
    const std::lock_guard again(mutex_);
    // Whoever leads has to let the next one lead; it finds out by itself that it is to end.
    if (request->state != State::kWaiting && request->state != State::kTaken) continue;
    // The group is there as long as one of its members waits.
    if (request->state == State::kWaiting) group.waiting.remove(request);
    request->become(State::kAbandoned);
    status = {ErrorKind::kInterrupted, "interrupted"};
    return false;
  }
  if (request->state == State::kFailed) status = {ErrorKind::kNoMemory, "out of memory"};
  return request->state == State::kLeads || request->state == State::kAlone;
}

// Runs the leader's search, with all that wait and can share its pass: those are told afterwards.
Status Gatherer::lead(Group& group, Requests& members, std::unique_lock<std::mutex>& lock,
                      const Run& run) {
  const Request& leader = *group.leader;
  members.push_back(group.leader);
  take_along(group, members);
  const std::size_t together = members.size();
  const Clock::time_point begin = Clock::now();
  Status status;
  if (together > 1) {
    status = run_together(group, members, lock, run);
  } else {
    lock.unlock();
    status = guarded([&] { return run(*leader.work, *leader.best); });
    lock.lock();
  }
  group.habit.took = Clock::now() - begin;
  group.habit.asked = together + group.waiting.size();
  return status;
}

// In the order in which they came, as long as there is room.
void Gatherer::take_along(Group& group, Requests& members) {
  std::size_t queries = members.front()->queries;
  while (!group.waiting.empty()) {
    Request& next = *group.waiting.front();
    if (!fit(*members.front(), next) || queries + next.queries > kMostGathered) break;
    queries += next.queries;
    next.become(State::kTaken);
    members.splice(members.end(), group.waiting, group.waiting.begin());
  }
}

Status Gatherer::run_together(Group& group, Requests& members, std::unique_lock<std::mutex>& lock,
                              const Run& run) {
  std::optional<Batch> batch;
  Status status = guarded([&] { batch.emplace(members); });
  if (status.ok()) {
    lock.unlock();
    status = guarded([&] { return run(batch->work, batch->hits); });
    lock.lock();
  }
  if (status.ok()) {
    taken_along_ += members.size() - 1;
    hand_out(members, *batch);
    if (members.front()->state == State::kFailed) return {ErrorKind::kNoMemory, "out of memory"};
  } else if (status.kind == ErrorKind::kInterrupted) {
    send_back(group, members);  // the leader's interrupt is not theirs
  } else {
    for (const auto& member : members) {
      if (member->state == State::kTaken) member->become(State::kAlone);
    }
  }
  return status;
}

void Gatherer::hand_out(Requests& members, Batch& batch) {
  std::size_t first = 0;
  for (const auto& member : members) {
    const std::size_t query = std::exchange(first, first + member->queries);
    if (member->state == State::kAbandoned) continue;
    const Status merged = guarded([&] {
      for (std::size_t i = 0; i < member->queries; ++i) {
        member->best->row(i).merge(std::move(batch.hits.row(query + i)));
      }
    });
    member->has_segments_only = !batch.whole;
    member->become(merged.ok() ? State::kDone : State::kFailed);
  }
}

// Those that were taken along wait again, before all that came later.
void Gatherer::send_back(Group& group, Requests& members) {
  members.pop_front();
  members.remove_if([](const auto& member) { return member->state != State::kTaken; });
  for (const auto& member : members) member->become(State::kWaiting);
  group.waiting.splice(group.waiting.begin(), members);
}

std::size_t Gatherer::taken_along() const {
  const std::lock_guard lock(mutex_);
  return taken_along_;
}

}  // namespace warplite::compute
