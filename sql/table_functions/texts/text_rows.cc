#include "sql/table_functions/texts/text_rows.h"

#include <algorithm>
#include <utility>

#include "sql/table_functions/query_batch.h"
#include "sql/table_functions/row_filter.h"

namespace warplite::sql {
namespace {

// Queries answered together, and hits that their searches have in memory.
constexpr std::size_t kBatch = 1024;
constexpr std::size_t kHitsOfBatch = std::size_t{1} << 22;
constexpr std::size_t kBytesOfBatch = std::size_t{1} << 26;
// Hits that stay for a join that asks for all of them again; beyond, they are searched again.
constexpr std::size_t kKept = std::size_t{1} << 20;

}  // namespace

TextQueries one_text(const Call& call, int parameter) {
  return {{}, {query_text(call, parameter)}};
}

TextQueries read_texts(const Call& call, int parameter) {
  TextQueries queries;
  each_query(call, parameter, "text", [&](const Cell& id, sqlite3_value* text) {
    if (sqlite3_value_type(text) != SQLITE_TEXT) {
      throw Error(ErrorKind::kInvalid,
                  "expected rows (id, text), got " + describe(cell_of(text)) + " as text");
    }
    queries.texts.emplace_back(cell_of(text).bytes);
    queries.ids.emplace_back(id);
  });
  return queries;
}

TextRows::TextRows(const Call& call, TextTarget target, TextQueries queries,
                   const WorkOptions& options, std::span<const TextColumn> columns)
    : target_(std::move(target)),
      queries_(std::move(queries)),
      columns_(queries_.ids.empty() ? columns.subspan(1) : columns),
      interrupt_(call.context().db()),
      view_(target_.table->collection->view()),
      selection_(*view_, row_filter(call, *target_.table, options.filter)),
      request_(target_.request(options.device, interrupt_)) {}

void TextRows::poll() {
  if (interrupt_.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
}

bool TextRows::next() {
  if (on_row_) ++at_;
  on_row_ = false;
  for (;;) {
    while (query_ < answered_ && at_ == end_of(query_)) ++query_;
    if (query_ < answered_) return on_row_ = true;
    if (answered_ == queries_.texts.size()) return false;
    answer_more();
  }
}

bool TextRows::rewind() {
  if (first_ != 0) {
    forget();
    first_ = answered_ = 0;
  }
  query_ = at_ = 0;
  on_row_ = false;
  return true;
}

void TextRows::forget() {
  hits_.clear();
  ends_.clear();
  first_ = answered_;
  at_ = 0;
}

void TextRows::answer_more() {
  if (hits_.size() > kKept) forget();
  const std::size_t affordable = kHitsOfBatch / std::max<std::size_t>(hits_of_query(), 1);
  const std::size_t most = std::clamp<std::size_t>(affordable, 1, kBatch);
  std::size_t end = answered_;
  for (std::size_t bytes = 0; end < queries_.texts.size() && end - answered_ < most; ++end) {
    bytes += queries_.texts[end].size();
    if (bytes > kBytesOfBatch && end > answered_) break;
  }
  answer(std::vector<std::string_view>(
      queries_.texts.begin() + static_cast<std::ptrdiff_t>(answered_),
      queries_.texts.begin() + static_cast<std::ptrdiff_t>(end)));
  answered_ = end;
  WARP_CHECK(ends_.size() == answered_ - first_);
}

std::uint32_t TextRows::matches_of(const TextHit& hit) const {
  if (hit.matches != engine::kNotCounted) return hit.matches;
  const auto texts = view_->part(hit.part).plain(request_.column);
  return index::common_keywords(request_.index, texts->text(hit.row), queries_.texts[query_]);
}

void TextRows::column(sqlite3_context* context, int column) const {
  const TextHit& hit = hits_[at_];
  switch (columns_[static_cast<std::size_t>(column)]) {
    case TextColumn::kQueryId: return result_cell(context, queries_.ids[query_].cell());
    case TextColumn::kRowId: return sqlite3_result_int64(context, hit.rowid);
    case TextColumn::kDistance:
      return sqlite3_result_int64(context, static_cast<sqlite3_int64>(hit.score));
    case TextColumn::kMatches: return sqlite3_result_int64(context, matches_of(hit));
    case TextColumn::kCertified: return sqlite3_result_int(context, hit.certified);
    case TextColumn::kRank:
      return sqlite3_result_int64(context,
                                  static_cast<sqlite3_int64>(at_ - begin_of(query_) + 1));
    case TextColumn::kScore: return sqlite3_result_double(context, hit.score);
  }
}

}  // namespace warplite::sql
