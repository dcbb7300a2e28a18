#include "sql/functions/config.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "compute/device.h"
#include "compute/spelling.h"
#include "core/error.h"
#include "engine/residency/residency.h"
#include "engine/search/search.h"
#include "engine/training/time_limit.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/values.h"
#include "sql/host/number_text.h"
#include "sql/host/progress.h"

namespace warplite::sql {
namespace {

constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kMostSeconds = 1000000;

std::atomic<bool> external{true};
std::atomic<bool> locked{false};

[[noreturn]] void refuse(const char* name, const char* expected, const Cell& value) {
  throw Error(ErrorKind::kInvalid, std::string("warp_config: ") + name + ": expected " + expected +
                                       ", got " + describe(value));
}

// Returns the number that a text stands for, and any other cell as it is.
Cell numeric(const Cell& cell) {
  return cell.kind == CellKind::kText ? number_of(cell.bytes).value_or(cell) : cell;
}

std::optional<std::int64_t> integer_of(const Cell& cell) {
  const Cell number = numeric(cell);
  if (number.kind == CellKind::kInteger) return number.integer;
  return std::nullopt;
}

// Bytes a unit stands for; 0 for none known. `unit` in any case.
std::size_t unit_bytes(std::string_view unit) {
  if (unit.empty()) return 1;
  std::size_t bytes = 1;
  const char letter = static_cast<char>(unit[0] | 0x20);
  if (letter == 'b') return unit.size() == 1 ? 1 : 0;
  for (const char prefix : {'k', 'm', 'g', 't'}) {
    bytes *= 1024;
    if (letter != prefix) continue;
    std::string rest(unit.substr(1));
    for (char& c : rest) c = static_cast<char>(c | 0x20);
    return rest.empty() || rest == "b" || rest == "ib" ? bytes : 0;
  }
  return 0;
}

std::size_t size_setting(const char* name, const Cell& value) {
  constexpr const char* kExpected = "a number of bytes, or a text such as '2GB'";
  std::string_view text = value.bytes;
  std::size_t unit = 1;
  Cell amount = value;
  if (value.kind == CellKind::kText) {
    const std::size_t digits = text.find_first_not_of(" 0123456789.");
    const std::string_view suffix = digits == text.npos ? std::string_view{} : text.substr(digits);
    unit = unit_bytes(suffix.substr(0, suffix.find_last_not_of(' ') + 1));
    amount = Cell::text(text.substr(0, digits));
  }
  const Cell number = numeric(amount);
  double bytes = -1;
  if (number.kind == CellKind::kInteger) bytes = static_cast<double>(number.integer);
  if (number.kind == CellKind::kReal) bytes = number.real;
  bytes *= static_cast<double>(unit);
  if (unit == 0 || !(bytes >= 0) || bytes > 9e18) refuse(name, kExpected, value);
  return static_cast<std::size_t>(bytes);
}

void set_device(const Cell& value) {
  if (value.kind != CellKind::kText) refuse("device", "'auto', 'cpu', 'gpu' or 'gpu:N'", value);
  engine::set_default_device(std::string(value.bytes));
}

void set_threads(const Cell& value) {
  const std::optional<std::int64_t> threads = integer_of(value);
  if (!threads || *threads < 0 || *threads > kMostThreads) {
    refuse("threads", "a number from 0 (one per core) to 1024", value);
  }
  compute::set_thread_count(static_cast<unsigned>(*threads));
}

void set_training_seconds(const Cell& value) {
  const std::optional<std::int64_t> seconds = integer_of(value);
  if (!seconds || *seconds < 0 || *seconds > kMostSeconds) {
    refuse("training_seconds", "a number from 0 (no training in a COMMIT) to 1000000", value);
  }
  engine::set_training_limit(static_cast<std::uint32_t>(*seconds));
}

bool flag_setting(const char* name, const Cell& value) {
  std::optional<std::int64_t> on = integer_of(value);
  if (value.kind == CellKind::kText) {
    const std::string word = ascii_lower(value.bytes);
    if (word == "on" || word == "off") on = word == "on" ? 1 : 0;
  }
  if (!on || (*on != 0 && *on != 1)) refuse(name, "'on', 'off', 1 or 0", value);
  return *on == 1;
}

void check_unlocked(const std::string& name) {
  if (!locked) return;
  throw Error(ErrorKind::kInvalid, "warp_config: " + name + " cannot be changed any more: " +
                                       "warp_config('lock_configuration', 1) holds");
}

// Turns a setting that can be turned to `last` only, and never back. Asking for what holds already
// is no change, so that every connection of a program may say it.
void turn(const char* name, std::atomic<bool>& setting, bool last, const Cell& value) {
  const bool wanted = flag_setting(name, value);
  if (setting == wanted) return;
  check_unlocked(name);
  if (wanted != last) {
    throw Error(ErrorKind::kInvalid, std::string("warp_config: ") + name +
                                         " cannot be taken back in this process");
  }
  setting = wanted;
}

Value number(std::uint64_t value) { return Value(Cell::of(static_cast<std::int64_t>(value))); }

struct Setting {
  const char* name;
  Value (*read)();
  void (*write)(const Cell& value);
  bool lockable = true;  // else it looks at the lock itself
};

const Setting kSettings[] = {
    {"device", [] { return Value(Cell::text(engine::default_device())); }, set_device},
    {"threads", [] { return number(compute::thread_count()); }, set_threads},
    {"cpu_memory_limit", [] { return number(engine::Residency::instance().limit()); },
     [](const Cell& value) {
       engine::Residency::instance().set_limit(size_setting("cpu_memory_limit", value));
     }},
    {"gpu_memory_limit", [] { return number(engine::Residency::instance().device_limit()); },
     [](const Cell& value) {
       engine::Residency::instance().set_device_limit(size_setting("gpu_memory_limit", value));
     }},
    {"training_seconds", [] { return number(engine::training_limit()); }, set_training_seconds},
    {"progress", [] { return number(progress_enabled() ? 1 : 0); },
     [](const Cell& value) { enable_progress(flag_setting("progress", value)); }},
    {"external_access", [] { return number(external ? 1 : 0); },
     [](const Cell& value) { turn("external_access", external, false, value); }, false},
    {"lock_configuration", [] { return number(locked ? 1 : 0); },
     [](const Cell& value) { turn("lock_configuration", locked, true, value); }, false},
};

const Setting& find_setting(std::string_view name) {
  std::string names;
  for (const Setting& setting : kSettings) {
    if (setting.name == name) return setting;
    names += (names.empty() ? "" : ", ") + std::string(setting.name);
  }
  throw Error(ErrorKind::kInvalid,
              "warp_config: unknown setting '" + std::string(name) +
                  "'; the settings are: " + names + compute::did_you_mean(name, names));
}

}  // namespace

Value read_setting(std::string_view name) { return find_setting(name).read(); }

Value write_setting(std::string_view name, const Cell& value) {
  const Setting& setting = find_setting(name);
  if (setting.lockable) check_unlocked(setting.name);
  setting.write(value);
  return setting.read();
}

void check_external_access(const std::string& what) {
  if (external) return;
  throw Error(ErrorKind::kInvalid,
              what + ": no file is read where warp_config('external_access', 0) holds");
}

}  // namespace warplite::sql
