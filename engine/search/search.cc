#include "engine/search/search.h"

#include <algorithm>

#include "engine/filter/content_hits.h"
#include "engine/search/exact_search.h"
#include "engine/search/searcher.h"
#include "engine/table/late_training.h"

namespace warplite::engine {
namespace {

// store=codes has nothing to be exact with.
void check_codes_suffice(const View& view, const SearchRequest& request) {
  const char* const asked = request.exact                    ? "\"exact\""
                            : request.refine.value_or(0) != 0 ? "\"refine\""
                                                              : nullptr;
  if (asked == nullptr) return;
  throw Error(ErrorKind::kInvalid, view.name() + ": " + asked +
                                       " needs vectors, but store=codes keeps only their codes");
}

// Searches rows without asking whether they are still there.
compute::HitTable nearest_indexed(const View& view, const Selection& rows,
                                  const index::Index& index, const SearchRequest& request,
                                  std::size_t k) {
  if (view.layout().codes_only) check_codes_suffice(view, request);
  // More than there are rows would only cost memory.
  k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count()));
  if (k == 0 || request.queries.rows == 0) return compute::HitTable(request.queries.rows, k);
  if (is_exact(view, index, request)) {
    if (request.report != nullptr && searcher_of(index) != nullptr) {
      request.report->out_of_time = ran_out_of_time(view, request.column);
    }
    return exact_nearest(view, rows, index, request, k, nullptr);
  }
  return searcher_of(index)->nearest(view, rows, index, request, k);
}

}  // namespace

void check_nprobe(const index::Index& index, const std::string& place) {
  const Searcher* const searcher = searcher_of(index);
  if (searcher == nullptr || searcher->has_lists()) return;
  throw Error(ErrorKind::kInvalid, place + ": nprobe needs index=" + kinds_with_lists() +
                                       ", whose lists it counts; index=" +
                                       std::string(index.kind()) +
                                       " finds more with a larger refine");
}

bool is_exact(const View& view, const index::Index& index, const SearchRequest& request) {
  return searcher_of(index) == nullptr || request.exact || request.has_after ||
         !request.range.unbounded() || view.model(request.column).is_null() ||
         (!view.layout().codes_only &&
          searcher_of(index)->must_compare_all(*index.trained(), request));
}

bool looks_at_part(const View& view, const Selection& rows, const index::Index& index,
                   const SearchRequest& request, std::size_t k) {
  return !is_exact(view, index, request) &&
         searcher_of(index)->looks_at_part(view, rows, *index.trained(), request, k);
}

compute::HitTable nearest(const View& view, const Selection& rows, const index::Index& index,
                          const SearchRequest& request, std::size_t k) {
  return nearest_present(view, rows, [&](const Selection& some) {
    return nearest_indexed(view, some, index, request, k);
  });
}

compute::HitLists within(const View& view, const Selection& rows, const index::Index& index,
                         const SearchRequest& request) {
  return exact_within(view, rows, index, request);
}

}  // namespace warplite::engine
