#include "sql/table/commands.h"

#include <string>
#include <string_view>

#include "compute/spelling.h"
#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/values.h"
#include "sql/host/progress.h"

namespace warplite::sql {
namespace {

constexpr std::size_t kFaultsShown = 5;

// "papers.embedding" when that is the only column that learns, else "papers".
std::string subject(const engine::Collection& collection) {
  std::string name = collection.table();
  int learning = 0;
  for (std::size_t i = 0; i < collection.options().vectors.size(); ++i) {
    if (collection.index(i).trained() == nullptr) continue;
    name = collection.table() + "." + collection.options().vectors[i].name;
    ++learning;
  }
  return learning == 1 ? name : collection.table();
}

void rebuild(engine::Collection& collection, compute::Cancellation& cancellation) {
  collection.rebuild(&cancellation, work_reporter(collection));
}

void optimize(engine::Collection& collection, compute::Cancellation& cancellation) {
  collection.optimize(&cancellation, work_reporter(collection));
}

void train(engine::Collection& collection, compute::Cancellation& cancellation) {
  collection.train(&cancellation, work_reporter(collection));
}

void check_integrity(engine::Collection& collection, compute::Cancellation& cancellation) {
  // Rows that vanished without a report are no fault if the index is told of everything else.
  using Against = engine::Collection::AgainstContent;
  const bool own_rows = collection.options().content == nullptr;
  const Against against = own_rows || !collection.options().content->tells()
                              ? Against::kAll
                              : Against::kButVanished;
  const std::vector<std::string> faults = collection.integrity_check(&cancellation, against);
  if (faults.empty()) return;
  std::string text = collection.table() + (own_rows ? " is damaged: " : " is not as it should be: ");
  for (std::size_t i = 0; i < faults.size() && i < kFaultsShown; ++i) {
    text += (i == 0 ? "" : "; ") + faults[i];
  }
  if (faults.size() > kFaultsShown) {
    text += "; and " + std::to_string(faults.size() - kFaultsShown) + " more";
  }
  throw Error(ErrorKind::kCorrupt, text);
}

struct Command {
  std::string_view name;
  void (*run)(engine::Collection&, compute::Cancellation&);
};
constexpr Command kCommands[] = {
    {"rebuild", rebuild},
    {"optimize", optimize},
    {"integrity-check", check_integrity},
    {"train", train},
};

}  // namespace

index::Progress work_reporter(const engine::Collection& collection) {
  return progress_reporter(subject(collection));
}

bool is_command(const Cell& command, std::string_view name) {
  return command.kind == CellKind::kText && ascii_lower(command.bytes) == name;
}

void run_command(engine::Collection& collection, const Cell& command,
                 compute::Cancellation& cancellation) {
  const std::string lower = command.kind == CellKind::kText ? ascii_lower(command.bytes) : "";
  std::string known;
  for (const Command& row : kCommands) {
    if (row.name == lower) return row.run(collection, cancellation);
    known += (known.empty() ? "'" : ", '") + std::string(row.name) + "'";
  }
  throw Error(ErrorKind::kInvalid, collection.table() + ": expected a command, one of " +
                                       known + "; got " + describe(command) +
                                       compute::did_you_mean(lower, known));
}

}  // namespace warplite::sql
