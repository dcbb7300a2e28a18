#include "engine/search/searcher.h"

#include <utility>
#include <vector>

#include "core/listing.h"

namespace warplite::engine {
namespace {

using Searchers = std::vector<std::pair<std::string_view, const Searcher*>>;

Searchers& searchers() {
  static Searchers list;
  return list;
}

}  // namespace

void register_searcher(std::string_view kind, const Searcher& searcher) {
  searchers().emplace_back(kind, &searcher);
}

const Searcher* searcher_of(const index::Index& index) {
  return index.trained() == nullptr ? nullptr : searcher_of(index.kind());
}

const Searcher* searcher_of(std::string_view kind) {
  for (const auto& [name, searcher] : searchers()) {
    if (name == kind) return searcher;
  }
  return nullptr;
}

std::string kinds_with_lists() {
  return listing(searchers(), [](const auto& pair) { return pair.second->has_lists(); },
                 [](const auto& pair) { return std::string_view(pair.first); });
}

}  // namespace warplite::engine
