#include "cpu/ivf/search.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compute/device.h"
#include "cpu/ivf/context.h"
#include "cpu/ivf/rabitq_scan.h"
#include "cpu/ivf/scan.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {
namespace {

// Queries searched together, which bounds the memory of a search.
constexpr std::size_t kQueryGroup = 1024;
// Waking a thread costs about as much as reading this many bytes of lists.
constexpr std::size_t kThreadBytes = std::size_t{1} << 18;
constexpr std::size_t kBytesBetweenChecks = std::size_t{1} << 15;
constexpr std::size_t kBytesTogether = std::size_t{1} << 18;  // of one list, in several runs
constexpr std::size_t kVisitsTogether = 8;  // of queries that each read the spans of a list at once
constexpr std::size_t kCountsAhead = 16;  // lists that memory is asked for before they are counted
// Lists that each query reads by itself, to know what is near before lists come in any order.
constexpr std::size_t kFirstLists = 1;

// Consecutive queries, by one thread.
template <class Scan>
class Slice {
 public:
  Slice(const IvfContext& context, Scan& scan, ItemLoop& loop, unsigned thread)
      : context_(context), scan_(scan), loop_(loop), thread_(thread) {}

  // Searches for each query by itself, nearest lists first.
  void search_each(std::size_t first, std::size_t end, TopK* best) {
    Query query(context_);
    for (std::size_t q = first; q < end; ++q) {
      scan_.begin(q, query);
      const std::span<const Probe> lists = context_.lists(q);
      for (std::size_t i = 0; i < lists.size(); ++i) {
        if (i + 1 < lists.size()) ask_for(lists[i + 1].list);
        visit(lists[i], query);
      }
      scan_.finish(query, best[q]);
    }
  }

  // List by list, for all that probe it.
  void search_together(std::size_t first, std::size_t end, TopK* best) {
    std::vector<Query> queries;
    queries.reserve(end - first);
    for (std::size_t q = first; q < end; ++q) {
      scan_.begin(q, queries.emplace_back(context_));
      const std::span<const Probe> lists = context_.lists(q);
      for (std::size_t i = 0; i < std::min(kFirstLists, lists.size()); ++i) {
        visit(lists[i], queries.back());
      }
    }
    sort_visits(queries);
    for (std::uint32_t list = 0; list < context_.shape().lists; ++list) {
      const std::span<const Visit> all(&visits_[begins_[list]], begins_[list + 1] - begins_[list]);
      if (!all.empty()) scan_list(list, all);
    }
    for (std::size_t q = first; q < end; ++q) scan_.finish(queries[q - first], best[q]);
  }

 private:
  using Query = typename Scan::Query;
  using Visit = typename Scan::Visit;

  // Memory brings the next list while this one is looked at, where lists are short.
  void ask_for(std::uint32_t list) {
    if constexpr (requires(IvfSpan span) { scan_.ask_for(list, span); }) {
      spans_.clear();
      context_.add_spans(list, spans_);
      for (const IvfSpan& span : spans_) scan_.ask_for(list, span);
    }
  }

  void visit(const Probe& probe, Query& query) {
    const Visit one{&query, probe};
    scan_list(probe.list, {&one, 1});
  }

  void scan_list(std::uint32_t list, std::span<const Visit> visits) {
    spans_.clear();
    context_.add_spans(list, spans_);
    const std::size_t most = Scan::kQueryByQuery ? kVisitsTogether : visits.size();
    for (; !visits.empty(); visits = visits.subspan(std::min(most, visits.size()))) {
      scan_spans(visits.first(std::min(most, visits.size())));
    }
  }

  // All of spans_, a few at a time.
  void scan_spans(std::span<const Visit> visits) {
    const std::span<const IvfSpan> all = spans_;
    for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
      std::size_t bytes = 0;
      for (; end < all.size() && bytes < kBytesTogether; ++end) {
        bytes += (all[end].end - all[end].begin) * visits.size() * context_.row_bytes();
      }
      // Asking what the time is takes as long as reading the few rows of a short list.
      unchecked_ += bytes;
      if (unchecked_ >= kBytesBetweenChecks) {
        loop_.check(thread_);
        unchecked_ = 0;
      }
      scan_.scan(all.subspan(first, end - first), visits);
    }
  }

  // Sorts the visits by list, those of list i from begins_[i] on: they are counted, then placed.
  void sort_visits(std::vector<Query>& queries) {
    const auto for_each = [&](const auto& body) {
      for (Query& query : queries) {
        const std::span<const Probe> lists = context_.lists(query.number);
        for (std::size_t i = kFirstLists; i < lists.size(); ++i) body(lists[i], query);
      }
    };
    begins_.assign(std::size_t{context_.shape().lists} + 2, 0);
    for_each([&](const Probe& probe, Query&) { ++begins_[probe.list + 2]; });
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    visits_.resize(begins_.back() + 1);
    for_each([&](const Probe& probe, Query& query) {
      visits_[begins_[probe.list + 1]++] = {&query, probe};
    });
  }

  const IvfContext& context_;
  Scan& scan_;
  ItemLoop& loop_;
  const unsigned thread_;
  std::size_t unchecked_ = 0;  // bytes
  std::vector<IvfSpan> spans_;
  std::vector<std::size_t> begins_;
  std::vector<Visit> visits_;
};

// Queries are shared out to the threads.
template <class Scan>
void search_slices(const IvfContext& context, unsigned threads, TopK* best) {
  const std::size_t queries = context.work().queries.rows;
  const std::size_t probes = context.work().nprobe, lists = context.shape().lists;
  std::size_t slice = threads == 1 ? queries : (queries + 2 * threads - 1) / (2 * threads);
  const bool together = Scan::together(context) && slice * probes >= 2 * lists;
  if (!together) slice = 1;
  std::vector<std::optional<Scan>> scans(threads);
  ItemLoop loop(context.work().cancellation);
  loop.run(threads, (queries + slice - 1) / slice, [&](unsigned thread, std::size_t item) {
    if (!scans[thread]) scans[thread].emplace(context);
    Slice<Scan> part(context, *scans[thread], loop, thread);
    const std::size_t first = item * slice, end = std::min(first + slice, queries);
    if (together) return part.search_together(first, end, best);
    part.search_each(first, end, best);
  });
}

// A SharedQuery shares out the lists of one query among threads.
template <class Scan>
class SharedQuery {
 public:
  SharedQuery(const IvfContext& context, unsigned threads)
      : context_(context), scans_(threads), queries_(threads), loop_(context.work().cancellation) {}

  void search(std::size_t number, TopK& best) {
    for (std::optional<Query>& query : queries_) query.reset();
    scan_of(0).begin(number, queries_[0].emplace(context_));
    std::vector<IvfSpan> spans;
    std::vector<Probe> probes;  // of each
    for (const Probe& probe : context_.lists(number)) {
      context_.add_spans(probe.list, spans);
      probes.resize(spans.size(), probe);
    }
    const unsigned threads = loop_.begin_with_meanwhile(threads_for(spans));
    loop_.run(threads, spans.size(), [&](unsigned thread, std::size_t i) {
      Scan& scan = scan_of(thread);
      if (!queries_[thread]) scan.join(*queries_[0], queries_[thread].emplace(context_));
      if constexpr (requires { scan.ask_for(probes[i].list, spans[i]); }) {
        if (i + 1 < spans.size()) scan.ask_for(probes[i + 1].list, spans[i + 1]);
      }
      const Visit visit{&*queries_[thread], probes[i]};
      scan.scan({&spans[i], 1}, {&visit, 1});
    });
    for (std::size_t t = 1; t < queries_.size(); ++t) {
      if (!queries_[t]) continue;
      if constexpr (requires { scan_of(t).end(*queries_[t]); }) scan_of(t).end(*queries_[t]);
      queries_[0]->absorb(*queries_[t]);
    }
    scan_of(0).finish(*queries_[0], best);
  }

 private:
  using Query = typename Scan::Query;
  using Visit = typename Scan::Visit;

  Scan& scan_of(unsigned thread) {
    std::optional<Scan>& scan = scans_[thread];
    return scan ? *scan : scan.emplace(context_);
  }

  unsigned threads_for(const std::vector<IvfSpan>& spans) const {
    std::size_t rows = 0;
    for (const IvfSpan& span : spans) rows += span.end - span.begin;
    const std::size_t useful =
        std::min(rows * context_.row_bytes() / kThreadBytes + 1, spans.size());
    return static_cast<unsigned>(std::clamp<std::size_t>(useful, 1, scans_.size()));
  }

  const IvfContext& context_;
  std::vector<std::optional<Scan>> scans_;
  std::vector<std::optional<Query>> queries_;
  ItemLoop loop_;
};

template <class Scan>
void search_group(const IvfContext& context, TopK* best) {
  const std::size_t queries = context.work().queries.rows;
  const unsigned threads = compute::thread_count();
  if (queries >= threads) return search_slices<Scan>(context, threads, best);
  SharedQuery<Scan> shared(context, threads);
  for (std::size_t q = 0; q < queries; ++q) shared.search(q, best[q]);
}

// After the search, which has brought much of it into the cache.
void count_probed(const IvfContext& context) {
  const compute::IvfWork& work = context.work();
  const std::size_t bytes =
      work.queries.rows * work.told() / 2 * compute::kFastScanRows * sizeof(RowId);
  const auto threads = static_cast<unsigned>(std::clamp<std::size_t>(
      bytes / kThreadBytes, 1, std::min<std::size_t>(work.queries.rows, compute::thread_count())));
  ItemLoop loop(work.cancellation);
  loop.run(threads, work.queries.rows, [&](unsigned, std::size_t q) {
    const std::span<const Probe> all = context.nearest(q);
    const auto lists = all.first(std::min<std::size_t>(all.size(), work.told()));
    const std::size_t probes = context.probes(q);
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (i + kCountsAhead < lists.size()) context.ask_for_count(lists[i + kCountsAhead].list);
      if (!work.counts_list(i)) continue;
      compute::ProbedList& probed = work.probed_of(q)[i];
      probed.list = lists[i].list;
      probed.a = lists[i].a;
      if (i < probes) context.count_list(lists[i].list, probed);
    }
  });
}

}  // namespace

void search_ivf_nearest(const compute::IvfWork& work, compute::HitTable& best) {
  if (best.k() == 0 && work.probed == nullptr) return;
  for (std::size_t first = 0; first < work.queries.rows; first += kQueryGroup) {
    compute::IvfWork group = work;
    group.queries.data = work.queries.row(first);
    group.queries.rows = std::min(kQueryGroup, work.queries.rows - first);
    group.model_queries = work.model_queries + first * work.model.shape.dim;
    if (work.probed != nullptr) group.probed = work.probed_of(first);
    if (work.left != nullptr) group.left = work.left + first;
    if (work.searched != nullptr) group.searched = work.searched + first;
    const IvfContext context(group, best.k());
    if (context.rows().rows() == 0) return;
    if (best.k() == 0) {
      // To count is all.
    } else if (work.model.shape.m == 0 || context.compares_all()) {
      search_group<FlatScan>(context, &best.row(first));
    } else if (work.model.shape.planes != 0) {
      search_group<RabitqScan>(context, &best.row(first));
    } else {
      search_group<CodeScan>(context, &best.row(first));
    }
    if (group.probed != nullptr) count_probed(context);
  }
}

}  // namespace warplite::cpu
