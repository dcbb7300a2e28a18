// A scan is what one thread does for the queries it searches for: rows of probed lists are compared
// as they are (FlatScan), or by their codes (CodeScan). Both are used alike, by ivf_search.cc:
//   begin(query, of)   a query's state before its first span
//   join(first, of)    the same, to help another thread that began it
//   scan(spans, visits) spans of one list, for all queries that probe it
//   finish(of, best)   after the last span
// and where the next spans are to be known, or some rows are looked at late:
//   ask_for(list, span) before the span is looked at
//   end(of)            after a thread's last span
// Not thread-safe: one per thread, as are the states.
#pragma once

#include <span>
#include <vector>

#include "core/bytes.h"
#include "cpu/ivf/candidates.h"
#include "cpu/ivf/context.h"

namespace warplite::cpu {

class FlatScan {
 public:
  static constexpr bool kQueryByQuery = false;

  struct Query {
    explicit Query(const IvfContext& context) : best(context.k()) {}
    void absorb(const Query& other) { best.merge(other.best); }

    std::size_t number = 0;
    TopK best;
  };
  struct Visit {
    Query* query;
    Probe probe;
  };

  explicit FlatScan(const IvfContext& context)
      : context_(context), scorer_(context.make_scorer()) {}

  void begin(std::size_t number, Query& query) {
    query.number = number;
    query.best = TopK(context_.k());
  }
  void join(const Query& first, Query& query) { begin(first.number, query); }
  void scan(std::span<const IvfSpan> spans, std::span<const Visit> visits);
  void end(Query&) { compare_waiting(); }
  void finish(Query& query, TopK& best) {
    compare_waiting();
    best.merge(query.best);
  }
  // Says whether queries that probe a list had better do so together.
  static bool together(const IvfContext&) { return true; }

 private:
  // That are compared together, at least: memory is asked for some rows ahead.
  static constexpr std::size_t kTogether = 64;

  void scan_span(const IvfSpan& span, std::span<const Visit> visits);
  void add_rows(const IvfSpan& span);
  void compare_waiting();

  const IvfContext& context_;
  RowScorer scorer_;
  std::vector<RowPlace> rows_;
  std::vector<RowScorer::Target> targets_;
  Query* waiting_ = nullptr;  // whom rows_ are to be compared with
};

// A Refiner turns candidates into hits: by their canonical distances, or those of their codes.
class Refiner {
 public:
  explicit Refiner(const IvfContext& context) : context_(context), scorer_(context.make_scorer()) {}

  // `number`: of the query.
  void finish(std::size_t number, Candidates& candidates, TopK& best);

 private:
  const IvfContext& context_;
  RowScorer scorer_;
  std::vector<RowPlace> rows_;
};

class CodeScan {
 public:
  static constexpr std::uint32_t kNoList = 0xffffffffu;

  static constexpr bool kQueryByQuery = false;

  struct Query {
    explicit Query(const IvfContext& context) : candidates(context.keep()) {}
    void absorb(const Query& other) { candidates.merge(other.candidates); }

    std::size_t number = 0;
    PqTables tables;
    std::uint32_t list = kNoList;  // that the tables are of, where each has its own
    Bytes entries;
    Candidates candidates;
  };
  struct Visit {
    Query* query;
    Probe probe;
  };

  explicit CodeScan(const IvfContext& context);

  void begin(std::size_t number, Query& query);
  void join(const Query& first, Query& query);
  void scan(std::span<const IvfSpan> spans, std::span<const Visit> visits);
  void finish(Query& query, TopK& best) { refiner_.finish(query.number, query.candidates, best); }
  static bool together(const IvfContext& context);

 private:
  struct Part;
  void scan_span(const IvfSpan& span, std::span<const Visit> visits);
  void make_tables(const float* origin, Query& query);
  void scan_one(const Part& part, const Visit& visit);
  void scan_two(const Part& part, const Visit* visits);
  void sum(const Part& part, const PqTables& tables);
  void keep(const Part& part, const Visit& visit, const std::uint16_t* sums);

  const IvfContext& context_;
  Refiner refiner_;
  std::vector<float> scratch_, scores_;
  std::vector<std::uint16_t> sums_, other_sums_;
  std::vector<std::uint32_t> wide_, places_;
};

}  // namespace warplite::cpu
