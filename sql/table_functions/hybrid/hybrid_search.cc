// warp_hybrid_search(table, k, source1, query1 [, source2, query2 …] [, options]): one ranking of what
// several searches find. A source is a column of the table that MATCH searches, or the name of a
// table of FTS5 whose rowids are the table's; what has the name of both is the column. The first
// `depth` rows of each source are fused. The filter is evaluated once, and every source searches
// among the rows that pass. A source whose query is NULL finds nothing.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "compute/host/meanwhile.h"
#include "core/listing.h"
#include "engine/search/search.h"
#include "sql/table/arguments.h"
#include "sql/table/match_rows.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/hybrid/fts5_source.h"
#include "sql/table_functions/hybrid/fusion.h"
#include "sql/table_functions/row_filter.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kRowId, kScore, kRank, kRanks, kCount };
};
struct Input {
  enum : int { kTable, kK, kSources, kOptions = kSources + 2 * static_cast<int>(kMostLists) };
  static constexpr int source(std::size_t i) { return kSources + 2 * static_cast<int>(i); }
  static constexpr int query(std::size_t i) { return source(i) + 1; }
};

// One of the two, and what is asked of it; neither, where that is NULL.
struct Source {
  const ColumnDefinition* column = nullptr;
  MatchQuestion question;  // of the column; its report is of either
  std::optional<QualifiedName> fts5;
  std::string text;  // for FTS5
};

class HybridRows final : public Rows {
 public:
  HybridRows(std::vector<FusedRow> rows, std::size_t lists)
      : rows_(std::move(rows)), lists_(lists) {}

  bool next() override { return ++rank_ <= rows_.size(); }
  bool rewind() override {
    rank_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const FusedRow& row = rows_[rank_ - 1];
    switch (column) {
      case Output::kRowId: return sqlite3_result_int64(context, row.rowid);
      case Output::kScore: return sqlite3_result_double(context, row.score);
      case Output::kRank:
        return sqlite3_result_int64(context, static_cast<sqlite3_int64>(rank_));
      case Output::kRanks: return result_cell(context, Cell::text(ranks(row)));
    }
  }

 private:
  // As JSON.
  std::string ranks(const FusedRow& row) const {
    std::string json;
    for (std::size_t i = 0; i < lists_; ++i) {
      json += i == 0 ? "[" : ",";
      json += row.ranks[i] == 0 ? "null" : std::to_string(row.ranks[i]);
    }
    return json + "]";
  }

  std::vector<FusedRow> rows_;
  std::size_t lists_;
  std::size_t rank_ = 0;  // from 1
};

[[noreturn]] void refuse_source(const Call& call, int parameter, const TableDefinition& table,
                                const std::string& why) {
  const auto searched = [](const ColumnDefinition& column) { return column.searched(); };
  const std::string columns =
      listing(table.columns, searched,
              [](const ColumnDefinition& column) -> std::string_view { return column.name; }, ", ");
  call.refuse(parameter,
              "the name of a table of FTS5, or of a column of " + table.table +
                  " that MATCH searches: " + (columns.empty() ? "it has none" : columns),
              why);
}

Source column_source(const Call& call, std::size_t number, const TableDefinition& table,
                     const ColumnDefinition& column) {
  if (!column.searched()) {
    refuse_source(call, Input::source(number), table, "a column that MATCH does not search");
  }
  Source source;
  if (call.is_null(Input::query(number))) return source;
  source.column = &column;
  read_query(call.value(Input::query(number)), table, column, source.question);
  return source;
}

Source fts5_source(const Call& call, std::size_t number, const TableDefinition& table,
                   const std::string& name) {
  const Fts5Name found = find_fts5(call.context().db(), name);
  if (found.kind != NamedTable::kFts5) {
    refuse_source(call, Input::source(number), table,
                  found.kind == NamedTable::kNone ? "no such column or table"
                                                  : "a table that is not one of FTS5");
  }
  Source source;
  if (call.is_null(Input::query(number))) return source;
  source.fts5 = found.name;
  source.text = call.text(Input::query(number), "a text, an expression of FTS5");
  return source;
}

bool may_be_options(const Cell& cell) {
  if (cell.kind != CellKind::kText) return cell.is_null();
  const std::size_t first = cell.bytes.find_first_not_of(" \t\n\r");
  return first != cell.bytes.npos && cell.bytes[first] == '{';
}

// How many sources are given. An argument without a query after it is the options.
std::size_t count_sources(Call& call) {
  std::size_t count = 0;
  while (count < kMostLists && call.value(Input::query(count)) != nullptr) ++count;
  if (count == kMostLists || call.value(Input::source(count)) == nullptr) return count;
  const Cell last = cell_of(call.value(Input::source(count)));
  if (!may_be_options(last) || call.value(Input::kOptions) != nullptr) {
    call.refuse(Input::query(count), "a query for the source " + describe(last) +
                                         ", or a JSON object of options in place of that");
  }
  call.move_argument(Input::source(count), Input::kOptions);
  return count;
}

std::vector<Source> read_sources(Call& call, std::size_t count, const TableDefinition& table) {
  std::vector<Source> sources;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = call.text(Input::source(i), "the name of a column or of a table");
    const ColumnDefinition* const column = table.find(name);
    sources.push_back(column != nullptr ? column_source(call, i, table, *column)
                                        : fts5_source(call, i, table, name));
  }
  return sources;
}

using Lists = std::vector<std::vector<Hit>>;

// What the sources of one call search.
class Search {
 public:
  Search(const Call& call, const OpenTable& table, const RankingOptions& options)
      : context_(call.context()),
        table_(table),
        options_(options),
        interrupt_(context_.db()),
        view_(table.collection->view()),
        selection_(selected_rows(call, table, *view_, options.filter)) {
    context_.begin_search();
  }

  Lists best(std::vector<Source> sources, std::size_t depth) {
    depth_ = std::min(depth, static_cast<std::size_t>(selection_->count()));
    lists_.resize(sources.size());
    sources_ = std::move(sources);
    for (Source& source : sources_) {
      add_report(source);
      has_texts_ = has_texts_ || source.fts5;
    }
    search_from(0);
    return std::move(lists_);
  }

 private:
  // Searches columns from that source on, then FTS5. Each has those behind it to do meanwhile: all begin,
  // one within the other, before this thread takes a share of any; and innermost it reads FTS5, which no
  // other may.
  void search_from(std::size_t first) {
    const std::size_t i = next_column(first);
    if (i == sources_.size()) return read_texts();
    std::optional<compute::Meanwhile> others;
    if (has_texts_ || next_column(i + 1) != sources_.size()) others.emplace([&] { search_from(i + 1); });
    try {
      lists_[i] = column_hits(std::move(sources_[i]));
    } catch (const Error&) {
      if (others && others->failed()) others->finish();  // what a device says of it says less
      throw;
    }
    if (others) others->finish();
  }

  std::size_t next_column(std::size_t i) const {
    while (i < sources_.size() && sources_[i].column == nullptr) ++i;
    return i;
  }

  void read_texts() {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].fts5) lists_[i] = text_hits(sources_[i]);
    }
  }

  void add_report(Source& source) {
    const ColumnDefinition* const column = source.column;
    if (column == nullptr && !source.fts5) return;
    source.question.report =
        column != nullptr
            ? context_.add_report(table_.definition.table, column->name, column->index_name())
            : context_.add_report(source.fts5->table, "", "fts5");
    source.question.report->queries = 1;
  }

  std::vector<Hit> text_hits(const Source& source) {
    return fts5_matches(context_, *source.fts5, source.text, *view_, *selection_, depth_);
  }

  std::vector<Hit> column_hits(Source source) {
    const ColumnDefinition& column = *source.column;
    MatchQuestion& question = source.question;
    question.k = depth_;
    question.recall = options_.recall;
    question.refine = options_.refine;
    question.exact = options_.exact;
    question.by_rarity = options_.idf;
    question.device = options_.device;
    // Rows that a sparse query has nothing in common with are no find of its.
    if (column.kind == ColumnKind::kSparse) {
      question.range.high = 0;
      question.range.high_open = true;
    }
    const index::Index* index = nullptr;
    if (column.kind == ColumnKind::kVector) {
      index = &table_.collection->index(question.column);
      if (options_.nprobe != 0) {
        engine::check_nprobe(*index, Place(table_.definition.table, column.name).text());
        question.nprobe = options_.nprobe;
      }
    }
    std::vector<Hit> hits;
    MatchRows rows(std::move(question), view_, selection_, index, interrupt_);
    for (; !rows.at_end(); rows.next()) hits.push_back(rows.hit());
    return hits;
  }

  Context& context_;
  const OpenTable& table_;
  const RankingOptions& options_;
  Interrupt interrupt_;
  const std::shared_ptr<const engine::View> view_;
  const std::shared_ptr<const engine::Selection> selection_;
  std::vector<Source> sources_;
  bool has_texts_ = false;  // some are of FTS5
  Lists lists_;
  std::size_t depth_ = 0;
};

std::unique_ptr<Rows> run(Call& call) {
  const std::shared_ptr<OpenTable> table = call.table(Input::kTable);
  const std::size_t k = static_cast<std::size_t>(call.count(Input::kK));
  const std::size_t count = count_sources(call);
  const RankingOptions options = fusion_options(call, Input::kOptions);
  if (!options.weights.empty() && options.weights.size() != count) {
    call.refuse(Input::kOptions, "as many weights as there are sources, " + std::to_string(count));
  }
  std::vector<Source> sources = read_sources(call, count, table->definition);
  const std::size_t depth = options.depth.value_or(std::max<std::size_t>(k, 100));
  Search search(call, *table, options);
  const Lists lists = search.best(std::move(sources), depth);
  return std::make_unique<HybridRows>(fuse(lists, options, k), count);
}

}  // namespace

const TableFunction kHybridSearch{
    .name = "warp_hybrid_search",
    .columns = "rowid INTEGER, score REAL, rank INTEGER, ranks TEXT",
    .column_count = Output::kCount,
    .parameters = {{"table"},          {"k"},
                   {"source1"},        {"query1"},
                   {"source2", false}, {"query2", false},
                   {"source3", false}, {"query3", false},
                   {"source4", false}, {"query4", false},
                   {"source5", false}, {"query5", false},
                   {"source6", false}, {"query6", false},
                   {"source7", false}, {"query7", false},
                   {"source8", false}, {"query8", false},
                   {"options", false}},
    .run = run,
    .orders = {{Output::kRank}},
    .direct_only = true,
    .usage = "table, k, source1, query1 [, source2, query2 …] [, options]",
};

}  // namespace warplite::sql
