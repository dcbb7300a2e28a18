// The answer of a MATCH, nearest first: a first batch, and when SQLite asks for more than that,
// what else there is, sorted only as far as it is read. Through an approximate index that is batch
// after batch, and at last what these have missed.
// Threads: as the connection. Ownership: holds its view; the index and the
// cancellation belong to the table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "engine/filter/filter.h"
#include "engine/match/match_count.h"
#include "engine/search/search_report.h"
#include "engine/table/content_source.h"
#include "engine/table/view.h"
#include "index/index.h"
#include "index/text/text_index.h"
#include "sql/table/match_source.h"

namespace warplite::sql {

// A MatchQuestion is what is asked; two equal questions about the same view have the same answer.
struct MatchQuestion {
  bool of_counts = false;  // MATCH on the table's own name, else on a column
  index::TextIndex text;   // of a TEXT column; its kind is kNone when MATCH is on another one
  bool of_sparse = false;  // MATCH on a column of sparse vectors
  std::size_t column = 0;  // index into Layout::vectors, or into Layout::plains
  Distance distance = Distance::kL2;
  ElementType type = ElementType::kFloat32;
  std::uint32_t dim = 0;
  std::vector<std::byte> query;   // a vector, a sparse one as it is stored, a text, or the text of a
                                  // query of match counts
  DistanceRange range;            // of vectors and texts
  std::uint64_t words = 0;        // of a text with index=words: those of the query
  engine::RelationalQuery items;  // of match counts: what the text says
  engine::CountRange counts;
  engine::Filter filter;
  std::optional<std::uint64_t> k;                // none: all rows, as far as they are read
  std::optional<std::uint32_t> nprobe;           // as given; exact kinds have no use for it
  std::optional<double> recall;                  // the same
  std::optional<std::size_t> refine;             // the same
  bool exact = false;                            // the same
  bool by_rarity = false;                        // of words: rare ones count more
  std::string device;                            // empty: the configured one
  std::shared_ptr<engine::SearchReport> report;  // of what is searched; null: nobody asks
  std::uint64_t first = 0;  // without k: rows to fetch at first; 0: all in one go

  // Says whether it is of a vector column, which has an index::Index.
  bool of_vector() const { return !of_counts && !of_text() && !of_sparse; }
  bool of_text() const { return text.kind != index::TextIndex::Kind::kNone; }
  std::string_view query_text() const {
    return {reinterpret_cast<const char*>(query.data()), query.size()};
  }

  friend bool operator==(const MatchQuestion&, const MatchQuestion&);
};

// The selections of a view that were used last, for queries that come again with the same filters: applying
// one costs more than searching what it leaves. Kept with the view (engine::View::derived()).
class LastSelections {
 public:
  std::shared_ptr<const engine::Selection> get(const engine::View& view, const engine::Filter& filter);

 private:
  struct Known {
    engine::Filter filter;
    std::shared_ptr<const engine::Selection> selection;
    std::size_t bytes;
  };
  void forget_some();

  std::vector<Known> known_;  // used last first
};

class MatchRows {
 public:
  // `selection`: of the view, by the question's filter. `index`: of a vector column, else null.
  MatchRows(MatchQuestion question, std::shared_ptr<const engine::View> view,
            std::shared_ptr<const engine::Selection> selection, const index::Index* index,
            compute::Cancellation& cancellation);
  MatchRows(const MatchRows&) = delete;  // the source knows the question
  MatchRows& operator=(const MatchRows&) = delete;

  const MatchQuestion& question() const { return question_; }
  const engine::View* view() const { return view_.get(); }

  void rewind();  // to the first row, without searching again
  void next();
  bool at_end() const { return at_ >= hits_.size(); }
  const Hit& hit() const { return hits_[at_]; }
  // Rows that were read, the current one included.
  std::size_t come() const { return std::min(at_ + 1, hits_.size()); }

 private:
  void fetch_first();
  void fetch_more();
  void sort_ahead();
  void step();
  void pass_vanished();
  bool is_verified() const;

  MatchQuestion question_;
  std::shared_ptr<const engine::View> view_;
  std::shared_ptr<const engine::Selection> selection_;
  std::unique_ptr<MatchSource> source_;
  std::vector<Hit> hits_;
  std::size_t sorted_ = 0;  // hits_[0, sorted_) are in their final order
  std::size_t at_ = 0;
  bool complete_ = false;  // hits_ holds every row of the answer
  // For a table with content=, says when hits were last verified: hits_[0, verified_) were there at
  // that moment_.
  engine::ContentSource::Moment moment_;
  std::size_t verified_ = 0;
};

}  // namespace warplite::sql
