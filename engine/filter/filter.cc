#include "engine/filter/filter.h"

#include <algorithm>
#include <memory>

#include "compute/host/parallel.h"
#include "core/process/interruption.h"
#include "core/process/process.h"
#include "engine/filter/predicate.h"
#include "engine/table/block_reader.h"
#include "engine/table/parts.h"

namespace warplite::engine {
namespace {

using Verdict = CompiledPredicate::Verdict;

std::vector<CompiledPredicate> compile(const Layout& layout, const Filter& filter) {
  std::vector<CompiledPredicate> compiled;
  compiled.reserve(filter.size());
  for (const Predicate& predicate : filter) {
    const bool rowid = predicate.column == Predicate::kRowId;
    const PlainType type =
        rowid ? PlainType::kInteger : layout.plains[static_cast<std::size_t>(predicate.column)];
    CompiledPredicate next(predicate, type);
    if (std::none_of(compiled.begin(), compiled.end(),
                     [&](CompiledPredicate& before) { return before.absorb(next); })) {
      compiled.push_back(std::move(next));
    }
  }
  // Cheap ones first: they may leave nothing for the others to read.
  std::stable_sort(
      compiled.begin(), compiled.end(),
      [](const CompiledPredicate& a, const CompiledPredicate& b) { return a.cost() < b.cost(); });
  return compiled;
}

// Applies one predicate after another to all parts that have rows left. This thread reads what
// they need of the table; then others help to test it.
class Filtering {
 public:
  Filtering(const View& view, const std::vector<CompiledPredicate>& predicates,
            std::vector<Selection::Rows>& out)
      : view_(view), predicates_(predicates), out_(out), open_(out.size() * predicates.size()) {}

  void run() {
    for (std::size_t i = 0; i < out_.size(); ++i) judge(i);
    for (std::size_t p = 0; p < predicates_.size(); ++p) apply(p);
    for (std::size_t i = 0; i < out_.size(); ++i) finish(i);
  }

 private:
  // Some rows of a part, to be tested by whatever thread comes first.
  struct Piece {
    const Column* column;
    RowWords words;
    Selection::Rows* rows;
    std::uint32_t count = 0;  // that are left
  };
  static constexpr std::size_t kPieceWords = 256;
  // Once so many rows are read they are tested, since what is read cannot be evicted until then.
  static constexpr std::size_t kRowsAtOnce = std::size_t{1} << 22;

  void judge(std::size_t i) {
    const Part& part = view_.part(i);
    out_[i].count = part.live_rows();
    for (std::size_t p = 0; p < predicates_.size() && out_[i].count != 0; ++p) {
      const Verdict verdict = predicates_[p].judge(part);
      if (verdict == Verdict::kNone) out_[i].count = 0;
      open_[i * predicates_.size() + p] = verdict == Verdict::kSome;
    }
  }

  // Reads values of parts from `first` on, of as many as are tested at once. Returns the part after
  // them.
  std::size_t read_some(std::size_t p, std::size_t first) const {
    std::vector<const Part*> parts;
    std::size_t end = first;
    for (std::size_t rows = 0; end < out_.size() && rows < kRowsAtOnce; ++end) {
      rows += view_.part(end).rows();
      if (is_open(end, p)) parts.push_back(&view_.part(end));
    }
    read_ahead(std::move(parts), Part::Ahead::kPlain, predicates_[p].column());
    return end;
  }
  // Says whether rows of the part are to be tested.
  bool is_open(std::size_t i, std::size_t p) const {
    return out_[i].count != 0 && open_[i * predicates_.size() + p] != 0;
  }

  void apply(std::size_t p) {
    const CompiledPredicate& predicate = predicates_[p];
    std::size_t ahead = predicate.on_rowid() ? out_.size() : 0;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      poll_interruption();
      if (i == ahead) ahead = read_some(p, i);
      Selection::Rows& rows = out_[i];
      if (!is_open(i, p)) continue;
      const Part& part = view_.part(i);
      if (rows.bits.size() == 0) rows.bits = copy_alive(part);
      if (predicate.on_rowid()) {
        predicate.apply_to_rowids(part, rows.bits);
        rows.count =
            static_cast<std::uint32_t>(count_bits(rows.bits.words(), rows.bits.word_count()));
      } else if (auto column = part.plain(predicate.column())) {
        if (find(predicate, *column, rows)) continue;
        add_pieces(*column, rows);
        columns_.push_back(std::move(column));
        if (rows_ >= kRowsAtOnce) test(predicate);
      } else if (!predicate.nulls_pass()) {
        rows.count = 0;
      }
    }
    test(predicate);
  }

  // Finds the rows that pass where values ascend, as the names of documents or dates mostly do: nearly
  // nothing is read. False: they have to be tested.
  bool find(const CompiledPredicate& predicate, const Column& column, Selection::Rows& rows) {
    places_.clear();
    if (!column.ascending() || !predicate.find_places(column, rows.bits.size(), places_)) return false;
    Bitmap found(rows.bits.size());
    for (const CompiledPredicate::Places& run : places_) found.set(run.first, run.last + 1);
    rows.bits &= found;
    rows.count = static_cast<std::uint32_t>(rows.bits.count());
    return true;
  }

  void add_pieces(const Column& column, Selection::Rows& rows) {
    const std::size_t words = rows.bits.word_count();
    for (std::size_t first = 0; first < words; first += kPieceWords) {
      const std::size_t last = std::min(words, first + kPieceWords);
      pieces_.push_back({&column, {rows.bits.words(), first, last, rows.bits.size()}, &rows});
    }
    rows_ += rows.bits.size();
    rows.count = 0;
  }

  void test(const CompiledPredicate& predicate) {
    if (predicate.asks_host()) {
      for (Piece& piece : pieces_) test(predicate, piece);
    } else {
      test_in_parallel(predicate);
    }
    for (const Piece& piece : pieces_) piece.rows->count += piece.count;
    pieces_.clear();
    columns_.clear();
    rows_ = 0;
  }

  void test_in_parallel(const CompiledPredicate& predicate) {
    // Testing so many rows takes as long as waking a thread and giving it something to do.
    const std::size_t rows_per_thread = predicate.cost() > 1 ? 8192 : 65536;
    const std::size_t rows_per_range = rows_per_thread / 4;
    const std::size_t grain = pieces_.size() * rows_per_range / std::max<std::size_t>(rows_, 1) + 1;
    compute::in_parallel(pieces_.size(), grain, rows_ / rows_per_thread,
                         [&](std::size_t first, std::size_t last) {
                           for (std::size_t i = first; i < last; ++i) test(predicate, pieces_[i]);
                         });
  }

  static void test(const CompiledPredicate& predicate, Piece& piece) {
    const RowWords& words = piece.words;
    predicate.apply(*piece.column, words);
    piece.count =
        static_cast<std::uint32_t>(count_bits(words.bits + words.first, words.last - words.first));
  }

  void finish(std::size_t i) {
    const Part& part = view_.part(i);
    Selection::Rows& rows = out_[i];
    rows.all = rows.count == part.rows() && rows.count != 0;
    if (rows.all || rows.count == 0) {
      rows.bits = Bitmap();
    } else if (rows.bits.size() == 0) {
      rows.bits = copy_alive(part);
    }
  }

  const View& view_;
  const std::vector<CompiledPredicate>& predicates_;
  std::vector<Selection::Rows>& out_;
  std::vector<std::uint8_t> open_;  // per part, per predicate: whether rows have to be tested
  std::vector<CompiledPredicate::Places> places_;
  std::vector<Piece> pieces_;       // to be tested now
  std::vector<std::shared_ptr<const Column>> columns_;  // what they read
  std::size_t rows_ = 0;                                // in pieces_
};

}  // namespace

Selection::Selection(const View& view, const Filter& filter)
    : parts_(view.parts()), number_(new_number()), everything_(filter.empty()) {
  const std::vector<CompiledPredicate> predicates = compile(view.layout(), filter);
  Filtering(view, predicates, parts_).run();
  add_up();
}

Selection::Selection(std::span<const std::shared_ptr<const Selection>> selections)
    : number_(new_number()), everything_(true) {
  for (const auto& some : selections) {
    parts_.insert(parts_.end(), some->parts_.begin(), some->parts_.end());
    everything_ = everything_ && some->everything_;
  }
  add_up();
}

void Selection::add_up() {
  count_ = 0;
  for (const Rows& part : parts_) count_ += part.count;
}

void Selection::exclude(const View& view, std::span<const Location> rows) {
  number_ = new_number();
  for (const Location& at : rows) {
    Rows& part = parts_[at.part];
    if (part.count == 0) continue;
    if (part.all) part.bits = Bitmap(view.part(at.part).rows(), true);
    part.all = false;
    if (!part.bits.test(at.row)) continue;
    part.bits.reset(at.row);
    if (--part.count == 0) part.bits = Bitmap();
    everything_ = false;
  }
  add_up();
}

std::shared_ptr<const Selection> all_rows(const View& view) {
  return view.derived().get<const Selection>(
      [&] { return std::make_shared<const Selection>(view, Filter{}); });
}

}  // namespace warplite::engine
