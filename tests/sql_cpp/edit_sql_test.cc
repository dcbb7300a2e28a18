// Range search of words under edit distance through SQL, against answers that came with the data.
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "tests/support/data_tables.h"

using namespace warplite;
using namespace warplite::testing;

TEST_CASE("edit distance in SQL: Spanish words within three edits") {
  const std::vector<std::string> words = data_lines("words_es.txt");
  const std::vector<std::string> queries = data_lines("words_es_queries.tsv");
  const std::vector<std::string> truth = data_lines("words_es_gt_r3.tsv");
  if (words.empty() || queries.empty() || truth.empty()) return;
  const SqlSession session(":memory:");
  session.must_run("CREATE VIRTUAL TABLE w USING warp(id INTEGER PRIMARY KEY, word TEXT distance=edit);"
                   "CREATE TABLE q(id INTEGER PRIMARY KEY, word TEXT);"
                   "CREATE TABLE truth(q INTEGER, row INTEGER, distance REAL); BEGIN");
  insert_lines(session, "w", words, 0, {kLine, 0});
  insert_lines(session, "q", queries, 1, {0, 1});
  insert_lines(session, "truth", truth, 1, {0, 1, 2});
  session.must_run("COMMIT");
  const std::string found = "SELECT query_id, rowid, distance FROM "
                            "warp_range_join('w', 'word', 'SELECT id, word FROM q', 3)";
  CHECK(session.must_run("SELECT count(*) FROM (" + found + ")")[0] ==
        std::to_string(truth.size() - 1));
  CHECK(session.must_run("SELECT count(*) FROM (SELECT * FROM truth EXCEPT " + found + ")")[0] ==
        "0");
  // One query at a time, by MATCH, with bounds and with a limit.
  CHECK(session.must_run("SELECT count(*) FROM q CROSS JOIN w WHERE w.word MATCH q.word AND "
                         "w.distance <= 1 AND q.id < 50")[0] ==
        session.must_run("SELECT count(*) FROM truth WHERE distance <= 1 AND q < 50")[0]);
  CHECK(session.must_run("SELECT group_concat(id) FROM (SELECT id FROM w WHERE word MATCH "
                         "(SELECT word FROM q WHERE id = 1) ORDER BY distance LIMIT 5)")[0] ==
        session.must_run("SELECT group_concat(row) FROM (SELECT row FROM truth WHERE q = 1 "
                         "ORDER BY distance, row LIMIT 5)")[0]);
}
