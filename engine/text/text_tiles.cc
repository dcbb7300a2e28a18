#include "engine/text/text_tiles.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/residency/derived_key.h"

namespace warplite::engine {
namespace {

// EncodedTexts are texts with the keywords that they have. Most texts of rows that are not sealed are still there
// when rows have been added, and to find their keywords takes most of the time of making a tile.
// Threads: any, one after the other.
class EncodedTexts {
 public:
  // Calls use(keywords) for each of the rows.
  template <typename Use>
  void for_each(const Column& texts, std::uint32_t rows, index::TextEncoder& encoder,
                const std::function<void()>& poll, const Use& use) {
    const std::lock_guard lock(mutex_);
    keep(common(texts, rows));
    for (const Row& row : rows_) use(keywords_of(row));
    for (auto row = static_cast<std::uint32_t>(rows_.size()); row < rows; ++row) {
      if (row % 64 == 0) poll();
      use(add(texts.is_null(row) ? std::string_view() : texts.text(row), encoder));
    }
    if (texts_.size() + keywords_.size() * sizeof(compute::Keyword) > kMostBytes) forget();
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  // Where a row ends in texts_ and keywords_, and begins in keywords_.
  struct Row {
    std::size_t text_end, first_keyword, keyword_end;
  };

  std::span<const compute::Keyword> keywords_of(const Row& row) const {
    return std::span(keywords_).subspan(row.first_keyword, row.keyword_end - row.first_keyword);
  }
  // Returns how many of the first rows have the texts that are known.
  std::size_t common(const Column& texts, std::uint32_t rows) const {
    std::size_t begin = 0;
    for (std::uint32_t row = 0; row < std::min<std::size_t>(rows, rows_.size()); ++row) {
      const std::string_view known = std::string_view(texts_).substr(begin, rows_[row].text_end - begin);
      if (known != (texts.is_null(row) ? std::string_view() : texts.text(row))) return row;
      begin = rows_[row].text_end;
    }
    return std::min<std::size_t>(rows, rows_.size());
  }
  void keep(std::size_t rows) {
    rows_.resize(rows);
    texts_.resize(rows == 0 ? 0 : rows_.back().text_end);
    keywords_.resize(rows == 0 ? 0 : rows_.back().keyword_end);
  }
  std::span<const compute::Keyword> add(std::string_view text, index::TextEncoder& encoder) {
    encoder.encode(text, found_);
    const std::size_t first = keywords_.size();
    texts_ += text;
    keywords_.insert(keywords_.end(), found_.begin(), found_.end());
    rows_.push_back({texts_.size(), first, keywords_.size()});
    return keywords_of(rows_.back());
  }
  void forget() {
    keep(0);
    texts_.shrink_to_fit();
    keywords_.shrink_to_fit();
  }

  std::mutex mutex_;
  std::string texts_;  // one after the other
  std::vector<compute::Keyword> keywords_, found_;
  std::vector<Row> rows_;
};

// Of rows that are not sealed, by column.
struct Memo {
  std::mutex mutex;
  std::map<std::size_t, std::shared_ptr<EncodedTexts>> texts;

  std::shared_ptr<EncodedTexts> of(std::size_t column) {
    const std::lock_guard lock(mutex);
    std::shared_ptr<EncodedTexts>& there = texts[column];
    if (there == nullptr) there = std::make_shared<EncodedTexts>();
    return there;
  }
};

// `known`: of earlier rows of the column, or null.
index::Postings make_postings(const Column& texts, std::uint32_t rows,
                              const index::TextIndex& index, EncodedTexts* known,
                              const std::function<void()>& poll) {
  index::TextEncoder encoder(index);
  index::PostingsBuilder builder;
  if (known != nullptr) {
    known->for_each(texts, rows, encoder, poll,
                    [&](std::span<const compute::Keyword> keywords) { builder.add_row(keywords); });
    return builder.finish();
  }
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
  constexpr std::uint32_t kFew = 64;  // rows, that are quickly encoded
  const bool changes = part.plain_key(column_).is_null() && part.rows() > kFew;
  auto known = changes ? view_.derived_for_next().of<Memo>().of(column_) : nullptr;
  return [this, texts = std::move(texts), rows = part.rows(),
          known = std::move(known)](const std::function<void()>& poll) {
    return make_postings(*texts, rows, index_, known.get(), poll);
  };
}

}  // namespace warplite::engine
