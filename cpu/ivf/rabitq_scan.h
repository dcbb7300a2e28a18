// The scan (scan.h) of RaBitQ codes.
// Not thread-safe: one per thread, as are the states.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "cpu/ivf/context.h"
#include "cpu/ivf/rabitq_lists.h"
#include "cpu/ivf/scan.h"

namespace warplite::cpu {

class RabitqScan {
 public:
  static constexpr bool kQueryByQuery = true;

  struct Query {
    explicit Query(const IvfContext& context) : candidates(context.keep()) {}
    void absorb(const Query& other) { candidates.merge(other.candidates); }

    std::size_t number = 0;
    Candidates candidates;
  };
  struct Visit {
    Query* query;
    Probe probe;
  };

  explicit RabitqScan(const IvfContext& context)
      : context_(context),
        filtered_(!context.rows().all_live()),
        lists_(context.shape(), context.work().distance == Distance::kInnerProduct,
               context.work().codes_decide),
        refiner_(context) {}

  void begin(std::size_t number, Query& query) {
    query.number = number;
    query.candidates.clear();
    entered_ = nullptr;
  }
  void join(const Query& first, Query& query) { begin(first.number, query); }
  // Asks memory for what scan() will read.
  void ask_for(std::uint32_t list, const IvfSpan& span) {
    RabitqLists::Span rows = of(span);
    rows.live = context_.live(span);
    lists_.ask_for(rows, context_.centroid(list), filtered_);
  }
  // Spans of one list, some queries at a time, since tables are a query's.
  void scan(std::span<const IvfSpan> spans, std::span<const Visit> visits) {
    rows_.clear();
    if (filtered_) live_.resize(std::max(live_.size(), groups_of(spans)));
    std::uint32_t* live = live_.data();
    for (const IvfSpan& span : spans) {
      RabitqLists::Span rows = of(span);
      if (filtered_) {
        rows.live = find_live(span, rows, live);
        live += groups_of({&span, 1});
        if (rows.live == nullptr) continue;
      }
      rows_.push_back(rows);
    }
    for (; !visits.empty(); visits = visits.subspan(std::min(kTogether, visits.size()))) {
      const std::span<const Visit> some = visits.first(std::min(kTogether, visits.size()));
      if (!rows_.empty()) enter(some);
      for (const RabitqLists::Span& rows : rows_) lists_.scan(rows);
    }
  }
  void end(Query&) { lists_.end(); }
  void finish(Query& query, TopK& best) {
    end(query);
    refiner_.finish(query.number, query.candidates, best);
  }
  // Tables are a list's, so that queries share its bytes alone, and what becomes of them.
  static bool together(const IvfContext&) { return true; }

 private:
  static constexpr std::size_t kTogether = RabitqLists::kQueries;

  // A query that is alone has entered a list for all of its spans.
  void enter(std::span<const Visit> visits) {
    const std::uint32_t list = visits.front().probe.list;
    if (visits.size() == 1 && entered_ == visits.front().query && list_ == list) return;
    std::array<RabitqLists::Viewer, kTogether> viewers;
    for (std::size_t i = 0; i < visits.size(); ++i) {
      Query& query = *visits[i].query;
      viewers[i] = {context_.model_query(query.number), &query.candidates};
    }
    lists_.enter({viewers.data(), visits.size()}, context_.centroid(list));
    entered_ = visits.size() == 1 ? visits.front().query : nullptr;
    list_ = list;
  }

  RabitqLists::Span of(const IvfSpan& span) const {
    return {&context_.run(span.run), span.begin, span.end, nullptr,
            context_.rows().first_of(span.run)};
  }
  static std::size_t groups_of(std::span<const IvfSpan> spans) {
    std::size_t groups = 0;
    for (const IvfSpan& span : spans) groups += span.groups();
    return groups;
  }
  // A bit for each row of a group that takes part, perhaps written to `memory`; null: none does.
  const std::uint32_t* find_live(const IvfSpan& span, const RabitqLists::Span& rows,
                                 std::uint32_t* memory) const {
    const std::size_t groups = groups_of({&span, 1});
    const std::uint32_t* live = context_.live(span);
    if (live == nullptr) {
      const std::size_t first = std::size_t{rows.first_group()} * compute::RabitqGroup::kRows;
      rabitq_kernels().live(rows.run->ordinals + first, groups, context_.rows().live(), rows.first,
                            memory);
      memory[0] &= compute::RabitqGroup::rows_of(span.begin, span.end, rows.first_group());
      memory[groups - 1] &=
          compute::RabitqGroup::rows_of(span.begin, span.end, rows.end_group() - 1);
      live = memory;
    }
    const bool none =
        std::all_of(live, live + groups, [](std::uint32_t bits) { return bits == 0; });
    return none ? nullptr : live;
  }

  const IvfContext& context_;
  const bool filtered_;
  RabitqLists lists_;
  Refiner refiner_;
  std::vector<RabitqLists::Span> rows_;  // of the list that is scanned
  std::vector<std::uint32_t> live_;      // of these
  const Query* entered_ = nullptr;  // who alone has entered a list last
  std::uint32_t list_ = 0;
};

}  // namespace warplite::cpu
