// search_shares(): each share on its device, in groups when not all of it fits at once.
#include <memory>
#include <utility>
#include <vector>

#include "engine/residency/common_cancellation.h"
#include "engine/residency/together.h"
#include "engine/search/device_set.h"
#include "engine/search/multi_device.h"

namespace warplite::engine {
namespace {

// The blocks of one share, as far as the device has room, then the next ones.
class ShareSearch {
 public:
  // `work` lacks its blocks.
  ShareSearch(const Share& share, const Selection& rows, const compute::Workload& work,
              Outcome& outcome)
      : share_(share), device_(*share.device), rows_(rows), work_(work), outcome_(outcome) {}

  Status run() {
    for (const SearchBlock* block : share_.blocks) {
      ask(work_.cancellation);
      std::shared_ptr<const compute::Buffer> buffer;
      Status status = place_block(device_, *block, buffer);
      if (status.kind == ErrorKind::kNoMemory && !held_.empty()) {
        // Blocks already searched may go, and then there is room.
        if (Status searched = search(); !searched.ok()) return searched;
        status = place_block(device_, *block, buffer);
      }
      if (!status.ok()) return status;
      workset_.add(*block, rows_, buffer.get());
      held_.push_back(std::move(buffer));
    }
    return search();
  }

 private:
  Status search() {
    Status status;
    if (!workset_.blocks().empty()) {
      work_.blocks = workset_.blocks();
      status = outcome_.add(device_, work_);
    }
    workset_.clear();
    held_.clear();
    return status;
  }

  const Share& share_;
  compute::Device& device_;
  const Selection& rows_;
  compute::Workload work_;
  Outcome& outcome_;
  Workset workset_;
  std::vector<std::shared_ptr<const compute::Buffer>> held_;
};

}  // namespace

Status search_shares(const SharePlan& plan, const Selection& rows, const compute::Workload& work,
                     Outcome& outcome, compute::Device*& failed) {
  std::vector<std::unique_ptr<Outcome>> parts;
  if (plan.shares.size() > 1) {
    for (std::size_t i = 0; i < plan.shares.size(); ++i) parts.push_back(outcome.share(work.queries.rows));
  }
  const auto run_share = [&](std::size_t i, compute::Cancellation* cancellation) {
    compute::Workload own = work;
    own.cancellation = cancellation;
    return ShareSearch(plan.shares[i], rows, own, parts.empty() ? outcome : *parts[i]).run();
  };
  std::size_t number = 0;
  Status status = run_together(plan.shares.size(), work.cancellation, run_share, number);
  failed = plan.shares[number].device;
  if (!status.ok()) return status;
  for (const std::unique_ptr<Outcome>& part : parts) outcome.merge(*part, 0);
  return status;
}

}  // namespace warplite::engine
