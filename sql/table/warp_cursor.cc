#include "sql/table/warp_cursor.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/process/interruption.h"
#include "engine/search/search.h"
#include "sql/definition/sparse_values.h"
#include "sql/host/guard.h"
#include "sql/host/statement.h"
#include "sql/plan/statement_words.h"
#include "sql/table/arguments.h"

namespace warplite::sql {

WarpCursor::WarpCursor(WarpTable& table) : sqlite3_vtab_cursor{}, table_(table) {}

void WarpCursor::filter(const std::string& plan, int use, sqlite3_value** arguments) {
  note_rows();
  end_scan();
  shows_values_ = (use & kShowsNoValues) == 0;
  shows_aux_ = (use & kShowsAux) != 0;
  descending_ = (use & kDescending) != 0;
  if (plan != plan_text_ || plan_text_.empty()) {
    plan_text_.clear();
    plan_ = Plan::parse(plan, table_.definition());
    if (!plan_.unsure.empty()) {
      check_unsure_term(table_.context->db(), table_.definition(), plan_.unsure);
    }
    reads_.reset();
    in_batches_ = plan_.comes_in_batches(table_.definition());
    if (plan_.reads_on()) {
      reads_ = reads_of_statement(table_.context->db(), table_.definition(), plan_.ordered, table_.memo);
    }
    plan_text_ = plan;
  }
  switch (plan_.access) {
    case Plan::Access::kKnn:
    case Plan::Access::kRange:
    case Plan::Access::kCount: start_search(arguments); break;
    case Plan::Access::kScan: start_scan(arguments); break;
    case Plan::Access::kRowId: start_point(arguments[0]); break;
    case Plan::Access::kKey: start_key(arguments[0]); break;
    case Plan::Access::kRefused:
      throw Error(ErrorKind::kInvalid, table_.definition().table + ": " + plan_.refusal);
  }
  if (at_end()) aux_holder_ = nullptr;
}

// The same question about the same rows has the same answer: the inner loop of a join asks often.
void WarpCursor::start_search(sqlite3_value** arguments) {
  auto question = read_question(table_.context->db(), plan_, table_.definition(), arguments);
  if (!question) return;
  if (plan_.ordered && *reads_->whole_order) {
    question->first = 0;
  } else if (reads_ && question->first != 0) {
    // A bound LIMIT is not to be seen. Most are as small: more takes longer through lists, fewer one search
    // more.
    constexpr std::uint64_t kUnknown = 20;
    guesses_rows_ = reads_->rows == 0;
    const std::uint64_t read = guesses_rows_ ? table_.memo.rows_read.by(reads_->text) : reads_->rows;
    if (read != 0) {
      question->first = read;
    } else if (in_batches_) {
      question->first = kUnknown;
    }
  }
  std::shared_ptr<const engine::View> view = table_.collection().view();
  if (match_ != nullptr && match_->view() == view.get() && match_->question() == *question) {
    match_->rewind();
  } else {
    const index::Index* index =
        question->of_vector() ? &table_.collection().index(question->column) : nullptr;
    if (index != nullptr && question->nprobe) {
      const TableDefinition& table = table_.definition();
      const std::string& name = table.columns[static_cast<std::size_t>(plan_.column)].name;
      engine::check_nprobe(*index, Place(table.table, name).text());
    }
    if (!question->of_counts) {
      const TableDefinition& table = table_.definition();
      question->report = table_.context->new_report(
          table, table.columns[static_cast<std::size_t>(plan_.column)]);
      question->report->queries = 1;
    }
    auto selection = view->derived().of<LastSelections>().get(*view, question->filter);
    match_ = std::make_unique<MatchRows>(std::move(*question), view, std::move(selection),
                                         index, table_.interrupt);
  }
  look_at(std::move(view));
  state_ = match_->at_end() ? State::kEnd : State::kMatch;
  if (state_ == State::kMatch) at_ = {match_->hit().block, match_->hit().row};
}

void WarpCursor::note_rows() {
  if (!std::exchange(guesses_rows_, false) || match_ == nullptr || !reads_) return;
  table_.memo.rows_read.note(reads_->text, match_->come());
}

void WarpCursor::look_at(std::shared_ptr<const engine::View> view) {
  if (shows_aux_ || view->layout().aux != 0) aux_holder_ = view->hold_aux();
  reader_.reset(std::move(view));
}

void WarpCursor::start_scan(sqlite3_value** arguments) {
  const Context& context = *table_.context;
  engine::Filter filter = read_filter(context.db(), plan_, table_.definition(), arguments);
  scan(filter, context.scanned != nullptr);
  if (context.scanned != nullptr) *context.scanned = std::move(filter);
}

// `known`: who reads the rows asks for the same selection afterwards, and others may have before.
void WarpCursor::scan(const engine::Filter& filter, bool known) {
  std::shared_ptr<const engine::View> view = table_.collection().view();
  auto selection = known ? view->derived().of<LastSelections>().get(*view, filter)
                         : std::make_shared<const engine::Selection>(*view, filter);
  scan_.emplace(view, std::move(selection), descending_);
  presence_.emplace(*view, shows_values_);
  look_at(std::move(view));
  show_scanned();
}

void WarpCursor::show_scanned() {
  while (!scan_->at_end() && !(*presence_)(scan_->at())) scan_->next();
  if (scan_->at_end()) return end_scan();
  state_ = State::kScan;
  at_ = scan_->at();
}

void WarpCursor::end_scan() {
  state_ = State::kEnd;
  aux_holder_ = nullptr;
  if (presence_) presence_->rest();
  if (aux_ != nullptr) aux_->rest();
}

void WarpCursor::start_point(sqlite3_value* value) {
  const std::optional<RowId> rowid = read_rowid(value);
  if (!rowid) return;
  look_at(table_.collection().view());
  show(reader_.view().find(*rowid));
}

void WarpCursor::start_key(sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
    // Only SQLite knows by which affinity they compare, so it is shown every row.
    scan({}, false);
  } else if (type == SQLITE_TEXT) {
    const std::optional<RowId> rowid = table_.collection().find_key(cell_of(value).bytes);
    if (!rowid) return;
    look_at(table_.collection().view());
    show(reader_.view().find(*rowid));
  }
}

void WarpCursor::show(std::optional<engine::Location> at) {
  if (at && !engine::is_there(reader_.view(), *at)) at = std::nullopt;
  state_ = at ? State::kPoint : State::kEnd;
  if (at) at_ = *at;
}

void WarpCursor::next() {
  if (!at_end() && reader_.view().undone()) {
    throw Error(ErrorKind::kHost, SQLITE_ABORT_ROLLBACK,
                table_.definition().table + ": the rows that are being read were rolled back");
  }
  switch (state_) {
    case State::kEnd: break;
    case State::kPoint: state_ = State::kEnd; break;
    case State::kScan:
      scan_->next();
      show_scanned();
      break;
    case State::kMatch:
      try {
        match_->next();
      } catch (...) {
        match_ = nullptr;  // which may have lost some of its order, and is not to be replayed
        end_scan();
        throw;
      }
      if (match_->at_end()) {
        state_ = State::kEnd;
      } else {
        at_ = {match_->hit().block, match_->hit().row};
      }
      break;
  }
  if (at_end()) aux_holder_ = nullptr;
}

void WarpCursor::check_kept() const {
  const Statement asked = prepare(table_.context->db(), "PRAGMA read_uncommitted");
  const bool keeps = !step(asked.get()) || sqlite3_column_int(asked.get(), 0) == 0;
  if (keeps || table_.collection().view().get() == &reader_.view()) return;
  throw Error(ErrorKind::kHost, SQLITE_ABORT,
              table_.definition().table +
                  ": another connection of the shared cache has changed the rows that are being read, which PRAGMA "
                  "read_uncommitted does not keep; run the statement again");
}

RowId WarpCursor::rowid() const {
  return state_ == State::kMatch ? match_->hit().rowid : reader_.view().rowid(at_);
}

bool WarpCursor::found(int column, sqlite3_value* query) const {
  if (state_ != State::kMatch) return false;
  const TableDefinition& table = table_.definition();
  const auto same = [this](const std::byte* data, std::size_t size) {
    return std::ranges::equal(std::span(data, size), match_->question().query);
  };
  if (plan_.access == Plan::Access::kCount) {
    const Cell text = cell_of(query);
    return column == table.hidden(kCommand) &&
           same(reinterpret_cast<const std::byte*>(text.bytes.data()), text.bytes.size());
  }
  if (plan_.column != column) return false;
  const ColumnDefinition& searched = table.columns[static_cast<std::size_t>(column)];
  if (!searched.is_vector()) {
    const Cell text = cell_of(query);
    return same(reinterpret_cast<const std::byte*>(text.bytes.data()), text.bytes.size());
  }
  const VectorInput vector = column_vector(query, searched, Place(table.table, searched.name));
  return same(vector.data, vector.size);
}

void WarpCursor::column(sqlite3_context* context, int column) {
  // UPDATE asks for the columns it does not set; xUpdate takes those from the table itself.
  if (sqlite3_vtab_nochange(context)) return;
  const TableDefinition& definition = table_.definition();
  const auto i = static_cast<std::size_t>(column);
  if (i < definition.columns.size()) {
    if (definition.columns[i].searched()) {
      table_.last_reader = this;
      table_.last_column = column;
    }
    declared_column(context, definition.columns[i]);
    return;
  }
  const int command = definition.hidden(kCommand);
  if (column == command) {
    table_.last_reader = this;
    table_.last_column = column;
  }
  if (state_ == State::kMatch) {
    hidden_column(context, static_cast<HiddenColumn>(column - definition.hidden(kDistance)));
  } else if (column == command) {
    // The value is not NULL, which would MATCH nothing: match() is to say that it cannot be
    // answered.
    result_cell(context, Cell::text(definition.table));
  }
}

// k, nprobe and recall read as they were asked for: SQLite may check `k = 3` again.
void WarpCursor::hidden_column(sqlite3_context* context, HiddenColumn column) const {
  const auto given = [context](std::optional<std::uint64_t> count) {
    if (count) sqlite3_result_int64(context, static_cast<sqlite3_int64>(*count));
  };
  const bool of_counts = match_->question().of_counts;
  switch (column) {
    case kDistance:
      if (!of_counts) sqlite3_result_double(context, match_->hit().distance);
      break;
    case kK: given(match_->question().k); break;
    case kNprobe: given(match_->question().nprobe); break;
    case kRecall:
      if (match_->question().recall) sqlite3_result_double(context, *match_->question().recall);
      break;
    case kMatches:
      if (match_->question().text.has_keywords()) text_matches(context);
      break;
    default: break;
  }
  if (of_counts) {
    counted_column(context, column);
  } else if (column == kCommand) {
    result_cell(context, Cell::text(table_.definition().table));
  }
}

// Counts what the row's text has in common with the query's.
void WarpCursor::text_matches(sqlite3_context* context) const {
  const MatchQuestion& question = match_->question();
  const Hit& hit = match_->hit();
  const auto texts = match_->view()->part(hit.block).plain(question.column);
  sqlite3_result_int64(context, index::common_keywords(question.text, texts->text(hit.row),
                                                       question.query_text()));
}

// The query itself shows in the column that was matched: match() may ask for it.
void WarpCursor::counted_column(sqlite3_context* context, HiddenColumn column) const {
  const MatchQuestion& question = match_->question();
  const double matches = -match_->hit().distance;
  if (column == kDistance) {
    const auto weight = static_cast<double>(engine::total_weight(question.items));
    sqlite3_result_double(context, weight - matches);
  } else if (column == kMatches) {
    sqlite3_result_int64(context, static_cast<sqlite3_int64>(matches));
  } else if (column == kCommand) {
    result_cell(context, Cell::text({reinterpret_cast<const char*>(question.query.data()),
                                     question.query.size()}));
  }
}

void WarpCursor::declared_column(sqlite3_context* context, const ColumnDefinition& column) {
  const auto slot = static_cast<std::size_t>(column.slot);
  switch (column.kind) {
    case ColumnKind::kRowId: sqlite3_result_int64(context, rowid()); break;
    case ColumnKind::kVector: {
      const Cell cell = reader_.vector(at_, slot);
      if (!cell.is_null()) {
        result_vector(context, column.element, cell.bytes.data(), cell.bytes.size());
      }
      break;
    }
    case ColumnKind::kSparse: {
      const Cell cell = reader_.plain(at_, slot);
      if (!cell.is_null()) result_sparse(context, cell.bytes.data());
      break;
    }
    case ColumnKind::kTextKey:
    case ColumnKind::kPlain:
    case ColumnKind::kPartition: result_cell(context, reader_.plain(at_, slot)); break;
    case ColumnKind::kAux:
      if (table_.open->content != nullptr) {
        result_cell(context, content_aux(column).cell());
      } else {
        result_cell(context, reader_.aux(at_, slot));
      }
      break;
  }
}

Value WarpCursor::content_aux(const ColumnDefinition& column) {
  ContentTable& content = *table_.open->content;
  if (state_ != State::kScan) return content.aux(rowid(), column);
  if (aux_ == nullptr) aux_ = std::make_unique<ContentTable::AuxWalk>(content);
  return aux_->value(rowid(), column);
}

namespace {
WarpCursor& cursor_of(sqlite3_vtab_cursor* cursor) { return *static_cast<WarpCursor*>(cursor); }
Interrupt& interrupt_of(sqlite3_vtab_cursor* cursor) {
  return static_cast<WarpTable*>(cursor->pVtab)->interrupt;
}

// Goes on with a statement that has begun.
template <typename Body>
int reading(sqlite3_vtab_cursor* cursor, const Body& body) {
  return guarded(cursor->pVtab, [&] {
    const Interruptible scope(&interrupt_of(cursor));
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCorrupt) cursor_of(cursor).check_kept();
      throw;
    }
    return SQLITE_OK;
  });
}
}  // namespace

int warp_open(sqlite3_vtab* vtab, sqlite3_vtab_cursor** cursor) {
  return guarded(vtab, [&] {
    *cursor = new WarpCursor(*static_cast<WarpTable*>(vtab));
    return SQLITE_OK;
  });
}

int warp_close(sqlite3_vtab_cursor* cursor) {
  auto* table = static_cast<WarpTable*>(cursor->pVtab);
  if (table->last_reader == &cursor_of(cursor)) table->last_reader = nullptr;
  delete &cursor_of(cursor);
  return SQLITE_OK;
}

int warp_filter(sqlite3_vtab_cursor* cursor, int use, const char* plan, int,
                sqlite3_value** argv) {
  return guarded(cursor->pVtab, [&] {
    const Interruptible scope(&interrupt_of(cursor));
    cursor_of(cursor).filter(plan, use, argv);
    return SQLITE_OK;
  });
}

int warp_next(sqlite3_vtab_cursor* cursor) {
  return reading(cursor, [&] { cursor_of(cursor).next(); });
}

int warp_eof(sqlite3_vtab_cursor* cursor) { return cursor_of(cursor).at_end() ? 1 : 0; }

int warp_column(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int column) {
  return reading(cursor, [&] { cursor_of(cursor).column(context, column); });
}

int warp_rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* rowid) {
  return guarded(cursor->pVtab, [&] {
    *rowid = cursor_of(cursor).rowid();
    return SQLITE_OK;
  });
}

}  // namespace warplite::sql
