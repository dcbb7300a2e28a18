// The scan (scan.h) of RaBitQ codes.
// Not thread-safe: one per thread, as are the states.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cpu/ivf/context.h"
#include "cpu/ivf/rabitq_lists.h"
#include "cpu/ivf/scan.h"

namespace warplite::cpu {

class RabitqScan {
 public:
  struct Query {
    explicit Query(const IvfContext& context) : rows(context.keep()) {}
    void absorb(const Query& other) { rows.candidates.merge(other.rows.candidates); }

    std::size_t number = 0;
    std::uint32_t list = kNoList;  // that was entered last
    RabitqLists::Query rows;
  };
  struct Visit {
    Query* query;
    Probe probe;
  };

  explicit RabitqScan(const IvfContext& context)
      : context_(context),
        filtered_(!context.rows().all_live()),
        lists_(context.shape(), context.work().distance == Distance::kInnerProduct),
        refiner_(context) {}

  void begin(std::size_t number, Query& query) {
    query.number = number;
    query.list = kNoList;
    lists_.begin(query.rows);
  }
  void join(const Query& first, Query& query) { begin(first.number, query); }
  // Asks memory for what scan() will read.
  void ask_for(std::uint32_t list, const IvfSpan& span) {
    lists_.ask_for(of(span), context_.centroid(list),
                   filtered_ && context_.live(span.run) == nullptr);
  }
  void scan(const IvfSpan& span, std::span<const Visit> visits) {
    RabitqLists::Span rows = of(span);
    if (filtered_) {
      rows.live = find_live(span, rows);
      if (rows.live == nullptr) return;
    }
    for (const Visit& visit : visits) {
      Query& query = *visit.query;
      if (query.list != visit.probe.list) {
        lists_.enter(context_.model_query(query.number), context_.centroid(visit.probe.list),
                     query.rows);
        query.list = visit.probe.list;
      }
      lists_.scan(rows, query.rows);
    }
  }
  void end(Query& query) { lists_.end(query.rows); }
  void finish(Query& query, TopK& best) {
    end(query);
    refiner_.finish(query.number, query.rows.candidates, best);
  }
  // Tables are a list's, so that queries share its bytes alone: 1,000 of a million rows take a
  // sixth less.
  static bool together(const IvfContext&) { return true; }

 private:
  static constexpr std::uint32_t kNoList = 0xffffffffu;

  RabitqLists::Span of(const IvfSpan& span) const {
    return {&context_.run(span.run), span.begin, span.end, nullptr,
            context_.rows().first_of(span.run)};
  }
  // A bit for each row of a group that takes part; null: none does.
  const std::uint32_t* find_live(const IvfSpan& span, const RabitqLists::Span& rows) {
    constexpr std::uint32_t kRows = compute::RabitqGroup::kRows;
    const std::size_t groups = (span.end - span.begin) / kRows;
    const std::uint32_t* live = context_.live(span.run);
    if (live != nullptr) {
      live += span.begin / kRows;
    } else {
      live_.resize(std::max(live_.size(), groups));
      rabitq_kernels().live(rows.run->ordinals + span.begin, groups, context_.rows().live(),
                            rows.first, live_.data());
      live = live_.data();
    }
    const bool none =
        std::all_of(live, live + groups, [](std::uint32_t bits) { return bits == 0; });
    return none ? nullptr : live;
  }

  const IvfContext& context_;
  const bool filtered_;
  RabitqLists lists_;
  Refiner refiner_;
  std::vector<std::uint32_t> live_;
};

}  // namespace warplite::cpu
