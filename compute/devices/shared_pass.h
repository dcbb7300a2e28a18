// Several searches as one pass over the rows that they have in common, in memory of its own, so that a
// member may leave early. Where a device takes terms of queries' own, members may differ in range, in k
// and in the rows that pass their filters; else in a small k.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "core/error.h"

namespace warplite::compute {

// Where the answers of a search go: the nearest of every query, or all within its range.
struct Answers {
  HitTable* nearest = nullptr;
  HitLists* within = nullptr;
};

// The blocks that are segments: the tail, which has a name of its own, follows them.
std::span<const Block> segments(const Workload& work);

// One of the searches that may share a pass.
struct PassMember {
  // Searches for so many rows may run with those for other numbers, and those for so many where each query
  // has its own number.
  static constexpr std::size_t kFewNearest = 128, kManyNearest = 1024;
  // Of blocks, made without a lock: to compare those of a thousand segments takes a while. Equal ones are
  // those of equal vectors.
  struct Fingerprint {
    std::uint64_t low = 0, high = 0;
    friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  };

  PassMember(const Workload& of, const Answers& answers);
  // Copies which rows take part, so that a pass needs no more of the search but its queries, which it copies
  // when it is made, and `to`. Throws std::bad_alloc.
  void keep_rows();

  const Workload* work;
  Answers to;
  std::size_t queries, k;
  Fingerprint vectors;   // of the segments
  bool filtered = false;  // some rows of segments do not take part
  bool dense = false;     // but kSharingPart of them do

  std::vector<const std::uint64_t*> live;  // by block, once the rows are kept; null: all of the block's
  std::vector<std::uint64_t> words;        // of that
  std::vector<std::uint32_t> live_rows;    // by block, the same
};

// Says whether one pass over the segments may serve both.
bool can_share(const PassMember& a, const PassMember& b, bool own_terms);
// And over those and the tail.
bool same_number(const PassMember& a, const PassMember& b, bool own_terms);

class SharedPass {
 public:
  // REQUIRES: every two can share it. All but the first have kept their rows. Throws std::bad_alloc.
  SharedPass(std::vector<PassMember*> members, bool own_terms);
  SharedPass(const SharedPass&) = delete;
  SharedPass& operator=(const SharedPass&) = delete;

  // Puts together which rows take part: takes its time, and needs nothing of who left. Throws
  // std::bad_alloc.
  void unite();

  const Workload& work() const { return work_; }
  Answers answers();
  // False: members have other tails, and the pass is over the segments alone.
  bool has_tails() const { return has_tails_; }
  // Gives the next member its answers. REQUIRES: it is there.
  Status hand_out();
  // Goes past a member that left.
  void pass_over();

 private:
  bool rows_differ() const;
  void unite_block(std::size_t block, std::uint64_t* words);

  const std::vector<PassMember*> members_;
  std::vector<std::byte> queries_;
  Workload work_;
  bool has_tails_;
  bool own_rows_ = false;  // some take part for some queries only
  std::vector<Block> blocks_;
  std::vector<std::uint64_t> words_;
  std::vector<OwnTerms> own_;
  HitTable nearest_;
  HitLists within_;
  std::size_t next_member_ = 0, next_query_ = 0;
};

}  // namespace warplite::compute
