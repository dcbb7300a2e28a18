#include "engine/table/transaction.h"

#include <atomic>
#include <limits>
#include <utility>

#include "core/error.h"
#include "engine/table/snapshot.h"

namespace warplite::engine {
namespace {

// Whose chunks wait for another transaction. Nobody else lets go of them, so that a search, which
// asks every time, need not write.
std::atomic<const Transaction*>& keeper() {
  static std::atomic<const Transaction*> keeper{nullptr};
  return keeper;
}

}  // namespace

void Transaction::begin() noexcept {
  if (active_) {
    connected_again_ = true;
    return;
  }
  WARP_DCHECK(pending_.empty());
  active_ = true;
}

void Transaction::clear() noexcept {
  savepoints_.clear();
  first_base_ = nullptr;
  flushes_ = 0;
  active_ = false;
  connected_again_ = false;
  failure_ = Failure::kNone;
}

void Transaction::commit() noexcept {
  WARP_DCHECK(pending_.empty());
  const Transaction* none = nullptr;
  const bool loads = flushes_ >= 2;
  if (!loads || !(keeper().compare_exchange_strong(none, this) || none == this)) drop_spares();
  clear();
}

void Transaction::drop_spares() noexcept {
  pending_.drop_spares();
  if (keeper() == this) keeper() = nullptr;
}

void Transaction::rollback() noexcept {
  pending_.become(Pending(*layout_));
  drop_spares();
  if (flushes_ != 0) base_ = first_base_;
  if (failure_ != Failure::kNone) base_ = nullptr;
  clear();
}

void Transaction::savepoint(int n, std::size_t renames) noexcept {
  // After begin() SQLite announces the savepoint that exists already. If it is not known, it is
  // from before this transaction's first write. Others are announced to each connection of the
  // table.
  if (std::exchange(connected_again_, false)) return;
  if (failure_ == Failure::kUnmarked) return;
  if (!savepoints_.empty() && savepoints_.back().n >= n) return;
  try {
    savepoints_.push_back({n, renames, flushes_, failure_, pending_.mark(), nullptr, nullptr});
  } catch (...) {
    if (failure_ == Failure::kNone) {
      failure_ = Failure::kUnmarked;
      unmarked_ = n;
    }
  }
}

void Transaction::release(int n) noexcept {
  while (!savepoints_.empty() && savepoints_.back().n >= n) {
    const std::shared_ptr<Pending::Frozen> frozen = std::move(savepoints_.back().frozen);
    savepoints_.pop_back();
    // Of a statement that flushed rows which were pending before it: nobody needs them any more.
    if (frozen.use_count() == 1) pending_.keep_spares(std::move(frozen->slots));
  }
  if (failure_ == Failure::kUnmarked && n <= unmarked_) failure_ = Failure::kNone;
}

std::size_t Transaction::rollback_to(int n) noexcept {
  // Nothing was written since a savepoint that could not be recorded.
  if (failure_ == Failure::kUnmarked && n >= unmarked_) {
    return std::numeric_limits<std::size_t>::max();
  }
  while (!savepoints_.empty() && savepoints_.back().n > n) savepoints_.pop_back();
  if (!savepoints_.empty() && savepoints_.back().n == n) {
    restore(savepoints_.back());
    return savepoints_.back().renames;
  }
  // Older than the first write of this transaction: the tables are as before it.
  savepoints_.clear();
  const bool active = active_;
  rollback();
  active_ = active;
  return 0;
}

void Transaction::restore(const Savepoint& savepoint) noexcept {
  // Nothing was flushed since the savepoint, or base_ is replaced: what it says still holds,
  // and only it knows of segments that have no directory entries yet.
  failure_ = savepoint.failure;
  if (savepoint.frozen == nullptr) {
    pending_.truncate(savepoint.mark);
    return;
  }
  base_ = savepoint.base;
  flushes_ = savepoint.flushes;
  try {
    pending_.become(Pending::restored(*layout_, *savepoint.frozen, savepoint.mark));
  } catch (...) {
    failure_ = Failure::kLost;
  }
}

bool Transaction::savepoints_hold_rows() const noexcept {
  for (std::size_t i = 0; i + 1 < savepoints_.size(); ++i) {
    const Savepoint& savepoint = savepoints_[i];
    if (savepoint.mark.rows != 0 || savepoint.mark.erasures != 0) return true;
    const std::shared_ptr<const Snapshot>& base =
        savepoint.frozen != nullptr ? savepoint.base : base_;
    if (base != nullptr && base->unlisted) return true;
  }
  return false;
}

void Transaction::check_writable() const {
  switch (failure_) {
    case Failure::kNone:
      return;
    case Failure::kTorn:
      throw Error(ErrorKind::kInvalid,
                  "an earlier write of this transaction failed half-way; ROLLBACK first");
    case Failure::kLost:
    case Failure::kUnmarked:
      throw Error(ErrorKind::kNoMemory, "a savepoint ran out of memory; ROLLBACK first");
  }
}

void Transaction::check_readable() const {
  if (failure_ != Failure::kUnmarked) check_writable();
}

std::shared_ptr<Pending::Frozen> Transaction::freeze() const {
  // Marks grow with n: the newest savepoint of these rows needs most.
  if (savepoints_.empty() || savepoints_.back().frozen != nullptr) return nullptr;
  return pending_.freeze(savepoints_.back().mark);
}

void Transaction::finish_flush(std::shared_ptr<Pending::Frozen> frozen, Pending&& rest,
                               std::shared_ptr<const Snapshot> base) noexcept {
  if (flushes_++ == 0) first_base_ = base_;
  for (Savepoint& savepoint : savepoints_) {
    if (savepoint.frozen != nullptr) continue;
    savepoint.frozen = frozen;
    savepoint.base = base_;
  }
  pending_.become(std::move(rest));
  base_ = std::move(base);
}

}  // namespace warplite::engine
