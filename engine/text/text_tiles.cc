#include "engine/text/text_tiles.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine/residency/derived_key.h"

namespace warplite::engine {
namespace {

index::Postings make_postings(const Column& texts, std::uint32_t rows,
                              const index::TextIndex& index, const std::function<void()>& poll) {
  index::TextEncoder encoder(index);
  index::PostingsBuilder builder;
  std::vector<compute::Keyword> keywords;
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (row % 64 == 0) poll();
    keywords.clear();
    if (!texts.is_null(row)) encoder.encode(texts.text(row), keywords);
    builder.add_row(keywords);
  }
  return builder.finish();
}

}  // namespace

CacheKey TextTileMaker::key(const Part& part) const {
  const CacheKey texts = part.plain_key(column_);
  if (texts.is_null()) return {};
  return derive(Derived::kTextTile, {&texts, 1})
      .add(index_.kind).add(index_.ngram.n).add(index_.ngram.fold)
      .add(index_.ngram.normalization).add(index_.words.normalization).key();
}

TileMaker::Make TextTileMaker::read(const Part& part) const {
  auto texts = part.plain(column_);
  if (texts == nullptr) return nullptr;
  return [this, texts = std::move(texts), rows = part.rows()](const std::function<void()>& poll) {
    return make_postings(*texts, rows, index_, poll);
  };
}

}  // namespace warplite::engine
