// A Searcher finds rows by what an index that learns has learnt. A kind is paired with its searcher
// where kinds are listed (extension/registrations.cc); what search.h says of nearest() holds of it.
// Threads: members may run concurrently, each on its view's connection.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/search/search.h"

namespace warplite::engine {

class Searcher {
 public:
  virtual ~Searcher() = default;

  // Says whether a query says into how many lists it looks (nprobe).
  virtual bool has_lists() const = 0;
  // Says whether only to compare every row gives the recall that the request, or else the table, asks
  // for.
  virtual bool must_compare_all(const index::Trained& trained,
                                const SearchRequest& request) const = 0;
  // A search that looks at more than one row in kPart looks at most of them: see looks_at_part().
  static constexpr std::uint64_t kPart = 4;
  // `trained`: the index, as what it is. REQUIRES: !is_exact()
  virtual bool looks_at_part(const View& view, const Selection& rows,
                             const index::Trained& trained, const SearchRequest& request,
                             std::size_t k) const = 0;
  // REQUIRES: !is_exact(), k > 0, there are queries.
  virtual compute::HitTable nearest(const View& view, const Selection& rows,
                                    const index::Index& index, const SearchRequest& request,
                                    std::size_t k) const = 0;
};

// `searcher` lives as long as the process.
void register_searcher(std::string_view kind, const Searcher& searcher);
// Null: every row is compared.
const Searcher* searcher_of(const index::Index& index);
const Searcher* searcher_of(std::string_view kind);
// "ivfflat or ivfpq".
std::string kinds_with_lists();

}  // namespace warplite::engine
