// The scan (scan.h) of RaBitQ codes.
// Not thread-safe: one per thread, as are the states.
#pragma once

#include <span>

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
    lists_.ask_for(of(span), context_.centroid(list));
  }
  void scan(const IvfSpan& span, std::span<const Visit> visits) {
    for (const Visit& visit : visits) {
      Query& query = *visit.query;
      if (query.list != visit.probe.list) {
        lists_.enter(context_.model_query(query.number), context_.centroid(visit.probe.list),
                     query.rows);
        query.list = visit.probe.list;
      }
      lists_.scan(of(span), query.rows);
    }
  }
  void end(Query& query) { lists_.end(query.rows); }
  void finish(Query& query, TopK& best) {
    end(query);
    refiner_.finish(query.number, query.rows.candidates, best);
  }
  // Tables are a list's, so that queries share its bytes alone: 1,000 of a million rows take a sixth less.
  static bool together(const IvfContext&) { return true; }

 private:
  static constexpr std::uint32_t kNoList = 0xffffffffu;

  RabitqLists::Span of(const IvfSpan& span) const {
    const RowMap& rows = context_.rows();
    return {&context_.run(span.run), span.begin, span.end, rows.all_live() ? nullptr : &rows,
            rows.first_of(span.run)};
  }

  const IvfContext& context_;
  RabitqLists lists_;
  Refiner refiner_;
};

}  // namespace warplite::cpu
