// The coded parts of one search: which of them are in the way, what a device holds of them, and
// whether a query has looked far enough. Threads: as the view. Ownership: borrows what it is made
// of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "engine/ivf/ivf_set.h"
#include "engine/ivf/reach.h"
#include "engine/ivf/rescorer.h"
#include "engine/ivf/surroundings.h"
#include "engine/residency/attempt.h"
#include "index/recall/calibration.h"

namespace warplite::engine {

// Some of the queries, as the column has them; and in model space once anybody asks for that, since
// a device may make it of many by itself. Ownership: borrows what it is made of.
// Threads: one, until it has asked for in_model_space().
class Queries {
 public:
  Queries(const MatrixView& as_given, const index::InvertedModel& model)
      : given(as_given), model_(model) {}

  const MatrixView given;
  const float* in_model_space() const;  // [given.rows][dim]
  // By what scores of a query are multiplied. REQUIRES: in_model_space().
  float scale(std::size_t query) const { return scales_[query]; }

 private:
  const index::InvertedModel& model_;
  mutable Bytes space_;
  mutable std::vector<float> scales_;
};

// What queries have seen of their lists: as compute::IvfWork has it.
struct Sights {
  bool resumes = false;  // lists that were searched need not be again
  std::span<const std::uint32_t> searched;  // so many of each were not; empty: all were
  std::uint32_t told = 0;      // lists of each that are told of
  std::vector<compute::ProbedList> lists;
  std::vector<float> left;

  // What the same queries have seen of the same lists among other rows.
  void add(const Sights& others);
};
// One of them.
struct Sight {
  std::uint32_t nprobe = 0;                    // lists that it has looked into,
  std::span<const compute::ProbedList> lists;  // and those of them that it is told of
  std::optional<std::size_t> step = {};        // of contrast, where recall was measured by it
  float left = 0;
  std::span<const Hit> found;  // the nearest that lists hold
  double nearest = 0, farthest = 0;  // scores of these rows, of all that it has found
  bool enough = false;  // it has found as many rows as it wants
  double norm = 0;      // of the query in model space, where distances are products
  double scale = 1;     // by which its scores are multiplied
};

// The coded parts of one search.
class ListSearch {
 public:
  ListSearch(const View& view, const Selection& rows, const index::InvertedIndex& index,
             const SearchRequest& request, std::size_t k, std::shared_ptr<const CodedParts> coded,
             const index::InvertedModel& model);

  std::uint64_t selected() const { return selected_; }
  const Reach& reach() const { return reach_; }

  // How many lists a query looks into that is told of these, and of which step its contrast is.
  std::uint32_t lists_of(const Reach& reach, std::span<const compute::ProbedList> told) const;
  std::optional<std::size_t> step_of(std::span<const compute::ProbedList> told) const;
  // Says whether the nearest of them has hardly any rows left.
  static bool is_emptied(std::span<const compute::ProbedList> told);
  // Lists for a query whose nearest one is.
  std::uint32_t far_from_emptied() const;
  // What a query is to look at that has found this, having looked so far; none: nothing more.
  std::optional<Reach> farther(const Reach& reach, const Sight& sight) const;

  // Says whether a filter is in the way of a recall that was asked for.
  bool watches_filter() const {
    return selected_ != coded_->live_rows && reach_.expected_recall.has_value() &&
           asked_recall(index_, request_).has_value();
  }
  // Says whether it is worth while to ask if codes left out what they should not, and there is a way to
  // more candidates.
  bool watches_codes() const {
    return shape_.planes != 0 && !view_.layout().codes_only && !request_.refine &&
           asked_recall(index_, request_).has_value() && model_.calibration() != nullptr &&
           model_.calibration()->spread.known();
  }

  // Returns whether comparing every selected row takes no longer. That holds only where vectors
  // were kept: to decode vectors takes longer than to look at their codes. Without a filter the
  // lists that are probed are the user's choice, as long as little depends on it.
  bool better_exact() const;

  // A distance, as codes estimate it for a query without a scale.
  double score(double distance) const {
    if (request_.distance == Distance::kL2) return distance * distance;
    return request_.distance == Distance::kCosine ? 2 * distance : distance;
  }

  // Describes the attempt at so many queries.
  Attempt attempt(std::size_t queries);

  // The nearest that lists of each query hold; without the `searched` nearest lists, where the
  // device can pass over them. `sights` says whether it did, and under a filter that is watched it
  // tells of lists. `reach` grows where the device is known to need more candidates.
  compute::HitTable nearest(Attempt& attempt, const Queries& queries, Reach& reach,
                            std::span<const std::uint32_t> searched, Sights& sights);

  // That codes lost rows of so many of the queries that were seen after such a search, with this reach.
  void note_losses(const Reach& reach, std::size_t lost, std::size_t seen);

 private:
  // The same as better_exact() where vectors are read from the file: to compare every row, whole
  // blocks, or the rows that pass where they are few; those of nominees else. Codes that do not
  // fit, either, are sorted anew by every search. Measured as read_costs.h has it.
  bool better_streamed() const;
  bool sorts_anew() const;  // codes

  // The same where a GPU answers: under a filter, for a batch that asks for a recall, or where lists would be
  // looked at by the host, or all of them.
  bool better_on_device() const;
  double exact_cost_on_device() const;
  double lists_cost_on_device() const;
  double lists_cost_beside_device() const;
  bool fits_device_results() const;
  // More of them share the rows that are compared, in a product, which is quicker.
  static constexpr std::size_t kFewQueries = 4;
  Demand demand(std::size_t queries) const;

  // Chooses the parts with selected rows; or all parts, when most have some, since what is loaded
  // for all of them serves the next search too.
  void choose_parts();

  static bool has_any(const CodedParts::Run& run, const std::vector<bool>& parts);

  // Of what is to be in memory to search these parts.
  std::size_t bytes_of(const std::vector<bool>& parts) const;
  std::size_t vector_bytes(const std::vector<bool>& parts) const;

  IvfMemo& memo_of_lists() const { return view_.derived_of_segments().of<IvfMemo>(); }
  ReachMemo& memo() const { return view_.derived_of_segments().of<ReachMemo>(); }

  ReachQuestion question(std::uint64_t selected) const {
    return {index_, model_, request_, coded_->rows, selected, k_, view_.layout().codes_only,
            crowding_};
  }

  // Says whether the distances found are those of codes.
  bool codes_decide(const Reach& reach) const { return shape_.m != 0 && reach.refine == 0; }

  // Lists are probed until k rows were found, which takes more of them where few are selected.
  Reach likely_reach() const;

  // Says whether the rows that were found tell where among all rows they lie.
  bool locates(const Sight& sight) const {
    return sight.enough && model_.calibration()->spread.known();
  }
  Surroundings around(const Sight& sight, double errors) const;

  // Says whether what one query needed is kept for the next one.
  bool remembers() const { return request_.queries.rows == 1 && watches_filter() && !rescorer_; }
  void remember(std::uint32_t nprobe) const {
    if (remembers()) memo().note(question(selected_), nprobe);
  }

  // What a query of that contrast is to find, so that all of them find what is asked for on average.
  double recall_due(const Sight& sight) const;
  // Says whether that is to be expected of what was seen, chance aside.
  bool finds_enough(const Reach& reach, const Surroundings& seen, const Sight& sight) const;

  // Far from the query many rows are about as far as one another, and codes do not tell which are
  // nearest: then rows were left out whose scores are better than the farthest row that was found,
  // or not so much worse that it may not be the codes that are wrong.
  bool is_blurred(const Surroundings& seen, const Sight& sight) const {
    return is_far(seen) && (sight.farthest > static_cast<double>(sight.left) ||
                            lost_by_codes(sight) > 1 - *asked_recall(index_, request_));
  }
  // The part of the rows wanted that codes are likely to have left out; 0 where that is not known,
  // or where there is no way to more.
  double lost_by_codes(const Sight& sight) const;

  // Says whether rows pass near the query as they do anywhere: then it was searched far enough.
  bool is_as_everywhere(const Surroundings& seen) const {
    constexpr double kAlike = 1.1;
    return seen.share <= kAlike * Passing{searched_, selected_, k_}.everywhere().share &&
           seen.beyond <= kAlike && seen.nearer == 0;
  }

  static constexpr double kFar = 4;
  // Says whether the rows wanted lie farther than those of a filter that any rows pass.
  bool is_far(const Surroundings& seen) const {
    return seen.share > kFar * Passing{searched_, selected_, k_}.everywhere().share;
  }

  // The next number of candidates to try, where so many were too few; the same: there is none.
  std::size_t more_candidates(const Reach& reach) const;

  Reach as_far_as_rows_lie(const Reach& reach, const Sight& sight) const;

  // Those that one query reads, about.
  double bytes() const;

  // Says whether the device holds, or may soon hold, what is searched. If not, what it lacks is
  // copied in the background.
  bool ready(Attempt::Devices devices);
  bool ready(compute::Device& device, const std::vector<bool>& parts);

  HeldSets<IvfSet>& sets() const { return view_.derived_of_segments().of<HeldSets<IvfSet>>(); }
  // Null: there is none that suits. A set of all rows will do where parts() are asked for.
  std::shared_ptr<IvfSet> known_set(const compute::Device& device,
                                    const std::vector<bool>& parts) const;

  // What is loaded for a device, or for all of them.
  const std::vector<bool>& parts() const { return fits_ ? wanted_ : all_; }
  void load_all() {
    if (loaded_ == nullptr) loaded_ = load(wanted_);
  }
  std::shared_ptr<const IvfBlocks> load(const std::vector<bool>& wanted,
                                        compute::Device* onto = nullptr) const {
    return load_ivf_blocks(view_, request_.column, index_, coded_, wanted, with_vectors_, onto);
  }
  // False where the host has to count rows of lists for the device. It needs the codes for that.
  bool is_counted_by(const compute::Device& device) const {
    return !watches_filter() || device.counts_lists(shape_);
  }
  // Says whether parts() fit into what the device may hold.
  bool has_room(compute::Device& device) const;
  // Says whether the device is to have all codes, one run after the other, since its memory has
  // room for them and the host's has not.
  bool takes_over(compute::Device& device) const;
  bool can_be_handed(compute::Device& device) const;
  // What each run of parts() takes on a device, with its vectors.
  std::vector<std::size_t> bytes_of_runs(Extent extent) const;
  // How devices share the rows where none has room for all of them, or for what is hot; empty: they
  // do not.
  std::vector<RunShare> spread(Attempt::Devices devices, const Reach& reach) const;

  // Those of the devices that answer: the first, and others that hold everything where there are
  // queries for them. What those lack that do not is copied in the background, unless they were
  // `named`.
  std::vector<compute::Device*> answering(Attempt::Devices devices, std::size_t queries, bool named);
  Status search(Attempt::Devices devices, const Queries& queries, const Reach& reach,
                Sights& sights, compute::HitTable& best, compute::Device*& failed);
  // All queries on each device, which has some of the rows.
  Status search_spread(std::span<const RunShare> shares, const Queries& queries,
                       const Reach& reach, Sights& sights, compute::HitTable& best,
                       compute::Device*& failed);
  // Of some of the queries, for a device. `sights`: of all of them.
  compute::IvfWork work_for(const compute::Device& device, const Queries& queries,
                            std::size_t first, std::size_t count, const Reach& reach,
                            Sights& sights) const;
  // Says whether the device brings so many queries into model space, and the host does not need
  // them there.
  bool rotates(const compute::Device& device, std::size_t queries) const {
    return model_.rotates_at_random() && device.rotates_queries(shape_, queries) &&
           request_.distance != Distance::kInnerProduct && !watches_filter() && !rescorer_;
  }
  // May be called on any thread, where no rows are read from the file.
  Status search_on(const IvfSet& set, const compute::IvfWork& work, compute::HitTable& best);

  // The device's set of these parts, made where there is none. Null, and an error, where it cannot
  // be.
  // REQUIRES: fits_, or it takes_over() or is to have a share.
  std::shared_ptr<IvfSet> use_set(compute::Device& device, const std::vector<bool>& parts,
                                  Status& status);
  std::shared_ptr<IvfSet> make_set(compute::Device& device, const std::vector<bool>& parts,
                                   Status& status);

  Status search_set(const IvfSet& set, const compute::IvfWork& work, compute::HitTable& best);

  // Rows of a query that are compared by their vectors.
  std::size_t nominees(const compute::IvfWork& work, std::size_t k) const;

  // Hands the rows that are to be compared to the rescorer: with codes, the `each` best by them.
  Status nominate(const IvfSet& set, compute::IvfWork work, std::size_t each);

  // The host counts rows of lists for a device that does not.
  Status count(const IvfSet& set, const compute::IvfWork& work) const;

  // Runs that fit into half of the memory budget, then the next ones.
  Status search_groups(compute::Device& device, const compute::IvfWork& work,
                       compute::HitTable& best);

  Status search_group(compute::Device& device, const std::vector<bool>& group,
                      const compute::IvfWork& work, compute::HitTable& best);

  const View& view_;
  const Selection& rows_;
  const index::InvertedIndex& index_;
  const SearchRequest& request_;
  const std::size_t k_;
  const std::shared_ptr<const CodedParts> coded_;
  const index::InvertedModel& model_;
  const compute::IvfShape shape_;
  double crowding_;  // as it is known when the search begins
  Reach reach_;
  bool with_vectors_;
  std::vector<bool> wanted_;    // by coded part
  std::vector<bool> all_;       // the same, of all that are live or not
  std::uint64_t selected_ = 0;  // rows of coded parts
  std::uint64_t searched_ = 0;  // rows of runs that have any of those
  bool everywhere_ = false;     // all coded parts are wanted
  std::size_t limit_;
  bool fits_;
  std::size_t bytes_ = 0;  // of parts()
  std::optional<Rescorer> rescorer_;         // when vectors do not fit
  std::shared_ptr<const IvfBlocks> loaded_;  // when it fits, and was not found loaded
};

}  // namespace warplite::engine
