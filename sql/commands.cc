#include "sql/commands.h"

#include <string>
#include <string_view>

#include "core/error.h"
#include "sql/argument_lexer.h"
#include "sql/values.h"

namespace warplite::sql {
namespace {

constexpr std::size_t kFaultsShown = 5;

void check_integrity(engine::Collection& collection) {
  const std::vector<std::string> faults = collection.integrity_check();
  if (faults.empty()) return;
  std::string text = collection.table() + " is damaged: ";
  for (std::size_t i = 0; i < faults.size() && i < kFaultsShown; ++i) {
    text += (i == 0 ? "" : "; ") + faults[i];
  }
  if (faults.size() > kFaultsShown) {
    text += "; and " + std::to_string(faults.size() - kFaultsShown) + " more";
  }
  throw Error(ErrorKind::kCorrupt, text);
}

// Of the kinds there are, none learns from the rows: flat keeps them as they are.
void train(engine::Collection&) {}

struct Command {
  std::string_view name;
  void (*run)(engine::Collection&);
};
constexpr Command kCommands[] = {
    {"rebuild", [](engine::Collection& collection) { collection.rebuild(); }},
    {"optimize", [](engine::Collection& collection) { collection.optimize(); }},
    {"integrity-check", check_integrity},
    {"train", train},
};

}  // namespace

void run_command(engine::Collection& collection, const Cell& command) {
  const std::string lower = command.kind == CellKind::kText ? ascii_lower(command.bytes) : "";
  std::string known;
  for (const Command& row : kCommands) {
    if (row.name == lower) return row.run(collection);
    known += (known.empty() ? "'" : ", '") + std::string(row.name) + "'";
  }
  throw Error(ErrorKind::kInvalid, collection.table() + ": expected a command, one of " +
                                       known + "; got " + describe(command));
}

}  // namespace warplite::sql
