// How far a search through an inverted file looks: into so many lists, at so many candidates. A
// query says it, or its table; or they say what recall they need, and the cheapest way to it is
// chosen by what training has measured (index/recall/calibration.h). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/ivf/surroundings.h"
#include "engine/search/search.h"
#include "index/trained.h"

namespace warplite::engine {

// What a search is about.
struct ReachQuestion {
  const index::InvertedIndex& index;
  const index::InvertedModel& model;
  const SearchRequest& request;
  std::uint64_t rows;      // that have codes
  std::uint64_t selected;  // of these
  std::size_t k;
  bool codes_only;
  double crowding = 0;  // IvfBlocks::crowding(); 0: not known
};

struct Reach {
  std::uint32_t nprobe = 1;
  std::size_t refine = 0;
  std::optional<double> expected_recall = {};  // none: it was not measured
  bool exact = false;                          // to compare every row is as good a way
  // Where it is known, queries probe fewer by their contrast, `mean_nprobe` on average.
  compute::ContrastSteps by_contrast = {};
  double mean_nprobe = 0;

  double lists() const { return by_contrast.known() ? mean_nprobe : nprobe; }
  // All queries probe so many.
  void set_lists(std::uint32_t lists) {
    nprobe = lists;
    by_contrast = {};
  }
};

// What is asked of recall, unless lists to probe are named instead.
std::optional<double> asked_recall(const index::Trained& trained, const SearchRequest& request);

Reach reach_of(const ReachQuestion& question);
// Around one query, where the rows that pass a filter lie as was seen: with as many candidates as
// before, where that is a way. REQUIRES: a recall is asked for, and was measured.
Reach reach_of(const ReachQuestion& question, const Surroundings& around, std::size_t refine,
               double recall);
// What such a query finds.
double expected_recall(const ReachQuestion& question, const Surroundings& around,
                       const Reach& reach);

// The fewest of the lists probed that would have done, as was seen of them.
std::uint32_t least_nprobe(const ReachQuestion& question, const Surroundings& around,
                           const Reach& reach);

// Remembers the last answers of one view: to weigh the ways to a recall takes longer than a short
// search. And what the last queries needed, where filters have to do with where rows lie: filters
// that leave about as many rows are often of one kind, and who begins where the queries before
// ended need not go there step by step. Threads: as the view.
class ReachMemo {
 public:
  // reach_of(), of a column of that view.
  const Reach& of(const ReachQuestion& question) { return answer(question).reach; }
  // Of a query whose filter is watched: no less, and likely to be enough.
  Reach start(const ReachQuestion& question);
  // So many lists did for such a query; 0: it was for nothing, and every row was compared.
  void note(const ReachQuestion& question, std::uint32_t nprobe);

 private:
  // What an answer depends on, in one view.
  struct Key {
    std::size_t column, k;
    std::uint64_t rows, selected;
    std::uint32_t nprobe, farther;
    std::optional<double> recall;
    std::optional<std::size_t> refine;
    double crowding;
    friend bool operator==(const Key&, const Key&) = default;
  };
  // Of a query: so many lists, or every row.
  struct Need {
    std::uint32_t nprobe;
    bool exact;
  };
  struct Answer {
    Key key;
    Reach reach;
    std::vector<Need> needs = {};  // of the last queries
    std::size_t queries = 0;       // whose needs were noted
    Reach start = {};              // that suits these
    std::size_t starts = 0;
  };
  static Reach best_start(const ReachQuestion& question, const Answer& known);
  static std::uint64_t about(const ReachQuestion& question);
  Answer& answer(const ReachQuestion& question);

  std::vector<Answer> answers_;
  std::size_t oldest_ = 0;
};

// Nanoseconds, about, that one thread takes for a query.
double exact_cost(const ReachQuestion& question);
double reach_cost(const ReachQuestion& question, const Reach& reach);
// Of a reach into all lists, where rows that pass lie together in some; infinity: that is no way.
double whole_cost(const ReachQuestion& question, const Reach& reach);

}  // namespace warplite::engine
