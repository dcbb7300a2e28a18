// Shadow tables as somebody changes them who knows the format: what is written has right lengths,
// checksums and sums, whatever it says. Values are read and written as they are, unchecked where the
// format allows it.
// Threads: as the connection.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/codec/block_codec.h"
#include "storage/storage.h"

namespace warplite::testing {

class Forgery {
 public:
  // REQUIRES: the connection has the extension; `table` is a warp table of its main schema.
  Forgery(sqlite3* db, std::string table);

  const Layout& layout() const { return layout_; }
  const std::string& table() const { return table_; }

  // Throws Error{kCorrupt}, as the decoders do.
  storage::State state() const;
  void put(const storage::State& state);
  std::vector<storage::SegmentInfo> segments() const;
  void put(const storage::SegmentInfo& segment);

  // A record of the state, or of a segment, with a checksum and a length that are right; of any content.
  std::string state_record() const;
  void put_state_record(std::string record);
  std::string segment_record(std::int64_t id) const;
  void put_segment_record(std::int64_t id, std::string record);

  // A block, header included; empty when there is none.
  std::string block(std::int64_t id) const;
  // With a checksum and a payload's length that are right.
  void put_block(std::int64_t id, std::string bytes);
  std::vector<std::int64_t> block_ids() const;
  std::int64_t vectors_id(const storage::SegmentInfo& segment, std::size_t column) const;
  std::int64_t plain_id(const storage::SegmentInfo& segment, std::size_t column) const;
  std::int64_t codes_id(const storage::SegmentInfo& segment, std::size_t column) const;

  // Changes values of tail row `id` by SQL ("row = 5, c0 = NULL"; perhaps id itself), and makes its
  // checksum right.
  void change_tail(std::int64_t id, const std::string& assignments);
  std::vector<std::int64_t> tail_ids() const;

  // Has the state record describe the directory and the tail as they are.
  void settle();

  // Of SQL that reads one number, or one text, from each row.
  std::vector<std::int64_t> numbers(const std::string& sql) const;
  std::vector<std::string> texts(const std::string& sql) const;
  void run(const std::string& sql, const std::string& blob = {}) const;
  // Of tables that there may not be.
  void run_if_possible(const std::string& sql) const;

 private:
  std::string blob(const std::string& sql) const;
  std::string name(const char* suffix) const { return "\"" + table_ + "_" + suffix + "\""; }

  sqlite3* db_;
  std::string table_;
  Layout layout_;
};

// Where the fields of a block's header lie, and its checksum.
inline constexpr std::size_t kPayloadLengthAt = 24, kStampAt = 32, kBlockChecksumAt = 56;

}  // namespace warplite::testing
