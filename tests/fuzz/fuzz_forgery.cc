// Files whose checksums and sums are right and whose content is not: fields of records, headers and
// tail rows are changed one by one, blocks and stamps exchanged between segments and tables. Every
// statement answers or fails with a clean error, within bounded memory.
#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/residency.h"
#include "tests/forgery.h"
#include "tests/fuzz/fuzz_database.h"
#include "tests/fuzz/fuzz_tables.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using warplite::Stamp;
using warplite::fuzzing::FuzzTable;
using warplite::fuzzing::fuzz_tables;
using warplite::fuzzing::Input;
using warplite::fuzzing::require;
using warplite::storage::SegmentInfo;
using warplite::storage::State;
using warplite::testing::Forgery;

constexpr long kMostMemory = 1500;  // MB, the sanitizers' own included

template <typename T>
T& pick(std::vector<T>& from, Input& input) {
  return from[input.byte() % from.size()];
}

// What counters tend to be wrong by.
std::int64_t changed(std::int64_t value, Input& input) {
  static constexpr std::int64_t kTelling[] = {0,      1,          -1,        2,         63,
                                              64,     65,         255,       1024,      65535,
                                              65536,  INT32_MAX,  INT64_MAX, INT64_MIN, UINT32_MAX,
                                              1 << 20, std::int64_t{1} << 51};
  const unsigned how = input.byte();
  const auto bits = static_cast<std::uint64_t>(value);
  if (how % 4 == 0) return static_cast<std::int64_t>(bits + 1);
  if (how % 4 == 1) return static_cast<std::int64_t>(bits - 1);
  if (how % 4 == 2) return kTelling[how / 4 % std::size(kTelling)];
  return static_cast<std::int64_t>(bits ^ (std::uint64_t{1} << (how / 4)));
}

template <typename T>
void change(T& value, Input& input) {
  value = static_cast<T>(changed(static_cast<std::int64_t>(value), input));
}

// Bytes of a record or a block, at a place that is a multiple of a small power of two.
void change_bytes(std::string& bytes, std::size_t from, Input& input) {
  if (bytes.size() <= from) return;
  const unsigned how = input.byte();
  const std::size_t width = std::size_t{1} << (how % 4);
  const std::size_t places = (bytes.size() - from) / width;
  if (how / 4 % 8 == 0) {
    bytes.resize(from + (bytes.size() - from) * input.byte() / 255);
  } else if (how / 4 % 8 == 1) {
    bytes.append(1 + input.byte(), static_cast<char>(how));
  } else if (places != 0) {
    const std::size_t near = how / 4 % 2 == 0 ? std::min<std::size_t>(places, 40) : places;
    const std::size_t at = from + (input.byte() * 256 + input.byte()) % near * width;
    std::int64_t value = 0;
    std::memcpy(&value, bytes.data() + at, width);
    value = changed(value, input);
    std::memcpy(bytes.data() + at, &value, width);
  }
}

void change_state(Forgery& table, Input& input) {
  State state = table.state();
  switch (input.byte() % 8) {
    case 0: change(state.last_sequence, input); break;
    case 1: change(state.next_segment, input); break;
    case 2: change(state.tail_rows, input); break;
    case 3: change(state.directory.segments, input); break;
    case 4: state.tail_digest.reset(); break;
    case 5: state.last_flush = {}; break;
    case 6: state.tail_epoch = {}; break;
    default:
      state.models.resize(table.layout().vectors.size());
      if (!state.models.empty()) change(pick(state.models, input).low, input);
  }
  table.put(state);
}

// All stamps of a segment that its blocks have.
std::vector<Stamp*> stamps_of(SegmentInfo& segment) {
  std::vector<Stamp*> all = {&segment.rowids, &segment.alive, &segment.hashes};
  for (Stamp& stamp : segment.vectors) all.push_back(&stamp);
  for (Stamp& stamp : segment.plains) all.push_back(&stamp);
  for (auto& codes : segment.codes) {
    all.push_back(&codes.block);
    all.push_back(&codes.model);
  }
  return all;
}

void change_segment(Forgery& table, Input& input) {
  std::vector<SegmentInfo> segments = table.segments();
  if (segments.empty()) return;
  SegmentInfo& segment = pick(segments, input);
  switch (input.byte() % 8) {
    case 0: change(segment.rows, input); break;
    case 1: change(segment.live_rows, input); break;
    case 2: change(segment.min_rowid, input); break;
    case 3: change(segment.max_rowid, input); break;
    case 4: change(segment.id, input); break;
    case 5: {
      const auto stamps = stamps_of(segment);
      *stamps[input.byte() % stamps.size()] = {};
      break;
    }
    case 6: {
      const auto stamps = stamps_of(segment);
      std::swap(*stamps[input.byte() % stamps.size()], *stamps[input.byte() % stamps.size()]);
      break;
    }
    default:
      if (segment.zones.empty()) break;
      auto& zone = pick(segment.zones, input);
      std::swap(zone.low, zone.high);
      if (input.byte() % 2 == 0) zone.has_null = !zone.has_null;
  }
  table.put(segment);
}

// Header fields, or the payload: rows, widths, lengths, codes, models, dictionaries.
void change_block(Forgery& table, Input& input) {
  std::vector<std::int64_t> ids = table.block_ids();
  if (ids.empty()) return;
  const std::int64_t id = pick(ids, input);
  std::string bytes = table.block(id);
  if (input.byte() % 8 == 0) {
    std::string header = bytes.substr(0, warplite::storage::kBlockHeader);
    change_bytes(header, 4, input);
    header.resize(warplite::storage::kBlockHeader);
    bytes.replace(0, header.size(), header);
  } else {
    for (unsigned i = input.byte() % 4; i < 4; ++i) {
      change_bytes(bytes, warplite::storage::kBlockHeader, input);
    }
  }
  table.put_block(id, bytes);
}

// One block's payload under the header of another.
void exchange_payloads(Forgery& to, Forgery& from, Input& input) {
  std::vector<std::int64_t> ids = to.block_ids(), others = from.block_ids();
  if (ids.empty() || others.empty()) return;
  const std::int64_t id = pick(ids, input);
  const std::string other = from.block(pick(others, input));
  std::string bytes = to.block(id).substr(0, warplite::storage::kBlockHeader);
  if (other.size() < warplite::storage::kBlockHeader) return;
  to.put_block(id, bytes + other.substr(warplite::storage::kBlockHeader));
}

void set_stamp(Forgery& table, std::int64_t block, const Stamp& stamp) {
  std::string bytes = table.block(block);
  if (bytes.size() < warplite::storage::kBlockHeader) return;
  std::memcpy(bytes.data() + warplite::testing::kStampAt, &stamp, sizeof stamp);
  table.put_block(block, bytes);
}

// Blocks of one slot have one stamp in all segments of the table, and models the same in all tables.
void share_stamps(Forgery& table) {
  State state = table.state();
  for (std::size_t i = 0; i < state.models.size(); ++i) {
    if (state.models[i].is_null()) continue;
    state.models[i] = {8, 8};
    set_stamp(table, static_cast<std::int64_t>(i), state.models[i]);
  }
  table.put(state);
  for (SegmentInfo segment : table.segments()) {
    const std::int64_t first = segment.id * warplite::storage::kSlots;
    const auto share = [&](Stamp& stamp, std::int64_t block, std::uint64_t kind) {
      if (stamp.is_null()) return;
      stamp = {7, kind};
      set_stamp(table, block, stamp);
    };
    share(segment.rowids, first, 1);
    share(segment.alive, first + 1, 2);
    const std::size_t vectors = segment.vectors.size(), plains = segment.plains.size();
    share(segment.hashes, first + 2 + static_cast<std::int64_t>(2 * vectors + plains), 3);
    for (std::size_t i = 0; i < vectors; ++i) {
      share(segment.vectors[i], table.vectors_id(segment, i), 4);
    }
    for (std::size_t i = 0; i < plains; ++i) {
      share(segment.plains[i], table.plain_id(segment, i), 5 + i);
    }
    for (std::size_t i = 0; i < segment.codes.size(); ++i) {
      if (segment.codes[i].block.is_null()) continue;
      share(segment.codes[i].block, table.codes_id(segment, i), 100);
      segment.codes[i].model = {8, 8};
    }
    table.put(segment);
  }
}

void change_tail(Forgery& table, Input& input) {
  std::vector<std::int64_t> ids = table.tail_ids();
  if (ids.empty()) return;
  const std::int64_t id = pick(ids, input), other = pick(ids, input);
  const std::string name = table.table() + "_tail";
  switch (input.byte() % 8) {
    case 0: return table.change_tail(id, "id = " + std::to_string(changed(id, input)));
    case 1: return table.change_tail(id, "row = " + std::to_string(changed(id, input)));
    case 2: return table.change_tail(id, "flush = zeroblob(" + std::to_string(input.byte() % 20) + ")");
    case 3:
      return table.change_tail(id, "row = (SELECT row FROM " + name + " WHERE id = " +
                                       std::to_string(other) + ")");
    case 4: return table.run("DELETE FROM " + name + " WHERE id = " + std::to_string(id));
    case 5: return table.change_tail(id, table.layout().content ? "hash = 5" : "c0 = 5");
    case 6:
      return table.change_tail(id, table.layout().content ? "hash = NULL" : "c0 = x'0001ff'");
    default:
      if (table.layout().vectors.empty() || table.layout().content) return;
      return table.change_tail(id, input.byte() % 2 == 0 ? "v0 = zeroblob(3)" : "v0 = NULL");
  }
}

// Row tables without checksums, and rows that come or go.
void change_rows(Forgery& table, Input& input) {
  static constexpr const char* kPatterns[] = {
      "DELETE FROM $_keys WHERE id % 3 = 0",  "UPDATE OR REPLACE $_keys SET id = id + 1",
      "UPDATE $_keys SET key = x'00' || id",  "DELETE FROM $_aux WHERE id % 2 = 0",
      "UPDATE $_aux SET a0 = zeroblob(1000)", "DELETE FROM $_segments WHERE id % 2 = 0",
      "DELETE FROM $_blocks WHERE id % 3 = 0", "UPDATE OR REPLACE $_segments SET id = id + 1",
      "INSERT INTO $_segments SELECT id + 7, info FROM $_segments", "UPDATE rows SET n = NULL, s = NULL",
      "UPDATE rows SET v = zeroblob(16)", "DELETE FROM rows WHERE id % 2 = 0"};
  std::string sql = kPatterns[input.byte() % std::size(kPatterns)];
  for (std::size_t at; (at = sql.find('$')) != std::string::npos;) sql.replace(at, 1, table.table());
  table.run_if_possible(sql);
}

void forge(Forgery& table, Forgery& other, Input& input) {
  switch (input.byte() % 10) {
    case 0: return change_state(table, input);
    case 1:
    case 2: return change_segment(table, input);
    case 3: return exchange_payloads(table, other, input);
    case 4: share_stamps(table); return share_stamps(other);
    case 5: return change_tail(table, input);
    case 6: return change_rows(table, input);
    default: return change_block(table, input);
  }
}

const std::vector<unsigned char>& original() {
  static const std::vector<unsigned char> image = [] {
    sqlite3* db = warplite::fuzzing::database();
    for (const FuzzTable& table : fuzz_tables()) {
      char* message = nullptr;
      sqlite3_exec(db, table.set_up.c_str(), nullptr, nullptr, &message);
      require(message == nullptr, std::string(table.name) + ": " + (message != nullptr ? message : ""));
      for (const std::string& sql : table.statements) {
        const std::string found = warplite::fuzzing::answer(db, "SAVEPOINT s");
        const std::string answer = warplite::fuzzing::answer(db, sql);
        // The rows may be too few to learn from, or have their keys already.
        const bool may_fail = sql.find("'train'") != std::string::npos ||
                              answer.find("UNIQUE constraint") != std::string::npos ||
                              answer.find("needs vectors") != std::string::npos;
        require(may_fail || answer.rfind("error: ", 0) != 0, sql + ": " + answer);
        warplite::fuzzing::run(db, "ROLLBACK TO s; RELEASE s");
      }
    }
    sqlite3_int64 size = 0;
    unsigned char* bytes = sqlite3_serialize(db, "main", &size, 0);
    std::vector<unsigned char> made(bytes, bytes + size);
    sqlite3_free(bytes);
    return made;
  }();
  return image;
}

// Runs to the end, whatever comes.
void try_statement(sqlite3* db, const std::string& sql) {
  char* message = nullptr;
  const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message);
  const std::string text = message != nullptr ? message : "";
  sqlite3_free(message);
  const bool clean = (code == SQLITE_OK || !text.empty()) && code != SQLITE_NOMEM &&
                     code != SQLITE_INTERNAL && text.find("internal check") == std::string::npos;
  require(clean, "a fault of " + sql + ": " + std::to_string(code) + " " + text);
}

void run_all(sqlite3* db, const FuzzTable& table, unsigned turn) {
  const std::size_t count = table.statements.size();
  for (std::size_t i = 0; i < count; ++i) try_statement(db, table.statements[(i + turn) % count]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sqlite3* db = warplite::fuzzing::copy_of(original());
  Input input(data, size);
  const FuzzTable& one = fuzz_tables()[input.byte() % fuzz_tables().size()];
  const FuzzTable& two = fuzz_tables()[input.byte() % fuzz_tables().size()];
  const unsigned turn = input.byte();
  try {
    Forgery table(db, one.name), other(db, two.name);
    for (unsigned count = 1 + input.byte() % 3; count > 0; --count) forge(table, other, input);
    if (turn % 8 != 0) table.settle();
    other.settle();
  } catch (const warplite::Error&) {  // what was changed is not read any more
  }
  warplite::engine::Residency::instance().clear();
  if (turn % 4 == 0) run_all(db, two, 0);
  run_all(db, one, turn % 16 < 8 ? 0 : turn);
  if (turn % 4 == 1) run_all(db, two, 0);
  sqlite3_close(db);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  require(usage.ru_maxrss / 1024 < kMostMemory, "too much memory");
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  std::uint32_t state = 1;
  for (std::size_t table = 0; table < fuzz_tables().size(); ++table) {
    for (int how = 0; how < 10; ++how) {
      std::string seed = {static_cast<char>(table), static_cast<char>(table + how % 3),
                          static_cast<char>(how), 0, static_cast<char>(how)};
      for (int i = 0; i < 24; ++i) {
        state = state * 1664525 + 1013904223;
        seed += static_cast<char>(state >> 24);
      }
      seeds.push_back(seed);
    }
  }
  return seeds;
}
