// Scalar and table-valued functions against brute force, real ground truth and files cut short.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "compute/edit_distance.h"
#include "tests/support/sql_session.h"

namespace warplite {
namespace {

using testing::SqlResult;
using testing::SqlSession;
using Rows = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Fails, with a message that has all of `parts`.
void check_error(const SqlSession& session, const std::string& sql, const Rows& parts) {
  const SqlResult result = session.run(sql);
  INFO(sql);
  INFO(result.message);
  CHECK(!result.ok());
  for (const std::string& part : parts) CHECK(contains(result.message, part));
}

// --- edit distance ---------------------------------------------------------

std::size_t plain_edit_distance(const std::u32string& a, const std::u32string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1] ? 1 : 0)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string utf8(const std::u32string& points) {
  std::string text;
  for (const char32_t c : points) {
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xc0 | c >> 6);
      text += static_cast<char>(0x80 | (c & 63));
    } else if (c < 0x10000) {
      text += static_cast<char>(0xe0 | c >> 12);
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    } else {
      text += static_cast<char>(0xf0 | c >> 18);
      text += static_cast<char>(0x80 | (c >> 12 & 63));
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    }
  }
  return text;
}

TEST_CASE("edit distance equals the textbook's, across block edges and scripts") {
  const std::u32string alphabet = U"abcæ\u00f8\u4e2d\U0001f600";
  std::mt19937 random(3);
  for (const std::size_t longest : {4u, 63u, 64u, 65u, 130u, 300u}) {
    for (int round = 0; round < 150; ++round) {
      const std::size_t letters = 1 + random() % alphabet.size();
      const auto draw = [&] {
        std::u32string text(random() % (longest + 1), U'a');
        for (char32_t& c : text) c = alphabet[random() % letters];
        return text;
      };
      const std::u32string a = draw();
      std::u32string b = draw();
      if (round % 2 == 0) {  // a few edits away
        b = a;
        for (int edits = 0; edits < 5 && !b.empty(); ++edits) b.erase(random() % b.size(), 1);
        b.insert(random() % (b.size() + 1), U"xyz");
      }
      REQUIRE(compute::edit_distance(utf8(a), utf8(b), nullptr) == plain_edit_distance(a, b));
    }
  }
}

TEST_CASE("edit distance: a byte outside valid UTF-8 is a character") {
  CHECK(compute::edit_distance("a\xff", "a\xfe", nullptr) == 1);
  CHECK(compute::edit_distance("\xc3", "\xc3\xa9", nullptr) == 1);  // a lead byte is not é
  CHECK(compute::edit_distance("\xe4\xb8", "", nullptr) == 2);
  CHECK(compute::edit_distance("\xed\xa0\x80", "", nullptr) == 3);  // a surrogate
  CHECK(compute::edit_distance("\xc0\x80", "", nullptr) == 2);      // overlong
  CHECK(compute::edit_distance("\xff", "\x7f", nullptr) == 1);
}

TEST_CASE("a long edit distance is interrupted") {
  const SqlSession session(":memory:");
  std::thread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    sqlite3_interrupt(session.db());
  });
  const SqlResult result = session.run(
      "SELECT edit_distance(hex(randomblob(2000000)), hex(randomblob(2000000)))");
  stop.join();
  CHECK(result.code == SQLITE_INTERRUPT);
}

// --- what sqlite-vec returns -----------------------------------------------

TEST_CASE("vec functions return the bytes that users of sqlite-vec know") {
  const SqlSession session(":memory:");
  const auto value = [&](const std::string& expression) {
    return session.must_run("SELECT " + expression)[0];
  };
  CHECK(value("vec_to_json(vec_quantize_int8('[-1,-0.999,-0.5,0,0.003,0.5,0.999,1]','unit'))") ==
        "[-128,-127,-64,0,0,63,126,126]");
  CHECK(value("vec_to_json(vec_quantize_int8('[-2,2]','unit'))") == "[-128,127]");
  CHECK(value("hex(vec_quantize_binary('[1,-1,0,1,1,1,1,1]'))") == "F9");
  CHECK(value("vec_to_json(vec_bit(x'0F'))") == "[1,1,1,1,0,0,0,0]");
  CHECK(value("vec_to_json('[0.1,-2,123456.789]')") == "[0.100000,-2.000000,123456.789063]");
  CHECK(value("hex(vec_add(vec_int8('[100]'), vec_int8('[100]')))") == "C8");
  CHECK(value("hex(vec_normalize('[3,4]'))") == "9A99193FCDCC4C3F");
  CHECK(value("typeof(vec_distance_l1(vec_int8('[1]'), vec_int8('[3]')))") == "integer");
  CHECK(session.must_run("SELECT rowid, value FROM vec_each('[1,2.5]')") == Rows{"0|1.0", "1|2.5"});
  CHECK(session.must_run("SELECT vec_f32(NULL), vec_length(NULL), vec_distance_l2(NULL, '[1]'), "
                         "vec_add('[1]', NULL), vec_normalize('[0,0]')") ==
        Rows{"NULL|NULL|NULL|NULL|NULL"});
}

TEST_CASE("vec functions refuse by name what they cannot do") {
  const SqlSession session(":memory:");
  check_error(session, "SELECT vec_distance_l2('[1,2]', vec_int8('[1,2]'))",
              {"vec_distance_l2", "float32[2]", "int8[2]"});
  check_error(session, "SELECT vec_add('[1]', '[1,2]')", {"vec_add", "float32[1]", "float32[2]"});
  check_error(session, "SELECT vec_distance_hamming('[1]', '[2]')", {"bit vectors", "float32"});
  check_error(session, "SELECT vec_distance_cosine(vec_bit(x'00'), vec_bit(x'00'))", {"got bit"});
  check_error(session, "SELECT vec_add('[3e38]', '[3e38]')", {"vec_add", "float32"});
  check_error(session, "SELECT vec_int8(vec_f32('[1]'))", {"vec_int8", "a vector of float32"});
  check_error(session, "SELECT vec_f32(x'0000c07f')", {"vec_f32", "NaN as element [0]"});
  check_error(session, "SELECT vec_slice('[1,2]', 1, 3)", {"vec_slice", "start 1 and end 3"});
  check_error(session, "SELECT vec_f16('[65520]')", {"float16", "65520"});
}

// --- warp_config -----------------------------------------------------------

TEST_CASE("warp_config refuses to act from a view") {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIEW v AS SELECT warp_config('threads', 1)");
  check_error(session, "SELECT * FROM v", {"unsafe"});
  session.must_run("CREATE VIEW r AS SELECT warp_config('threads') AS n");
  CHECK(session.must_run("SELECT n > 0 FROM r") == Rows{"1"});
}

// --- searches --------------------------------------------------------------

// 300 rows with ties; e is NULL for every 50th.
void fill(const SqlSession& session) {
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(e FLOAT[3], b BIT[8]);"
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300)"
      "INSERT INTO t(rowid, e, b) SELECT i, iif(i % 50 = 0, NULL, '[' || (i * 7 % 10) || ',' ||"
      " (i * 3 % 8) || ',' || (i % 5) || ']'), CAST(char(i % 128) AS BLOB) FROM c");
}

TEST_CASE("knn search and join equal brute force in SQL") {
  const SqlSession session(":memory:");
  fill(session);
  for (const int k : {0, 1, 7, 294, 1000}) {
    const std::string n = std::to_string(k);
    CHECK(session.must_run("SELECT rowid, distance, rank FROM "
                           "warp_knn_search('t', 'e', '[4,4,2]', " + n + ")") ==
          session.must_run("SELECT rowid, vec_distance_l2(e, '[4,4,2]'), row_number() OVER "
                           "(ORDER BY vec_distance_l2(e, '[4,4,2]'), rowid) AS n FROM t "
                           "WHERE e IS NOT NULL ORDER BY n LIMIT " + n));
    CHECK(session.must_run("SELECT * FROM warp_knn_join('t', 'e', 'SELECT rowid, e FROM t WHERE "
                           "rowid % 40 IN (1, 10)', " + n + ")") ==
          session.must_run("SELECT q.rowid, s.rowid, s.distance, s.rank FROM t q, "
                           "warp_knn_search('t', 'e', q.e, " + n + ") s "
                           "WHERE q.rowid % 40 IN (1, 10) ORDER BY q.rowid, s.rank"));
  }
  CHECK(session.must_run("SELECT * FROM warp_range_search('t', 'e', '[4,4,2]', 3)") ==
        session.must_run("SELECT rowid, vec_distance_l2(e, '[4,4,2]') AS d FROM t WHERE d <= 3 "
                         "ORDER BY d, rowid"));
  CHECK(session.must_run("SELECT * FROM warp_range_join('t', 'b', 'SELECT ''x'', x''0f'' UNION ALL "
                         "SELECT ''none'', NULL UNION ALL SELECT 2, x''80''', 1)") ==
        session.must_run("SELECT * FROM (SELECT 'x', rowid, vec_distance_hamming(vec_bit(b), "
                         "vec_bit(x'0f')) AS d FROM t WHERE d <= 1 ORDER BY d, rowid) UNION ALL "
                         "SELECT * FROM (SELECT 2, rowid, vec_distance_hamming(vec_bit(b), "
                         "vec_bit(x'80')) AS d FROM t WHERE d <= 1 ORDER BY d, rowid)"));
}

TEST_CASE("an ORDER BY that the rows obey costs no sort, any other is honoured") {
  const SqlSession session(":memory:");
  fill(session);
  const auto sorts = [&](const std::string& sql) {
    for (const std::string& row : session.must_run("EXPLAIN QUERY PLAN " + sql)) {
      if (contains(row, "TEMP B-TREE")) return true;
    }
    return false;
  };
  const std::string search = "SELECT s.rowid FROM warp_knn_search('t', 'e', '[1,1,1]', 20) s";
  CHECK(!sorts(search + " ORDER BY rank"));
  CHECK(!sorts(search + " ORDER BY distance"));
  CHECK(!sorts(search + " ORDER BY distance, s.rowid"));
  CHECK(sorts(search + " ORDER BY distance DESC"));
  CHECK(sorts(search + " ORDER BY s.rowid"));
  const Rows joined = session.must_run(
      "SELECT s.rank FROM (SELECT e FROM t WHERE rowid < 5) q, "
      "warp_knn_search('t', 'e', q.e, 3) s ORDER BY s.rank");
  CHECK(joined == Rows{"1", "1", "1", "1", "2", "2", "2", "2", "3", "3", "3", "3"});
}

TEST_CASE("arguments come from any table of a join, and a missing one is named") {
  const SqlSession session(":memory:");
  fill(session);
  session.must_run("CREATE TABLE q(id, v, k); INSERT INTO q VALUES (1, '[1,1,1]', 2), "
                   "(2, NULL, NULL), (3, '[9,7,4]', 1)");
  const Rows expected = session.must_run(
      "SELECT 1, rowid FROM warp_knn_search('t', 'e', '[1,1,1]', 2) UNION ALL "
      "SELECT 3, rowid FROM warp_knn_search('t', 'e', '[9,7,4]', 1)");
  CHECK(session.must_run("SELECT q.id, s.rowid FROM q, warp_knn_search('t', 'e', q.v, q.k) s "
                         "ORDER BY q.id, s.rank") == expected);
  CHECK(session.must_run("SELECT q.id, s.rowid FROM warp_knn_search('t', 'e', q.v, q.k) s, q "
                         "ORDER BY q.id, s.rank") == expected);
  CHECK(session.must_run("SELECT q.id, count(s.rowid) FROM q LEFT JOIN "
                         "warp_knn_search('t', 'e', q.v, q.k) s GROUP BY q.id") ==
        Rows{"1|2", "2|0", "3|1"});
  CHECK(session.must_run("SELECT 1, rowid FROM warp_knn_search WHERE \"table\" = 't' AND "
                         "\"column\" = 'e' AND query = '[1,1,1]' AND k = 2 AND "
                         "(rank = 1 OR rank = 2)") == Rows{expected[0], expected[1]});
  CHECK(session.must_run("SELECT k, \"table\", options FROM "
                         "warp_knn_search('t', 'e', '[1,1,1]', 1)") == Rows{"1|t|NULL"});
  // The inner loop of a join is asked again with the same arguments, row by row.
  const std::string calls[] = {"warp_knn_search('t', 'e', '[1,1,1]', 30)",
                               "warp_range_search('t', 'e', '[1,1,1]', 3)",
                               "warp_knn_join('t', 'e', 'VALUES (1, ''[1,1,1]''), (2, NULL)', 30)",
                               "warp_range_join('t', 'e', 'VALUES (1, ''[1,1,1]'')', 3)"};
  for (const std::string& call : calls) {
    session.must_run("DROP TABLE IF EXISTS once; CREATE TABLE once AS SELECT * FROM " + call);
    const std::string join = " s ON s.rowid = p.rowid ORDER BY p.rowid";
    CHECK(session.must_run("SELECT p.rowid, s.distance FROM t p LEFT JOIN " + call + join) ==
          session.must_run("SELECT p.rowid, s.distance FROM t p LEFT JOIN (SELECT \"rowid\", "
                           "distance FROM once)" + join));
  }
  check_error(session, "SELECT * FROM warp_knn_search('t', 'e', '[1,1,1]')",
              {"warp_knn_search", "argument k is missing"});
  check_error(session, "SELECT * FROM warp_knn_search", {"argument table is missing"});
  check_error(session, "SELECT * FROM warp_knn_search('t', 'e', '[1,1,1]', NULL)", {"k: ", "NULL"});
  check_error(session, "SELECT * FROM warp_knn_search('t', 'e', '[1,1,1]', 1.5)", {"k: ", "1.5"});
}

TEST_CASE("query_sql is one read-only SELECT of two columns") {
  const SqlSession session(":memory:");
  fill(session);
  const auto join = [](const std::string& sql) {
    std::string quoted;
    for (const char c : sql) quoted.append(c == '\'' ? 2 : 1, c);
    return "SELECT count(*) FROM warp_knn_join('t', 'e', '" + quoted + "', 1)";
  };
  const Rows accepted{
      "SELECT 1, '[1,2,3]'", "VALUES (1, '[1,2,3]'), (2, '[3,4,5]')",
      "-- a comment\n /* ; */ WITH c AS (SELECT 1) SELECT 1, '[1,2,3]' FROM c ; -- end"};
  for (const std::string& sql : accepted) {
    INFO(sql);
    CHECK(session.run(join(sql)).ok());
  }
  const Rows refused{
      "", ";", "SELECT 1", "SELECT 1,2,3", "SELECT 1,?", "SELECT 1,'[1,2,3]'; SELECT 2,2",
      "DELETE FROM t", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "VACUUM",
      "ATTACH ':memory:' AS x", "DETACH main", "PRAGMA user_version = 5", "EXPLAIN SELECT 1, 2",
      "CREATE TABLE x(y)", "INSERT INTO q VALUES (1, 2) RETURNING 1, 2",
      "WITH c AS (SELECT 1) DELETE FROM q"};
  session.must_run("CREATE TABLE q(a, b)");
  for (const std::string& sql : refused) {
    check_error(session, join(sql), {"warp_knn_join: query_sql", "read-only", "two columns"});
  }
  CHECK(session.must_run("PRAGMA user_version") == Rows{"0"});
  CHECK(session.must_run("SELECT count(*) FROM q") == Rows{"0"});
  session.must_run("CREATE VIEW v AS SELECT * FROM warp_knn_join('t', 'e', 'SELECT 1, NULL', 1)");
  check_error(session, "SELECT * FROM v", {"unsafe"});
}

TEST_CASE("table names resolve as SQLite resolves them") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(e FLOAT[1]); INSERT INTO t(rowid, e) VALUES (1, '[1]');"
      "ATTACH ':memory:' AS other; CREATE VIRTUAL TABLE other.t USING warp(e FLOAT[1]);"
      "INSERT INTO other.t(rowid, e) VALUES (2, '[1]');"
      "CREATE VIRTUAL TABLE other.\"odd \"\"name.x\" USING warp(e FLOAT[1]);"
      "INSERT INTO other.\"odd \"\"name.x\"(rowid, e) VALUES (3, '[1]');"
      "CREATE TABLE plain(x); CREATE VIEW seen AS SELECT 1");
  const auto found = [&](const std::string& name) {
    return session.must_run("SELECT rowid FROM warp_knn_search('" + name + "', 'e', '[1]', 1)")[0];
  };
  CHECK(found("t") == "1");
  CHECK(found("MAIN.T") == "1");
  CHECK(found("other.t") == "2");
  CHECK(found("[other].`t`") == "2");
  CHECK(found("\"odd \"\"name.x\"") == "3");
  session.must_run("CREATE VIRTUAL TABLE temp.t USING warp(e FLOAT[1]);"
                   "INSERT INTO temp.t(rowid, e) VALUES (4, '[1]')");
  CHECK(found("t") == "4");
  session.must_run("DROP TABLE temp.t; DROP TABLE main.t");
  CHECK(found("t") == "2");
  session.must_run("ALTER TABLE other.t RENAME TO renamed");
  CHECK(found("renamed") == "2");
  const auto refused = [&](const std::string& name, const std::string& why) {
    check_error(session, "SELECT * FROM warp_knn_search('" + name + "', 'e', '[1]', 1)", {why});
  };
  refused("t", "no such warp table: t");
  refused("nowhere.t", "no such warp table: nowhere.t");
  refused("plain", "plain is a table, not a warp table");
  refused("seen", "seen is a view, not a warp table");
  refused("a.b.c", "expected a table's name");
  refused("\"t", "expected a table's name");
  refused("", "expected a table's name");
}

TEST_CASE("functions see what another connection did to the schema") {
  const std::string path =
      (std::filesystem::temp_directory_path() / "warplite_functions_test.db").string();
  std::filesystem::remove(path);
  {
    const SqlSession reader(path), writer(path);
    const std::string one = "SELECT distance FROM warp_knn_search('t', 'e', '[1]', 1)";
    check_error(reader, one, {"no such warp table"});
    writer.must_run("CREATE VIRTUAL TABLE t USING warp(e FLOAT[1]);"
                    "INSERT INTO t(e) VALUES ('[7]')");
    CHECK(reader.must_run(one) == Rows{"6.0"});
    writer.must_run("DROP TABLE t; CREATE VIRTUAL TABLE t USING warp(x INTEGER, e FLOAT[2]);"
                    "INSERT INTO t(e) VALUES ('[1,2]')");
    check_error(reader, one, {"t.e", "FLOAT[2]"});
    CHECK(reader.must_run("SELECT distance FROM warp_knn_search('t', 'e', '[1,5]', 1)") ==
          Rows{"3.0"});
    writer.must_run("DROP TABLE t");
    CHECK(!reader.run(one).ok());
  }
  std::filesystem::remove(path);
}

TEST_CASE("a table may change or go while its results are read") {
  for (const std::string change : {"DELETE FROM t", "ALTER TABLE t RENAME TO u", "DROP TABLE t"}) {
    const SqlSession session(":memory:");
    fill(session);
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(session.db(),
                               "SELECT s.rowid FROM warp_knn_search('t', 'e', '[1,1,1]', 50) s", -1,
                               &statement, nullptr) == SQLITE_OK);
    int rows = 0;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      if (++rows == 5) session.run(change);
    }
    INFO(change);
    CHECK(sqlite3_finalize(statement) == SQLITE_OK);
    CHECK(rows == 50);
  }
}

// --- files of vectors ------------------------------------------------------

struct VectorBytes {
  const char* extension;
  std::string bytes;
  Rows rows;  // of SELECT rowid, vec_to_json(vector)
};

template <typename T>
std::string raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

std::string npy(std::string header, const std::string& data) {
  header.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

std::vector<VectorBytes> vector_files() {
  using std::int32_t;
  const Rows floats{"0|[1.000000,-2.500000]", "1|[3.000000,4.000000]"};
  const std::string two = raw<int32_t>({2});
  const std::string four = raw<float>({1, -2.5f, 3, 4});
  return {
      {"fvecs", two + raw<float>({1, -2.5f}) + two + raw<float>({3, 4}), floats},
      {"bvecs", two + "\x01\xff" + two + std::string("\x00\x7f", 2),
       {"0|[1.000000,255.000000]", "1|[0.000000,127.000000]"}},
      {"ivecs", raw<int32_t>({2, 5, -16777216}), {"0|[5.000000,-16777216.000000]"}},
      {"fbin", raw<int32_t>({2, 2}) + four, floats},
      {"u8bin", raw<int32_t>({2, 1}) + "\xfe\x02", {"0|[254.000000]", "1|[2.000000]"}},
      {"i8bin", raw<int32_t>({1, 2}) + "\xfe\x02", {"0|[-2,2]"}},
      {"npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", four), floats},
      {"NPY", npy("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }", "\xfe\x02"),
       {"0|[-2,2]"}},
      {"npy", npy("{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"|u1\"}", "\xfe\x02"),
       {"0|[254.000000,2.000000]"}},
      {"npy",
       npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1), }",
           std::string("\x00\x3c\x00\xc0", 4)),
       {"0|[1.000000]", "1|[-2.000000]"}},
      {"npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", ""), {}},
      {"fvecs", "", {}},
  };
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& extension)
      : path_((std::filesystem::temp_directory_path() / "warplite_vectors.").string() + extension) {
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }

  SqlResult read(const SqlSession& session, const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return session.run("SELECT rowid, vec_to_json(vector) FROM warp_vectors_file('" + path_ + "')");
  }

 private:
  std::string path_;
};

TEST_CASE("vector files are read exactly, and never beyond their end") {
  const SqlSession session(":memory:");
  for (const VectorBytes& file : vector_files()) {
    const TemporaryFile temporary(file.extension);
    const SqlResult whole = temporary.read(session, file.bytes);
    INFO(whole.message);
    CHECK(whole.ok());
    CHECK(whole.rows == file.rows);
    const bool records = std::string(file.extension).ends_with("vecs");
    for (std::size_t size = 0; size < file.bytes.size(); ++size) {
      const SqlResult cut = temporary.read(session, file.bytes.substr(0, size));
      // A file of records may end between two of them.
      const bool between = records && size % (file.bytes.size() / file.rows.size()) == 0;
      CHECK(cut.ok() == between);
      if (!cut.ok()) CHECK(contains(cut.message, "warplite_vectors."));
    }
    if (!file.rows.empty()) CHECK(!temporary.read(session, file.bytes + "x").ok());
  }
}

TEST_CASE("damaged vector files are errors that say where") {
  const SqlSession session(":memory:");
  const auto refused = [&](const char* extension, const std::string& bytes,
                           const std::string& why) {
    const SqlResult result = TemporaryFile(extension).read(session, bytes);
    INFO(result.message);
    CHECK(!result.ok());
    CHECK(contains(result.message, why));
  };
  const auto refused_header = [&](const char* header, const std::string& why) {
    refused("npy", npy(header, "1234"), why);
  };
  using std::int32_t;
  refused("fvecs", raw<int32_t>({1, 0, 2, 0, 0}), "record 1: expected dimension 1");
  refused("fvecs", raw<int32_t>({-1, 0}), "record 0: the dimension is -1");
  refused("fvecs", raw<int32_t>({0, 0}), "record 0: the dimension is 0");
  refused("fvecs", raw<int32_t>({0x7fffffff, 0}), "record 0: expected 8589934588 bytes");
  refused("ivecs", raw<int32_t>({1, 16777217}), "16777217 has no exact float32 value");
  refused("ivecs", raw<int32_t>({1, 0x7fffffff}), "2147483647 has no exact float32 value");
  refused("fbin", raw<int32_t>({0x7fffffff, 0x7fffffff, 0}), "expected 2147483647 vectors");
  refused("fbin", raw<int32_t>({-1, 4}), "-1 vectors");
  refused("fbin", raw<int32_t>({1, 0}), "dimension 0");
  refused_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "Fortran");
  refused_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", "<f8");
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1), }", "got 3");
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "got 0");
  refused_header("{'descr': '<f4', 'shape': (1, 1), }", "fortran_order");
  refused_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "descr");
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 4), }",
                 "expected 18446744073709551615 vectors");
  refused("npy", "not numpy at all", "no .npy file");
  check_error(session, "SELECT * FROM warp_vectors_file('/tmp')", {"/tmp", "ends in .fvecs"});
  check_error(session, "SELECT * FROM warp_vectors_file('/nowhere/x.fvecs')", {"/nowhere/x.fvecs"});
}

TEST_CASE("vectors are read from regular files alone, and no header is believed") {
  namespace fs = std::filesystem;
  const SqlSession session(":memory:");
  const fs::path folder = fs::path("/tmp") / ("warplite_odd_files_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const auto refused = [&](const char* name, const std::string& why) {
    check_error(session, "SELECT * FROM warp_vectors_file('" + (folder / name).string() + "')", {why});
  };
  // Bytes, and then a hole that makes the file `size` bytes long.
  const auto write = [&](const char* name, const std::string& bytes, std::uint64_t size) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    fs::resize_file(folder / name, size);
  };
  using std::int32_t;
  REQUIRE(::mkfifo((folder / "fifo.fvecs").c_str(), 0600) == 0);
  refused("fifo.fvecs", "is no regular file");
  fs::create_symlink("/dev/zero", folder / "zero.fvecs");
  refused("zero.fvecs", "is no regular file");
  fs::create_directory(folder / "folder.npy");
  refused("folder.npy", "is no regular file");
  constexpr std::uint64_t kClaimed = 4ull * 0x7fffffff;
  write("hole.fvecs", raw<int32_t>({0x7fffffff}), kClaimed + 4);
  refused("hole.fvecs", "the dimension is 2147483647, where 65536 is the most");
  write("hole.fbin", raw<int32_t>({1, 0x7fffffff}), kClaimed + 8);
  refused("hole.fbin", "the dimension is 2147483647");
  write("hole.npy", std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12), kClaimed);
  refused("hole.npy", "the header has 2147483647 bytes");
  write("rows.fbin", raw<int32_t>({0, 4, 1, 1, 1, 1}), 24);
  refused("rows.fbin", "expected 0 vectors of dimension 4 after the header, got 16 bytes");
  write("none.fbin", raw<int32_t>({0, 4}), 8);
  CHECK(session.must_run("SELECT count(*) FROM warp_vectors_file('" + (folder / "none.fbin").string() + "')")[0] == "0");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace warplite
