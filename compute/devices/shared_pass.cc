#include "compute/devices/shared_pass.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "compute/devices/guarded.h"

namespace warplite::compute {
namespace {

std::size_t words_of(const Block& block) { return (std::size_t{block.rows} + 63) / 64; }

// Under the same names. Rowids need no look: the same vectors belong to the same segment, or to the
// same tail.
bool same_vectors(const Block& a, const Block& b) {
  const bool same = a.vectors == b.vectors || (a.name == b.name && !a.name.is_null());
  return same && a.rows == b.rows && a.id == b.id;
}

bool same_live(const Block& a, const Block& b) {
  if (a.live == b.live && a.live_rows == b.live_rows) return true;
  if (a.live == nullptr || b.live == nullptr || a.live_rows != b.live_rows) return false;
  return std::memcmp(a.live, b.live, words_of(a) * 8) == 0;
}

bool same_rows(const Block& a, const Block& b) { return same_vectors(a, b) && same_live(a, b); }

using Blocks = std::span<const Block>;

bool all_same(Blocks a, Blocks b, bool own_terms) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), own_terms ? same_vectors : same_rows);
}

Blocks tail(const Workload& work) { return work.blocks.subspan(segments(work).size()); }

// A bijection of which every bit of the result depends on every bit given.
std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ bits >> 32) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ bits >> 32) * 0x9e3779b97f4a7c15u;
  return bits ^ bits >> 32;
}

std::vector<std::size_t> ks_of(const std::vector<PassMember*>& members, bool own_terms) {
  std::vector<std::size_t> ks;
  for (const PassMember* member : members) ks.insert(ks.end(), member->queries, member->k);
  const std::size_t most = *std::max_element(ks.begin(), ks.end());
  if (!own_terms) std::fill(ks.begin(), ks.end(), most);
  return ks;
}

}  // namespace

Blocks segments(const Workload& work) {
  const bool tail = !work.blocks.empty() && !work.blocks.back().name.is_null();
  return work.blocks.first(work.blocks.size() - static_cast<std::size_t>(tail));
}

PassMember::PassMember(const Workload& of, const Answers& answers)
    : work(&of), to(answers), queries(of.queries.rows),
      k(answers.nearest != nullptr ? answers.nearest->k() : 0) {
  const Blocks blocks = segments(of);
  std::uint64_t rows = 0, taking_part = 0;
  vectors = {blocks.size(), ~std::uint64_t{blocks.size()}};
  for (const Block& block : blocks) {
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(block.vectors);
    const std::uint64_t shape = std::uint64_t{block.rows} << 32 | block.id;
    vectors.low = mix(vectors.low ^ address) + shape;
    vectors.high = mix(vectors.high + shape) ^ address;
    filtered |= block.live != nullptr;
    rows += block.rows;
    taking_part += block.live_rows;
  }
  dense = taking_part * kSharingPart >= rows;
}

void PassMember::keep_rows() {
  if (!live.empty()) return;
  std::size_t size = 0;
  for (const Block& block : work->blocks) size += block.live != nullptr ? words_of(block) : 0;
  words.resize(size);
  live.reserve(work->blocks.size());
  live_rows.reserve(work->blocks.size());
  std::uint64_t* next = words.data();
  for (const Block& block : work->blocks) {
    live.push_back(block.live != nullptr ? next : nullptr);
    live_rows.push_back(block.live_rows);
    if (block.live == nullptr) continue;
    std::memcpy(next, block.live, words_of(block) * 8);
    next += words_of(block);
  }
}

bool can_share(const PassMember& a, const PassMember& b, bool own_terms) {
  const Workload &x = *a.work, &y = *b.work;
  const bool alike = (a.to.nearest == nullptr) == (b.to.nearest == nullptr) &&
                     x.distance == y.distance && x.queries.type == y.queries.type &&
                     x.queries.dim == y.queries.dim && x.select == y.select && a.vectors == b.vectors;
  if (!alike) return false;
  const bool any_rows = own_terms && a.dense && b.dense;
  if (!any_rows && (a.filtered || b.filtered) && !all_same(segments(x), segments(y), false)) {
    return false;
  }
  return !segments(x).empty() || all_same(tail(x), tail(y), own_terms);
}

bool same_number(const PassMember& a, const PassMember& b, bool own_terms) {
  const std::size_t most = own_terms ? PassMember::kManyNearest : PassMember::kFewNearest;
  return a.k == b.k || std::max(a.k, b.k) <= most;
}

SharedPass::SharedPass(std::vector<PassMember*> members, bool own_terms)
    : members_(std::move(members)), work_(*members_.front()->work),
      nearest_(ks_of(members_, own_terms)) {
  std::size_t count = 0;
  DistanceRange& hull = work_.range;
  bool ranges_differ = false;
  has_tails_ = true;
  for (const PassMember* member : members_) {
    const MatrixView& part = member->work->queries;
    queries_.insert(queries_.end(), part.data, part.data + part.rows * part.stride());
    count += part.rows;
    const DistanceRange& range = member->work->range;
    ranges_differ |= range != members_.front()->work->range;
    hull = {std::min(hull.low, range.low), std::max(hull.high, range.high)};
    own_.insert(own_.end(), part.rows, OwnTerms{range});
    has_tails_ &= all_same(tail(work_), tail(*member->work), own_terms);
  }
  if (!ranges_differ) hull = members_.front()->work->range;
  work_.queries.data = queries_.data();
  work_.queries.rows = count;
  if (!has_tails_) work_.blocks = segments(work_);
  own_rows_ = own_terms && rows_differ();
  if (members_.front()->to.within != nullptr) within_.resize(count);
  if (ranges_differ || own_rows_) work_.own = own_;
}

// Bitmaps in one place are the same; others may be.
bool SharedPass::rows_differ() const {
  const auto same = [](const Block& a, const Block& b) {
    return a.live == b.live && a.live_rows == b.live_rows;
  };
  return !std::all_of(members_.begin(), members_.end(), [&](const PassMember* member) {
    const Blocks theirs = member->work->blocks.first(work_.blocks.size());
    return std::equal(work_.blocks.begin(), work_.blocks.end(), theirs.begin(), same);
  });
}

void SharedPass::unite() {
  if (own_rows_) {
    members_.front()->keep_rows();
    blocks_.assign(work_.blocks.begin(), work_.blocks.end());
    std::size_t words = 0;
    for (const Block& block : blocks_) words += words_of(block);
    words_.resize(words);
    std::uint64_t* next = words_.data();
    for (std::size_t b = 0; b < blocks_.size(); next += words_of(blocks_[b++])) unite_block(b, next);
    work_.blocks = blocks_;
  }
  std::size_t query = 0;
  for (const PassMember* member : members_) {
    std::uint64_t rows = 0;
    for (std::size_t b = 0; b < work_.blocks.size(); ++b) {
      rows += own_rows_ ? member->live_rows[b] : work_.blocks[b].live_rows;
    }
    for (std::size_t i = 0; i < member->queries; ++i, ++query) {
      own_[query].live = own_rows_ ? member->live.data() : nullptr;
      own_[query].live_rows = rows;
    }
  }
}

void SharedPass::unite_block(std::size_t b, std::uint64_t* words) {
  Block& block = blocks_[b];
  block.live = nullptr;
  block.live_rows = block.rows;
  for (const PassMember* member : members_) {
    if (member->live[b] == nullptr) return;  // all of them
    for (std::size_t i = 0; i < words_of(block); ++i) words[i] |= member->live[b][i];
  }
  block.live = words;
  block.live_rows = 0;
  for (std::size_t i = 0; i < words_of(block); ++i) {
    block.live_rows += static_cast<std::uint32_t>(std::popcount(words[i]));
  }
}

Answers SharedPass::answers() {
  return within_.empty() ? Answers{.nearest = &nearest_} : Answers{.within = &within_};
}

Status SharedPass::hand_out() {
  PassMember& member = *members_[next_member_];
  const std::size_t first = next_query_;
  pass_over();
  return guarded([&] {
    for (std::size_t i = 0; i < member.queries; ++i) {
      if (member.to.nearest != nullptr) {
        member.to.nearest->row(i).merge(std::move(nearest_.row(first + i)));
        continue;
      }
      std::vector<Hit>&from = within_[first + i], &to = (*member.to.within)[i];
      if (to.empty()) {
        to = std::move(from);
      } else {
        to.insert(to.end(), from.begin(), from.end());
      }
    }
  });
}

void SharedPass::pass_over() { next_query_ += members_[next_member_++]->queries; }

}  // namespace warplite::compute
