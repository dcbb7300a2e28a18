// TextRows are what searches for texts return, of one query or of every row (id, text) of a
// statement. Queries are answered some at a time, as rows are asked for, of one view of the table:
// so memory stays bounded, however many they are, and a LIMIT ends the work.
// Threads: as the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"
#include "engine/filter/filter.h"
#include "sql/table_functions/search_target.h"
#include "sql/table_functions/texts/text_target.h"

namespace warplite::sql {

struct TextQueries {
  std::vector<Value> ids;  // of each text; empty: there is one text, without an id
  std::vector<std::string> texts;
};

// REQUIRES: !call.is_null(parameter)
TextQueries one_text(const Call& call, int parameter);
// The rows (id, text) of the statement in a parameter.
TextQueries read_texts(const Call& call, int parameter);

struct TextHit {
  RowId rowid;
  double score;  // or a distance
  std::uint32_t matches;  // or engine::kNotCounted: they are when asked for, from the text at …
  std::uint32_t part, row;
  bool certified = false;
};

enum class TextColumn { kQueryId, kRowId, kDistance, kMatches, kCertified, kRank, kScore };

class TextRows : public Rows {
 public:
  bool next() final;
  bool rewind() final;
  void column(sqlite3_context* context, int column) const final;

 protected:
  // `columns`: the visible ones, static; the first, the query's id, is there when queries have
  // any.
  TextRows(const Call& call, TextTarget target, TextQueries queries, const WorkOptions& options,
           std::span<const TextColumn> columns);

  const engine::View& view() const { return *view_; }
  const engine::Selection& selection() const { return selection_; }
  engine::TextRequest& request() { return request_; }
  void poll();  // throws Error{kInterrupted}

  // Calls add() with the hits of each query, best first, and end_query() after them.
  virtual void answer(std::span<const std::string_view> queries) = 0;
  // Returns how many hits the search of a query has in memory at a time.
  virtual std::size_t hits_of_query() const = 0;

  void add(const TextHit& hit) { hits_.push_back(hit); }
  void end_query() { ends_.push_back(hits_.size()); }

 private:
  void answer_more();
  void forget();
  std::uint32_t matches_of(const TextHit& hit) const;  // and of the current query
  std::size_t begin_of(std::size_t query) const {
    return query == first_ ? 0 : ends_[query - first_ - 1];
  }
  std::size_t end_of(std::size_t query) const { return ends_[query - first_]; }

  const TextTarget target_;
  const TextQueries queries_;
  const std::span<const TextColumn> columns_;
  Interrupt interrupt_;
  const std::shared_ptr<const engine::View> view_;
  const engine::Selection selection_;
  engine::TextRequest request_;
  // Hits of queries first_ … answered_ − 1.
  std::vector<TextHit> hits_;
  std::vector<std::size_t> ends_;  // in hits_
  std::size_t first_ = 0, answered_ = 0;
  // The current row: hit at_ of query_.
  std::size_t query_ = 0, at_ = 0;
  bool on_row_ = false;
};

}  // namespace warplite::sql
