#include "sql/table_functions/texts/documents.h"

#include <algorithm>
#include <utility>

#include "engine/text/text_search.h"

namespace warplite::sql {
namespace {

constexpr TextColumn kColumns[] = {TextColumn::kQueryId, TextColumn::kRowId, TextColumn::kMatches,
                                   TextColumn::kRank, TextColumn::kScore};

class DocumentRows final : public TextRows {
 public:
  DocumentRows(const Call& call, TextTarget target, TextQueries queries, std::size_t k,
               const DocumentOptions& options)
      : TextRows(call, std::move(target), std::move(queries), options, kColumns),
        k_(std::min(k, static_cast<std::size_t>(view().live_rows()))) {
    request().by_rarity = options.idf;
  }

 private:
  void answer(std::span<const std::string_view> queries) override {
    compute::HitTable table = engine::most_common(view(), selection(), request(), queries, k_);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      for (const Hit& hit : table.sorted(i)) add(document(hit));
      end_query();
    }
  }
  std::size_t hits_of_query() const override { return k_; }

  TextHit document(const Hit& hit) {
    const double count = -hit.distance;
    if (!request().by_rarity) {
      return {hit.rowid, count, static_cast<std::uint32_t>(count), hit.block, hit.row};
    }
    return {hit.rowid, count / engine::kWeightUnit, engine::kNotCounted, hit.block, hit.row};
  }

  const std::size_t k_;
};

}  // namespace

std::unique_ptr<Rows> document_rows(const Call& call, TextTarget target, TextQueries queries,
                                    std::size_t k, const DocumentOptions& options) {
  return std::make_unique<DocumentRows>(call, std::move(target), std::move(queries), k, options);
}

}  // namespace warplite::sql
