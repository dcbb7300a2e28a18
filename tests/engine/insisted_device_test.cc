// Every form of search, on a device that offers everything, on one that offers nothing but flat
// search, and on one that fails: who insists on a device gets its answer or an error, everybody else
// the same answer from whoever can. GPUs are fakes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/residency/device_choice.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

struct Form {
  const char* sql;   // $ stands for the options
  bool flat;         // whether a device that has nothing but flat search answers it
};

constexpr Form kForms[] = {
    {"SELECT rowid, distance FROM warp_knn_search('t', 'flat', '[1,2,3,4]', 5, $)", true},
    {"SELECT rowid, distance FROM warp_range_search('t', 'flat', '[1,2,3,4]', 4, $)", true},
    {"SELECT * FROM warp_knn_join('t', 'flat', 'SELECT 1, ''[1,2,3,4]''', 5, $)", true},
    {"SELECT * FROM warp_knn_arrays('t', 'flat', zeroblob(32), 5, $)", true},
    {"SELECT * FROM warp_range_join('t', 'flat', 'SELECT 1, ''[1,2,3,4]''', 4, $)", true},
    {"SELECT * FROM warp_knn_graph('t', 'flat', 2, $)", true},
    {"SELECT sum(size) FROM warp_kmeans('t', 'flat', 3, 2, $)", true},
    {"SELECT rowid, distance FROM warp_range_search('t', 'metric', '[1,2,3,4]', 4, $)", true},
    {"SELECT rowid, distance FROM warp_knn_search('t', 'metric', '[1,2,3,4]', 5, $)", true},
    {"SELECT rowid, distance FROM warp_knn_search('t', 'bits', '[1,2,3,4]', 5, $)", true},
    {"SELECT rowid, distance FROM warp_ivfpq_search('t', 'lists', '[1,2,3,4]', 5, 2, $)", false},
    {"SELECT rowid, distance FROM warp_knn_search('t', 'lists', '[1,2,3,4]', 5, $)", false},
    {"SELECT * FROM warp_knn_join('t', 'lists', 'SELECT 1, ''[1,2,3,4]''', 5, $)", false},
    {"SELECT * FROM warp_knn_arrays('t', 'lists', zeroblob(32), 5, $)", false},
    {"SELECT rowid, distance FROM warp_range_search('t', 'lists', '[1,2,3,4]', 4, $)", true},
    {"SELECT rowid, distance FROM warp_knn_search('t', 'hashes', '[1,2,3,4]', 5, $)", false},
    {"SELECT rowid, distance FROM warp_range_search('t', 'word', 'word7', 1, $)", false},
    {"SELECT * FROM warp_range_join('t', 'word', 'SELECT 1, ''word7''', 1, $)", false},
    {"SELECT rowid, distance FROM warp_range_search('t', 'near', 'word7', 1, $)", false},
    {"SELECT rowid, distance FROM warp_sequence_search('t', 'title', 'word7 and', 3, NULL, $)",
     false},
    {"SELECT * FROM warp_sequence_join('t', 'title', 'SELECT 1, ''word7 and''', 3, NULL, $)",
     false},
    {"SELECT rowid, matches FROM warp_document_search('t', 'body', 'word7 is', 3, $)", false},
    {"SELECT * FROM warp_document_join('t', 'body', 'SELECT 1, ''word7 is''', 3, $)", false},
    {"SELECT rowid, matches FROM warp_match_count('t', '{\"year\":[3,5],\"word\":\"word7\"}', 5, $)",
     false},
    {"SELECT * FROM warp_match_join('t', 'SELECT 1, ''{\"year\":[3,5]}''', 5, $)", false},
};

std::string with_device(const Form& form, const std::string& device) {
  std::string sql = form.sql;
  const std::string options = device.empty() ? "NULL" : "'{\"device\":\"" + device + "\"}'";
  return sql.replace(sql.find('$'), 1, options);
}

void insert(const SqlSession& session, int first, int count) {
  session.must_run(
      "WITH RECURSIVE n(i) AS (SELECT " + std::to_string(first) +
      " UNION ALL SELECT i + 1 FROM n WHERE i + 1 < " + std::to_string(first + count) +
      "), v(i, e) AS (SELECT i, json_array(i % 3, i % 5, i % 7, i % 6) FROM n)"
      " INSERT INTO t(id, flat, metric, bits, lists, hashes, word, near, title, body, year)"
      " SELECT i, e, e, e, e, e, 'word' || (i % 12), 'word' || (i % 12), 'word' || (i % 12) || ' and so on',"
      " 'word' || (i % 12) || ' is here', i % 20 FROM v");
}

// Which rows there are.
enum class Rows { kNone, kUnsealed, kSealed, kBoth };

void fill(const SqlSession& session, Rows rows) {
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, flat FLOAT[4],"
      " metric FLOAT[4] index=sss(), bits FLOAT[4] distance=cosine index=lsh(family=simhash, m=16),"
      " lists FLOAT[4] index=ivfflat(lists=4), hashes FLOAT[4] index=lsh(m=16),"
      " word TEXT distance=edit, near TEXT distance=edit index=list_of_clusters(size=16),"
      " title TEXT index=ngram(n=3), body TEXT index=words, year INTEGER index=match)");
  if (rows == Rows::kSealed || rows == Rows::kBoth) {
    session.must_run("BEGIN");
    insert(session, 0, 2000);
    session.must_run("COMMIT; INSERT INTO t(t) VALUES ('train'); INSERT INTO t(t) VALUES ('optimize')");
  }
  if (rows == Rows::kUnsealed || rows == Rows::kBoth) {
    session.must_run("BEGIN");
    insert(session, 5000, 30);
  }
}

// Whether flat search answers a form, since an index has nothing to say of these rows.
bool is_flat(const Form& form, Rows rows) {
  const std::string sql = form.sql;
  const bool learns = sql.find("'lists'") != sql.npos || sql.find("'hashes'") != sql.npos;
  return form.flat || (learns && (rows == Rows::kNone || rows == Rows::kUnsealed));
}

void walk(Rows rows) {
  FakeGpus gpus(1);
  gpus.start();
  const SqlSession session(":memory:");
  fill(session, rows);
  for (const Form& form : kForms) {
    CAPTURE(std::string(form.sql));
    FakeGpu& gpu = gpus[0];
    const std::vector<std::string> expected = session.must_run(with_device(form, "cpu"));
    const bool empty = rows == Rows::kNone;
    const std::string sql = form.sql;
    const bool always = sql.find("kmeans") != sql.npos || sql.find("arrays") != sql.npos;
    CHECK(expected.empty() == (empty && !always));
    const std::size_t before = gpu.operations;
    CHECK(session.must_run(with_device(form, "gpu")) == expected);
    if (!empty) CHECK(gpu.operations > before);
    CHECK(session.must_run(with_device(form, "")) == expected);

    gpu.flat_only = true;
    CHECK(session.must_run(with_device(form, "")) == expected);
    engine::set_default_device("gpu");
    CHECK(session.must_run(with_device(form, "")) == expected);
    engine::set_default_device("auto");
    const SqlResult flat = session.run(with_device(form, "gpu"));
    if (is_flat(form, rows)) {
      CHECK(flat.message == "");
      CHECK(flat.rows == expected);
    } else if (!empty) {
      CHECK(flat.code == SQLITE_ERROR);
      CHECK(flat.message.find("gpu does not ") != std::string::npos);
    }
    gpu.flat_only = false;

    gpu.fail_searches = 1000;
    CHECK(session.must_run(with_device(form, "")) == expected);
    const SqlResult failed = session.run(with_device(form, "gpu:0"));
    if (!empty) CHECK(failed.message.find("gpu:0: it failed") != std::string::npos);
    gpu.fail_searches = 0;
  }
}

TEST_CASE("a device that is insisted on answers every form of search, or it fails: sealed rows") {
  walk(Rows::kSealed);
}
TEST_CASE("a device that is insisted on answers every form of search, or it fails: new rows") {
  walk(Rows::kUnsealed);
}
TEST_CASE("a device that is insisted on answers every form of search, or it fails: both") {
  walk(Rows::kBoth);
}
TEST_CASE("a device that is insisted on answers every form of search, or it fails: no rows") {
  walk(Rows::kNone);
}

TEST_CASE("rows of which a device reads nothing are no reason to do without it") {
  FakeGpus gpus(1);
  gpus.start();
  const SqlSession session(":memory:");
  fill(session, Rows::kNone);
  gpus[0].flat_only = true;
  session.must_run("INSERT INTO t(id, flat) VALUES (1, '[1,2,3,4]')");  // texts are NULL
  for (const Form& form : kForms) {
    if (form.flat || is_flat(form, Rows::kUnsealed)) continue;
    CAPTURE(std::string(form.sql));
    CHECK(session.run(with_device(form, "gpu")).code == SQLITE_ERROR);
  }
}

}  // namespace
}  // namespace warplite::testing
