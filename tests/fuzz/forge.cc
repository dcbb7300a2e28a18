#include "tests/fuzz/forge.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "storage/codec/block_codec.h"
#include "tests/fuzz/forge_rows.h"

namespace warplite::fuzzing {
namespace {

using storage::SegmentInfo;
using storage::State;
using storage::ZoneMap;
using testing::Forgery;

template <typename T>
T& pick(std::vector<T>& from, Input& input) {
  return from[input.byte() % from.size()];
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
    case 0:
      change(state.last_sequence, input);
      break;
    case 1:
      change(state.next_segment, input);
      break;
    case 2:
      change(state.tail_rows, input);
      break;
    case 3:
      change(state.directory.segments, input);
      break;
    case 4:
      state.tail_digest.reset();
      break;
    case 5:
      state.last_flush = {};
      break;
    case 6:
      state.tail_epoch = {};
      break;
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

// `other` may be of another type.
void change_zone(ZoneMap& zone, const ZoneMap& other, Input& input) {
  switch (input.byte() % 6) {
    case 0:
      return std::swap(zone.low, zone.high);
    case 1:
      zone.has_null = !zone.has_null;
      return;
    case 2:
      zone.all_null = !zone.all_null;
      return;
    case 3:
      zone.low = zone.high;
      return;
    case 4:
      zone.high = zone.low;
      return;
    default:
      zone = other;
  }
}

void change_segment(Forgery& table, Input& input) {
  std::vector<SegmentInfo> segments = table.segments();
  if (segments.empty()) return;
  SegmentInfo& segment = pick(segments, input);
  switch (input.byte() % 8) {
    case 0:
      change(segment.rows, input);
      break;
    case 1:
      change(segment.live_rows, input);
      break;
    case 2:
      change(segment.min_rowid, input);
      break;
    case 3:
      change(segment.max_rowid, input);
      break;
    case 4:
      change(segment.id, input);
      break;
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
      change_zone(pick(segment.zones, input), pick(segment.zones, input), input);
  }
  table.put(segment);
}

// Any field of a record: stamps, counts, sums, numbers of columns, bounds.
void change_record(Forgery& table, Input& input) {
  constexpr std::size_t kBody = 16;
  const auto segments = table.numbers("SELECT id FROM " + table.table() + "_segments");
  if (segments.empty() || input.byte() % 3 == 0) {
    std::string record = table.state_record();
    change_bytes(record, kBody, input);
    return table.put_state_record(record);
  }
  const std::int64_t id = segments[input.byte() % segments.size()];
  std::string record = table.segment_record(id);
  for (unsigned i = input.byte() % 3; i < 3; ++i) change_bytes(record, kBody, input);
  table.put_segment_record(id, record);
}

// Header fields, or the payload: rows, widths, lengths, codes, models, dictionaries.
void change_block(Forgery& table, Input& input) {
  std::vector<std::int64_t> ids = table.block_ids();
  if (ids.empty()) return;
  const std::int64_t id = pick(ids, input);
  std::string bytes = table.block(id);
  if (input.byte() % 8 == 0) {
    std::string header = bytes.substr(0, storage::kBlockHeader);
    change_bytes(header, 4, input);
    header.resize(storage::kBlockHeader);
    bytes.replace(0, header.size(), header);
  } else {
    for (unsigned i = input.byte() % 4; i < 4; ++i) {
      change_bytes(bytes, storage::kBlockHeader, input);
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
  std::string bytes = to.block(id).substr(0, storage::kBlockHeader);
  if (other.size() < storage::kBlockHeader) return;
  to.put_block(id, bytes + other.substr(storage::kBlockHeader));
}

void set_stamp(Forgery& table, std::int64_t block, const Stamp& stamp) {
  std::string bytes = table.block(block);
  if (bytes.size() < storage::kBlockHeader) return;
  std::memcpy(bytes.data() + testing::kStampAt, &stamp, sizeof stamp);
  table.put_block(block, bytes);
}

// Blocks of one slot have one stamp in all segments of the table, and models the same in all
// tables.
void share_stamps(Forgery& table) {
  State state = table.state();
  for (std::size_t i = 0; i < state.models.size(); ++i) {
    if (state.models[i].is_null()) continue;
    state.models[i] = {8, 8};
    set_stamp(table, static_cast<std::int64_t>(i), state.models[i]);
  }
  table.put(state);
  for (SegmentInfo segment : table.segments()) {
    const std::int64_t first = segment.id * storage::kSlots;
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

}  // namespace

void forge(Forgery& table, Forgery& other, Input& input) {
  const bool imports = table.table() == "imports";  // the tables of others are what matters
  switch (imports ? 6 : input.byte() % 12) {
    case 0:
      return change_state(table, input);
    case 1:
    case 2:
      return change_segment(table, input);
    case 3:
      return exchange_payloads(table, other, input);
    case 4:
      share_stamps(table);
      return share_stamps(other);
    case 5:
      return change_tail(table, input);
    case 6:
      return change_rows(table, input);
    case 7:
      return change_record(table, input);
    default:
      return change_block(table, input);
  }
}

namespace {

// Words of definitions, and what may stand in their place.
constexpr struct {
  const char* from;
  const char* to;
} kWords[] = {{"FLOAT[8]", "FLOAT[9]"},
              {"FLOAT[8]", "FLOAT[4000]"},
              {"FLOAT[8]", "INT8[32]"},
              {"FLOAT[4]", "FLOAT16[8]"},
              {"FLOAT[4]", "BIT[128]"},
              {"FLOAT16[8]", "FLOAT[4]"},
              {"FLOAT16[8]", "BFLOAT16[8]"},
              {"SPARSE[90]", "SPARSE[9]"},
              {"SPARSE[90]", "SPARSE[2147483648]"},
              {"SPARSE[90]", "TEXT"},
              {"s TEXT", "s SPARSE[99]"},
              {"n INTEGER", "n TEXT"},
              {"n INTEGER", "n REAL"},
              {"n INTEGER", "n BOOLEAN"},
              {"s TEXT", "s INTEGER"},
              {"x REAL", "x INTEGER"},
              {"n INTEGER", "m TEXT, n INTEGER"},
              {"n INTEGER", "n INTEGER, +a"},
              {"n INTEGER", "n INTEGER, z FLOAT[8]"},
              {", +note", ""},
              {"ivfflat", "ivfpq"},
              {"ivfpq", "ivfflat"},
              {"ivfpq", "ivfrabitq"},
              {"ivfrabitq", "ivfpq"},
              {"approximate", "ivfrabitq"},
              {"bits=1", "bits=5"},
              {"bits=7", "bits=4"},
              {"rotate=0", "rotate=1"},
              {"lists=520", "lists=600"},
              {"FLOAT[9]", "FLOAT[16]"},
              {"ivfflat(lists=4)", "lsh(m=8)"},
              {"lsh(m=8", "lsh(m=9"},
              {"lsh(m=64", "lsh(m=1000"},
              {"lists=4", "lists=400"},
              {"m=4", "m=8"},
              {"bits=4", "bits=8"},
              {"opq=1", "opq=0"},
              {", store=codes", ""},
              {"n INTEGER", "n INTEGER, store=codes"},
              {", content=rows", ""},
              {"content=rows", "content=a"},
              {"content=rows", "content=content"},
              {"TEXT PRIMARY KEY", "TEXT"},
              {"INTEGER PRIMARY KEY", "TEXT PRIMARY KEY"},
              {"PARTITION KEY", ""},
              {"ngram(n=2)", "words"},
              {"index=words", "distance=edit"},
              {"list_of_clusters(size=4)", "sss"},
              {"distance=cosine", "distance=l2"},
              {"distance=l1", "distance=ip"},
              {"index=match", "index=match(buckets=2)"}};

std::string forged_definition(const std::string& table, unsigned number) {
  const auto& word = kWords[number % std::size(kWords)];
  return std::string("UPDATE sqlite_schema SET sql = replace(sql, '") + word.from + "', '" +
         word.to + "') WHERE name = '" + table + "'";
}

// Ids come twice, or are no numbers.
std::string without_keys(const std::string& shadow) {
  return "CREATE TABLE moved AS SELECT * FROM " + shadow + "; DROP TABLE " + shadow +
         "; ALTER TABLE moved RENAME TO " + shadow;
}

std::string view_in_place_of(const std::string& shadow, const std::string& shown) {
  return "ALTER TABLE " + shadow + " RENAME TO moved; CREATE VIEW " + shadow +
         " AS SELECT * FROM " + shown;
}

std::string trigger_on(const std::string& shadow, const char* event, const std::string& emptied) {
  return "CREATE TRIGGER undermined AFTER " + std::string(event) + " ON " + shadow +
         " BEGIN DELETE FROM " + emptied + "; END";
}

}  // namespace

void forge_schema(sqlite3* db, const std::string& table, Input& input) {
  static constexpr const char* kShadows[] = {"state", "segments", "blocks", "tail", "keys", "aux"};
  const unsigned word = input.byte();
  const std::string shadow = table + "_" + kShadows[input.byte() % std::size(kShadows)];
  const unsigned how = input.byte();
  const auto forged = [&] {
    switch (how % 8) {
      case 5:
        return without_keys(shadow);
      case 6:
        return view_in_place_of(shadow, how < 128 ? "moved" : table);
      case 7:
        return trigger_on(shadow, how < 128 ? "INSERT" : "DELETE",
                          how % 3 == 0 ? table + "_blocks" : table);
      default:
        return forged_definition(table, word);
    }
  };
  sqlite3_exec(db, ("PRAGMA writable_schema = ON;" + forged()).c_str(), nullptr, nullptr, nullptr);
}

}  // namespace warplite::fuzzing
