#include "engine/search/searcher.h"

#include <utility>
#include <vector>

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
  for (const auto& [kind, searcher] : searchers()) {
    if (kind == index.kind()) return searcher;
  }
  return nullptr;
}

std::string kinds_with_lists() {
  std::string names;
  for (const auto& [kind, searcher] : searchers()) {
    if (!searcher->has_lists()) continue;
    if (!names.empty()) names += " or ";
    names += kind;
  }
  return names;
}

}  // namespace warplite::engine
