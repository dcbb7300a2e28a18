#include "storage/codec/segment_codec.h"

#include <cmath>
#include <limits>

#include "storage/codec/block_codec.h"
#include "storage/codec/checksum.h"
#include "storage/codec/wire.h"

namespace warplite::storage {
namespace {

constexpr std::uint32_t kStateMagic = 0x32535057;    // "WPS2"
constexpr std::uint32_t kOldStateMagic = 0x54535057;  // "WPST": without the tail's digest
constexpr std::uint32_t kSegmentMagic = 0x47535057;  // "WPSG"

// An Envelope is what every record begins with.
struct Envelope {
  std::uint32_t magic;
  std::uint32_t length;  // of the whole record
  std::uint64_t checksum;  // of the body, seeded with magic and length
};
static_assert(sizeof(Envelope) == 16);

std::uint64_t record_checksum(const Envelope& envelope, std::span<const std::byte> body) {
  return checksum(body, std::uint64_t{envelope.length} << 32 | envelope.magic);
}

std::string seal_record(std::uint32_t magic, const std::string& body) {
  Envelope envelope{magic, static_cast<std::uint32_t>(sizeof(Envelope) + body.size()), 0};
  envelope.checksum = record_checksum(envelope, as_bytes(body));
  Writer record;
  record.put(envelope);
  record.put_bytes(body.data(), body.size());
  return record.take();
}

// The body's reader, after magic (one of two) and length were found right.
Reader open_record(std::uint32_t magic, std::uint32_t old_magic, std::span<const std::byte> record,
                   Envelope& envelope) {
  Reader reader(record);
  envelope = reader.get<Envelope>();
  if (envelope.magic != magic && envelope.magic != old_magic) corrupt("not a record of this kind");
  if (envelope.length != record.size()) {
    corrupt("length is " + std::to_string(record.size()) + " bytes, expected " +
            std::to_string(envelope.length));
  }
  return reader;
}

Reader verify_record(std::uint32_t magic, std::uint32_t old_magic,
                     std::span<const std::byte> record, Envelope& envelope) {
  const Reader reader = open_record(magic, old_magic, record, envelope);
  if (record_checksum(envelope, record.subspan(sizeof envelope)) != envelope.checksum) {
    corrupt("checksum differs");
  }
  return reader;
}

void require(bool holds, const char* otherwise) {
  if (!holds) corrupt(otherwise);
}

// --- zones -----------------------------------------------------------------

constexpr std::uint8_t kAllNull = 1;
constexpr std::uint8_t kHasNull = 2;

void put_bound(Writer& to, PlainType type, const Cell& cell) {
  switch (type) {
    case PlainType::kInteger:
    case PlainType::kBoolean: return to.put(cell.integer);
    case PlainType::kReal: return to.put(cell.real);
    case PlainType::kText:
      to.put(static_cast<std::uint32_t>(cell.bytes.size()));
      return to.put_bytes(cell.bytes.data(), cell.bytes.size());
    case PlainType::kSparse: return;
  }
}

Value get_bound(Reader& from, PlainType type) {
  switch (type) {
    case PlainType::kInteger: return Value(Cell::of(from.get<std::int64_t>()));
    case PlainType::kBoolean: {
      const auto value = from.get<std::int64_t>();
      require(value == 0 || value == 1, "a bound is not a boolean");
      return Value(Cell::of(value));
    }
    case PlainType::kReal: {
      const auto value = from.get<double>();
      require(!std::isnan(value), "a bound is not a number");
      return Value(Cell::of(value));
    }
    case PlainType::kText: {
      const auto bytes = from.take(from.get<std::uint32_t>());
      return Value(Cell::text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    case PlainType::kSparse: return {};
  }
  corrupt("unknown type of column");
}

void put_zone(Writer& to, PlainType type, const ZoneMap& zone) {
  to.put(static_cast<std::uint8_t>((zone.all_null ? kAllNull : 0) |
                                   (zone.has_null ? kHasNull : 0)));
  if (zone.all_null) return;
  put_bound(to, type, zone.low.cell());
  put_bound(to, type, zone.high.cell());
}

ZoneMap get_zone(Reader& from, PlainType type) {
  const auto flags = from.get<std::uint8_t>();
  require((flags & ~(kAllNull | kHasNull)) == 0, "unknown flags of a zone");
  ZoneMap zone;
  zone.all_null = (flags & kAllNull) != 0;
  zone.has_null = (flags & kHasNull) != 0;
  if (zone.all_null) return zone;
  zone.low = get_bound(from, type);
  zone.high = get_bound(from, type);
  return zone;
}

void check_ranges(const SegmentInfo& info, const Layout& layout) {
  require(info.id >= 1 && info.id <= kMaxSegment, "id is out of range");
  require(info.rows >= 1 && info.rows <= layout.segment_rows, "row count is out of range");
  require(info.live_rows <= info.rows, "more rows are alive than there are");
  require(!info.alive.is_null() || info.live_rows == info.rows,
          "rows are missing but no alive bitmap says which");
  require(info.min_rowid <= info.max_rowid, "rowids are out of order");
  const std::uint64_t spread = static_cast<std::uint64_t>(info.max_rowid) -
                               static_cast<std::uint64_t>(info.min_rowid);
  require(info.rowids.is_null() ? spread == info.rows - 1 : spread >= info.rows - 1,
          "range of rowids does not fit the row count");
  for (std::size_t i = 0; i < info.codes.size(); ++i) {
    require(info.codes[i].block.is_null() == info.codes[i].model.is_null(),
            "codes without a model, or a model without codes");
    require(info.codes[i].block.is_null() || !info.vectors[i].is_null() || layout.codes_only,
            "codes of vectors that are all NULL");
  }
  for (std::size_t i = 0; i < info.plains.size(); ++i) {
    require(info.plains[i].is_null() == info.zones[i].all_null,
            "zones and blocks disagree on what is all NULL");
  }
}

// --- what only tables with indexes that learn have -------------------------

// The columns that `is_null` does not name, each after its number; nothing when there are none.
template <typename T, typename IsNull>
void put_columns(Writer& to, const std::vector<T>& columns, const IsNull& is_null) {
  static_assert(sizeof(T) % sizeof(Stamp) == 0);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (is_null(columns[i])) continue;
    to.put(static_cast<std::uint16_t>(i));
    to.put(columns[i]);
  }
}

// Reads columns to the end of the record.
template <typename T>
std::vector<T> get_columns(Reader& from, std::size_t count) {
  std::vector<T> columns(count);
  for (std::size_t next = 0; !from.at_end();) {
    const auto column = from.get<std::uint16_t>();
    require(column >= next && column < count, "numbers of columns are out of order");
    columns[column] = from.get<T>();
    next = std::size_t{column} + 1;
  }
  return columns;
}

void put_models(Writer& to, const std::vector<Stamp>& models) {
  put_columns(to, models, [](const Stamp& stamp) { return stamp.is_null(); });
}

void put_codes(Writer& to, const std::vector<CodesInfo>& codes) {
  put_columns(to, codes, [](const CodesInfo& one) { return one.block.is_null(); });
}

}  // namespace

std::string encode_state(const State& state) {
  Writer body;
  body.put(state.generation);
  body.put(state.tail_epoch);
  body.put(state.last_flush);
  body.put(state.last_sequence);
  body.put(state.next_segment);
  body.put(state.tail_rows);
  body.put(state.directory.segments);
  body.put(state.directory.digest);
  if (state.tail_digest) body.put(*state.tail_digest);
  put_models(body, state.models);
  return seal_record(state.tail_digest ? kStateMagic : kOldStateMagic, body.take());
}

State decode_state(std::span<const std::byte> record, const Layout& layout) {
  Envelope envelope;
  Reader body = verify_record(kStateMagic, kOldStateMagic, record, envelope);
  State state;
  state.generation = body.get<Stamp>();
  state.tail_epoch = body.get<Stamp>();
  state.last_flush = body.get<Stamp>();
  state.last_sequence = body.get<std::int64_t>();
  state.next_segment = body.get<std::int64_t>();
  state.tail_rows = body.get<std::int64_t>();
  state.directory.segments = body.get<std::int64_t>();
  state.directory.digest = body.get<std::uint64_t>();
  state.tail_digest.reset();
  if (envelope.magic == kStateMagic) state.tail_digest = body.get<std::uint64_t>();
  state.models = get_columns<Stamp>(body, layout.vectors.size());
  require(!state.generation.is_null(), "generation is null");
  require(state.last_sequence >= 0 && state.last_sequence <= kMaxSequence,
          "last sequence is out of range");
  require(state.next_segment >= 1 && state.next_segment <= kMaxSegment + 1,
          "next segment is out of range");
  require(state.tail_rows >= 0 && state.tail_rows <= state.last_sequence &&
              state.tail_rows <= layout.segment_rows,
          "tail row count is out of range");
  return state;
}

Stamp decode_generation(std::span<const std::byte> record) {
  Envelope envelope;
  return open_record(kStateMagic, kOldStateMagic, record, envelope).get<Stamp>();
}

std::uint64_t DirectorySummary::digest_of(const SegmentInfo& segment) {
  Writer named;
  named.put(segment.id);
  named.put(segment.rows);
  named.put(segment.live_rows);
  named.put(segment.rowids);
  named.put(segment.alive);
  if (!segment.hashes.is_null()) named.put(segment.hashes);
  for (const Stamp& stamp : segment.vectors) named.put(stamp);
  for (const Stamp& stamp : segment.plains) named.put(stamp);
  put_codes(named, segment.codes);
  const std::string bytes = named.take();
  return checksum(as_bytes(bytes), kSegmentMagic);
}

std::string encode_segment(const SegmentInfo& info, const Layout& layout) {
  Writer body;
  body.put(info.id);
  body.put(info.rows);
  body.put(info.live_rows);
  body.put(info.min_rowid);
  body.put(info.max_rowid);
  body.put(info.rowids);
  body.put(info.alive);
  if (layout.content) body.put(info.hashes);
  body.put(static_cast<std::uint16_t>(layout.vectors.size()));
  body.put(static_cast<std::uint16_t>(layout.plains.size()));
  for (const Stamp& stamp : info.vectors) body.put(stamp);
  for (const Stamp& stamp : info.plains) body.put(stamp);
  for (std::size_t i = 0; i < layout.plains.size(); ++i) {
    put_zone(body, layout.plains[i], info.zones[i]);
  }
  put_codes(body, info.codes);
  return seal_record(kSegmentMagic, body.take());
}

SegmentInfo decode_segment(std::span<const std::byte> record, std::int64_t id,
                           const Layout& layout) {
  Envelope envelope;
  Reader body = verify_record(kSegmentMagic, kSegmentMagic, record, envelope);
  SegmentInfo info;
  info.id = body.get<std::int64_t>();
  info.rows = body.get<std::uint32_t>();
  info.live_rows = body.get<std::uint32_t>();
  info.min_rowid = body.get<RowId>();
  info.max_rowid = body.get<RowId>();
  info.rowids = body.get<Stamp>();
  info.alive = body.get<Stamp>();
  if (layout.content) {
    info.hashes = body.get<Stamp>();
    require(!info.hashes.is_null(), "hashes of rows are missing");
  }
  require(info.id == id, "record is that of another segment");
  require(body.get<std::uint16_t>() == layout.vectors.size() &&
              body.get<std::uint16_t>() == layout.plains.size(),
          "columns are not those of the table");
  for (std::size_t i = 0; i < layout.vectors.size(); ++i) info.vectors.push_back(body.get<Stamp>());
  for (std::size_t i = 0; i < layout.plains.size(); ++i) info.plains.push_back(body.get<Stamp>());
  for (PlainType type : layout.plains) info.zones.push_back(get_zone(body, type));
  info.codes = get_columns<CodesInfo>(body, layout.vectors.size());
  check_ranges(info, layout);
  return info;
}

}  // namespace warplite::storage
