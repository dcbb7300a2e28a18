#include "tests/support/forgery.h"

#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/error.h"
#include "sql/definition/definition.h"
#include "storage/codec/checksum.h"
#include "storage/codec/row_hash.h"
#include "storage/codec/segment_codec.h"
#include "storage/codec/wire.h"

namespace warplite::testing {
namespace {

using storage::as_bytes;

// A prepared statement, until the end of its scope.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql) : db_(db) {
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(db));
    }
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  sqlite3_stmt* get() const { return statement_; }
  // What a constraint refuses is left as it was.
  bool step() const { return sqlite3_step(statement_) == SQLITE_ROW; }
  std::string blob(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(size));
  }

 private:
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
};

// The arguments of the table's CREATE statement, cut at the commas outside of brackets.
std::vector<std::string> arguments_of(const std::string& sql) {
  std::vector<std::string> arguments(1);
  const std::size_t begin = sql.find('(') + 1;
  int depth = 0;
  for (const char c : sql.substr(begin, sql.rfind(')') - begin)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      arguments.emplace_back();
    } else {
      arguments.back() += c;
    }
  }
  return arguments;
}

// Makes the length and the checksum of a record right.
std::string sealed(std::string record) {
  struct {
    std::uint32_t magic, length;
    std::uint64_t sum;
  } head;
  if (record.size() < sizeof head) return record;
  std::memcpy(&head, record.data(), sizeof head);
  head.length = static_cast<std::uint32_t>(record.size());
  head.sum = storage::checksum(as_bytes(record).subspan(sizeof head),
                               std::uint64_t{head.length} << 32 | head.magic);
  std::memcpy(record.data(), &head, sizeof head);
  return record;
}

}  // namespace

Forgery::Forgery(sqlite3* db, std::string table) : db_(db), table_(std::move(table)) {
  const Statement schema(db_, "SELECT sql FROM sqlite_schema WHERE name = '" + table_ + "'");
  if (!schema.step()) throw std::runtime_error("no table " + table_);
  layout_ = sql::parse_definition("main", table_, arguments_of(schema.blob(0))).options().layout;
}

std::string Forgery::blob(const std::string& sql) const {
  const Statement statement(db_, sql);
  return statement.step() ? statement.blob(0) : std::string();
}

std::vector<std::int64_t> Forgery::numbers(const std::string& sql) const {
  std::vector<std::int64_t> found;
  const Statement statement(db_, sql);
  while (statement.step()) found.push_back(sqlite3_column_int64(statement.get(), 0));
  return found;
}

std::vector<std::string> Forgery::texts(const std::string& sql) const {
  std::vector<std::string> found;
  const Statement statement(db_, sql);
  while (statement.step()) found.push_back(statement.blob(0));
  return found;
}

void Forgery::run(const std::string& sql, const std::string& bytes) const {
  const Statement statement(db_, sql);
  if (sqlite3_bind_parameter_count(statement.get()) != 0) {
    sqlite3_bind_blob(statement.get(), 1, bytes.data(), static_cast<int>(bytes.size()),
                      SQLITE_STATIC);
  }
  while (statement.step()) {
  }
}

void Forgery::run_if_possible(const std::string& sql) const {
  sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
}

storage::State Forgery::state() const {
  const std::string record = blob("SELECT record FROM " + name("state"));
  return storage::decode_state(as_bytes(record), layout_);
}

void Forgery::put(const storage::State& state) {
  run("REPLACE INTO " + name("state") + " VALUES(1, ?)", storage::encode_state(state));
}

std::vector<storage::SegmentInfo> Forgery::segments() const {
  std::vector<storage::SegmentInfo> segments;
  const Statement statement(db_, "SELECT id, info FROM " + name("segments") + " ORDER BY id");
  while (statement.step()) {
    const std::string info = statement.blob(1);
    segments.push_back(storage::decode_segment(
        as_bytes(info), sqlite3_column_int64(statement.get(), 0), layout_));
  }
  return segments;
}

void Forgery::put(const storage::SegmentInfo& segment) {
  run("REPLACE INTO " + name("segments") + " VALUES(" + std::to_string(segment.id) + ", ?)",
      storage::encode_segment(segment, layout_));
}

std::string Forgery::state_record() const { return blob("SELECT record FROM " + name("state")); }

void Forgery::put_state_record(std::string record) {
  run("REPLACE INTO " + name("state") + " VALUES(1, ?)", sealed(std::move(record)));
}

std::string Forgery::segment_record(std::int64_t id) const {
  return blob("SELECT info FROM " + name("segments") + " WHERE id = " + std::to_string(id));
}

void Forgery::put_segment_record(std::int64_t id, std::string record) {
  run("REPLACE INTO " + name("segments") + " VALUES(" + std::to_string(id) + ", ?)",
      sealed(std::move(record)));
}

std::string Forgery::block(std::int64_t id) const {
  return blob("SELECT data FROM " + name("blocks") + " WHERE id = " + std::to_string(id));
}

void Forgery::put_block(std::int64_t id, std::string bytes) {
  if (bytes.size() >= storage::kBlockHeader) {
    const std::uint64_t length = bytes.size() - storage::kBlockHeader, none = 0;
    std::memcpy(bytes.data() + kPayloadLengthAt, &length, sizeof length);
    std::memcpy(bytes.data() + kBlockChecksumAt, &none, sizeof none);
    const std::uint64_t sum = storage::checksum(as_bytes(bytes));
    std::memcpy(bytes.data() + kBlockChecksumAt, &sum, sizeof sum);
  }
  run("REPLACE INTO " + name("blocks") + " VALUES(" + std::to_string(id) + ", ?)", bytes);
}

std::vector<std::int64_t> Forgery::block_ids() const {
  return numbers("SELECT id FROM " + name("blocks") + " ORDER BY id");
}

std::int64_t Forgery::vectors_id(const storage::SegmentInfo& segment, std::size_t column) const {
  return segment.id * storage::kSlots + storage::kFirstColumnSlot +
         static_cast<std::int64_t>(column);
}

std::int64_t Forgery::plain_id(const storage::SegmentInfo& segment, std::size_t column) const {
  return vectors_id(segment, layout_.vectors.size() + column);
}

std::int64_t Forgery::codes_id(const storage::SegmentInfo& segment, std::size_t column) const {
  return plain_id(segment, layout_.plains.size() + column);
}

std::vector<std::int64_t> Forgery::tail_ids() const {
  return numbers("SELECT id FROM " + name("tail") + " ORDER BY id");
}

void Forgery::change_tail(std::int64_t id, const std::string& assignments) {
  run("UPDATE OR REPLACE " + name("tail") + " SET sum = 'forged', " + assignments +
      " WHERE id = " + std::to_string(id));
  const Statement row(db_, "SELECT * FROM " + name("tail") + " WHERE sum = 'forged'");
  if (!row.step()) return;
  struct {
    std::int64_t sequence;
    Stamp flush;
    std::int64_t rowid;
  } head = {sqlite3_column_int64(row.get(), 0), {}, sqlite3_column_int64(row.get(), 2)};
  const std::string flush = row.blob(1);
  std::memcpy(&head.flush, flush.data(), std::min(flush.size(), sizeof head.flush));
  std::uint64_t sum = storage::checksum(std::as_bytes(std::span(&head, 1)));
  for (int i = 4; i < sqlite3_column_count(row.get()); ++i) {
    const std::string bytes = row.blob(i);
    Cell cell = Cell::null();
    switch (sqlite3_column_type(row.get(), i)) {
      case SQLITE_INTEGER: cell = Cell::of(std::int64_t{sqlite3_column_int64(row.get(), i)}); break;
      case SQLITE_FLOAT: cell = Cell::of(sqlite3_column_double(row.get(), i)); break;
      case SQLITE_TEXT: cell = Cell::text(bytes); break;
      case SQLITE_BLOB: cell = Cell::blob(bytes); break;
      default: break;
    }
    sum = storage::add_cell(sum, cell);
  }
  run("UPDATE " + name("tail") + " SET sum = " +
      std::to_string(static_cast<std::int64_t>(sum)) + " WHERE sum = 'forged'");
}

void Forgery::settle() {
  storage::State known = state();
  known.directory = {};
  for (const storage::SegmentInfo& segment : segments()) known.directory.add(segment);
  known.tail_digest = 0;
  known.tail_rows = 0;
  for (const std::int64_t sum : numbers("SELECT sum FROM " + name("tail"))) {
    known.tail_digest = *known.tail_digest + static_cast<std::uint64_t>(sum);
    ++known.tail_rows;
  }
  const std::string flush =
      blob("SELECT flush FROM " + name("tail") + " ORDER BY id DESC LIMIT 1");
  known.last_flush = {};
  std::memcpy(&known.last_flush, flush.data(), std::min(flush.size(), sizeof known.last_flush));
  put(known);
}

}  // namespace warplite::testing
