#include "compute/devices/gatherer.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "compute/devices/guarded.h"
#include "compute/host/meanwhile.h"

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

bool asks_to_end(Cancellation* cancellation) noexcept {
  try {
    return cancellation != nullptr && cancellation->requested();
  } catch (...) {  // to ask found no memory
    return false;
  }
}

}  // namespace

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
  return search(work, {.nearest = &best}, [&run](const Workload& all, const Answers& to) {
    return run(all, *to.nearest);
  });
}

Status Gatherer::within(const Workload& work, HitLists& out, const RunWithin& run) {
  return search(work, {.within = &out}, [&run](const Workload& all, const Answers& to) {
    return run(all, *to.within);
  });
}

Status Gatherer::search(const Workload& work, const Answers& to, const Pass& run) {
  return guarded([&] { return gathers(work, to) ? gather(work, to, run) : run(work, to); });
}

// A search of all rows, or for the nearest beyond a distance, does as much for each query with others as
// alone.
bool Gatherer::gathers(const Workload& work, const Answers& to) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (work.queries.rows > kMostQueries || work.has_after || !work.sample.empty() ||
      !work.own.empty() || Meanwhile::is_pending()) {
    return false;
  }
  const bool ranges = to.within != nullptr || !work.range.unbounded();
  const bool helps = to.within != nullptr ? work.range.high < kInfinity : work.range.low == -kInfinity;
  if (ranges && !(options_.own_terms && helps)) return false;
  std::size_t rows = 0;
  for (const Block& block : work.blocks) rows += block.live_rows;
  return rows * work.queries.stride() >= options_.least_bytes;
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

void Gatherer::Request::become(State next) {
  const std::lock_guard own(mutex);
  state = next;
}

bool Gatherer::Request::is_over() {
  std::unique_lock own(mutex);
  return changed.wait_for(own, kBetweenQuestions, [this] {
    return state != State::kWaiting && state != State::kTaken;
  });
}

Gatherer::Groups::iterator Gatherer::find(const Request& request) {
  return std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
    return same_number(*group.leader, request, options_.own_terms) &&
           can_share(*group.leader, request, options_.own_terms);
  });
}

// As far as they are just over: to wait for those who do not come is of little harm, so that a
// fingerprint is enough to know them by.
Gatherer::Habit Gatherer::recall(const Request& request) {
  const auto found = std::find_if(past_.begin(), past_.end(), [&](const Past& past) {
    return past.vectors == request.vectors;
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
    past_.push_back({group.leader->vectors, group.habit, Clock::now()});
  }));
}

Status Gatherer::gather(const Workload& work, const Answers& to, const Pass& run) {
  const auto request = std::make_shared<Request>(work, to);
  std::unique_lock lock(mutex_);
  forget_other_processes();
  auto group = find(*request);
  if (group != groups_.end() && options_.own_terms) {
    lock.unlock();
    request->keep_rows();
    lock.lock();
    group = find(*request);
  }
  if (group == groups_.end()) {
    group = groups_.insert(group, Group{.leader = request, .habit = recall(*request)});
  } else {
    Status status;
    const bool runs = wait_for_turn(*group, request, lock, status);
    if (!runs) return status.ok() ? finish(*request, run) : status;
    if (request->state == State::kAlone) return run(work, to);
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
Status Gatherer::finish(const Request& request, const Pass& run) {
  if (!request.has_segments_only) return {};
  Workload tail = *request.work;
  tail.blocks = tail.blocks.subspan(segments(tail).size());
  return tail.blocks.empty() ? Status{} : run(tail, request.to);
}

// Searches that the next pass waits for.
std::size_t Gatherer::wanted(const Group& group) const {
  const std::size_t asked = group.habit.asked;
  return options_.best_batch == nullptr ? asked : options_.best_batch(asked);
}

void Gatherer::wait_for_others(Group& group, std::unique_lock<std::mutex>& lock) {
  Habit& habit = group.habit;
  const std::size_t wanted = this->wanted(group);
  const auto are_there = [&] { return group.waiting.size() + 1 >= wanted; };
  if (are_there()) return;
  if (habit.in_a_hurry != 0) {
    --habit.in_a_hurry;
    return;
  }
  const std::size_t before = group.waiting.size(), missing = wanted - 1 - before;
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
  if (group.leader->state == State::kLeads && group.waiting.size() + 1 == wanted(group)) {
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
                      const Pass& run) {
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
    status = guarded([&] { return run(*leader.work, leader.to); });
    lock.lock();
  }
  group.habit.took = Clock::now() - begin;
  group.habit.asked = together + group.waiting.size();
  return status;
}

// In the order in which they came, as long as there is room, or until others would take longer than they
// would gain.
void Gatherer::take_along(Group& group, Requests& members) {
  std::size_t queries = members.front()->queries, all = queries;
  for (const auto& request : group.waiting) all += request->queries;
  std::size_t most = std::min(all, kMostGathered);
  if (options_.best_batch != nullptr) most = options_.best_batch(most);
  while (!group.waiting.empty()) {
    Request& next = *group.waiting.front();
    if (!same_number(*members.front(), next, options_.own_terms) || queries + next.queries > most) break;
    queries += next.queries;
    next.become(State::kTaken);
    members.splice(members.end(), group.waiting, group.waiting.begin());
  }
}

Status Gatherer::run_together(Group& group, Requests& members, std::unique_lock<std::mutex>& lock,
                              const Pass& run) {
  std::optional<SharedPass> pass;
  Status status = guarded([&] {
    std::vector<PassMember*> all;
    for (const auto& member : members) all.push_back(member.get());
    pass.emplace(std::move(all), options_.own_terms);
  });
  if (status.ok()) {
    lock.unlock();
    status = guarded([&] {
      pass->unite();
      return run(pass->work(), pass->answers());
    });
    lock.lock();
  }
  if (status.ok()) {
    taken_along_ += members.size() - 1;
    hand_out(members, *pass);
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

void Gatherer::hand_out(Requests& members, SharedPass& pass) {
  for (const auto& member : members) {
    if (member->state == State::kAbandoned) {
      pass.pass_over();
      continue;
    }
    const Status given = pass.hand_out();
    member->has_segments_only = !pass.has_tails();
    member->become(given.ok() ? State::kDone : State::kFailed);
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
