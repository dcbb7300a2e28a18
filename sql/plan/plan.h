// A Plan says how one scan of a warp table is answered: xBestIndex makes a plan, idxStr carries it
// as readable text (EXPLAIN QUERY PLAN shows it), xFilter reads it back.
//
//   knn(embedding flat) filter(year>=,venue IN) distance<= k nprobe recall limit offset
//   range(embedding flat) filter(…) distance<=     every row within the distance
//   match_count(scan) filter(…) matches>= k limit   MATCH on the table's own name
//   scan filter(…, s LIKE overloaded)               rows that pass, in ascending rowid
//   rowid=                                          one row
//   key(doi)                                        one row, by the TEXT PRIMARY KEY
//   refused: …                                      no rows: the cursor fails with this reason
//   knn(…) ordered                                  SQLite relies on the order of the batches
//   knn(…) k unsure: venue                          the same, if a term on that column is IN
//
// xFilter's arguments: one for each filter, the query, one for each bound (on distance, then on
// matches), then k, nprobe, recall, limit and offset. Names that are not plain identifiers are
// quoted.
// Threads: as the connection. Errors: thrown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"
#include "engine/filter/filter.h"
#include "sql/definition/definition.h"
#include "sql/plan/pattern_probe.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

struct Plan {
  // The lower bits of idxNum.
  enum class Access { kScan, kKnn, kRange, kRowId, kKey, kRefused, kCount };
  struct Term {
    int column = engine::Predicate::kRowId;  // index into TableDefinition::columns, or kRowId
    engine::Comparison op = engine::Comparison::kEqual;
    Collation collation = Collation::kBinary;
    bool overloaded = false;  // LIKE or GLOB, which is not known to be SQLite's own
  };

  Access access = Access::kScan;
  int column = -1;  // kKnn, kRange: the vector column; kKey: the key column
  std::vector<Term> filters;
  std::vector<engine::Comparison> bounds;  // on distance
  std::vector<engine::Comparison> match_bounds;  // on matches; kCount
  bool k = false, nprobe = false, recall = false, limit = false, offset = false;
  bool ordered = false;  // kKnn, in batches: they have to ascend together if the statement needs that
  std::string refusal;  // kRefused: why
  std::string unsure;   // with k, on an older host: a column whose term is not at hand (statement_words.h)

  bool searches() const { return access == Access::kKnn || access == Access::kRange; }  // vectors
  // Says whether the first rows are searched for before it is known how many are read.
  bool reads_on() const {
    return (access == Access::kKnn || access == Access::kCount) && !k && !limit;
  }
  // The same, and an index that finds approximately looks farther for each batch, which may find rows that
  // an earlier one missed.
  bool comes_in_batches(const TableDefinition& table) const;
  std::string text(const TableDefinition& table) const;
  // REQUIRES: made by text() for the same table; throws Error{kInvalid} otherwise.
  static Plan parse(std::string_view text, const TableDefinition& table);
};

// These flags stand in idxNum, of an index with content=: the scan reads no column that is indexed;
// it reads +columns.
inline constexpr int kShowsNoValues = 16;
inline constexpr int kShowsAux = 32;
// The scan is in descending rowid.
inline constexpr int kDescending = 64;

// What a statement says of the rows that it reads of a search without k.
struct StatementReads {
  // Rows whose order SQLite relies on have to ascend to the last one: who reads them compares neighbours (a
  // window function, UNION, INTERSECT, EXCEPT, GROUP BY, DISTINCT), or reads them all, since there is no
  // LIMIT. A LIMIT counts that is the whole statement's, or that stands in one pair of parentheses with
  // a MATCH. None: nobody has asked.
  std::optional<bool> whole_order;
  std::uint64_t rows = 0;  // that it reads, as a rule: by its only LIMIT; 0: nothing is known
  std::uint64_t text = 0;  // of which it is one, by a hash; 0: several statements run
};

// Rows that statements have read whose LIMIT is a parameter, which nobody can see: most ask for as many again.
class RowsRead {
 public:
  // 0: nobody knows.
  std::uint64_t by(std::uint64_t text) const {
    for (const Known& known : known_) {
      if (known.text == text && text != 0) return known.rows;
    }
    return 0;
  }
  void note(std::uint64_t text, std::uint64_t rows) {
    if (text == 0 || rows > kMost) return;
    for (Known& known : known_) {
      if (known.text == text) {
        known.rows = rows;
        return;
      }
    }
    known_[next_++ % known_.size()] = {text, rows};
  }

 private:
  static constexpr std::uint64_t kMost = 1 << 16;
  struct Known {
    std::uint64_t text = 0, rows = 0;
  };
  std::array<Known, 8> known_{};
  std::size_t next_ = 0;
};

// A SearchMemo is what planning remembers from call to call: was the table offered with a MATCH? A
// table of one FROM is known by the statement being prepared and its colUsed; OR branches come
// after the whole.
struct SearchMemo {
  const sqlite3_stmt* statement = nullptr;
  sqlite3_uint64 columns = 0;
  bool searched = false;
  PatternProbe* probe = nullptr;  // set while it is the probe's statement that is prepared
  // The statement that was asked about last since the table was planned for; and what it says.
  const sqlite3_stmt* statement_read = nullptr;
  StatementReads reads{};  // reads_of_statement()
  RowsRead rows_read{};
};

// xBestIndex. Returns SQLITE_OK or SQLITE_CONSTRAINT; throws for what can never work.
int best_index(sqlite3* db, const TableDefinition& table, SearchMemo& memo,
               sqlite3_index_info* info);

}  // namespace warplite::sql
