// Range search of words under edit distance through SQL, against answers that came with the data.
#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "tests/data_files.h"
#include "tests/sql_session.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

// Stands for the number of the line.
constexpr std::size_t kLine = ~std::size_t{0};

// Inserts lines' fields as rows of a table; the first line of a file with a header is left out.
void insert_lines(const SqlSession& session, const std::string& table,
                  const std::vector<std::string>& lines, std::size_t first,
                  const std::vector<std::size_t>& columns) {
  constexpr std::size_t kAtOnce = 400;
  for (std::size_t begin = first; begin < lines.size(); begin += kAtOnce) {
    std::string sql = "INSERT INTO " + table + " VALUES ";
    for (std::size_t i = begin; i < std::min(begin + kAtOnce, lines.size()); ++i) {
      const std::vector<std::string> given = fields(lines[i]);
      sql += i == begin ? "(" : ",(";
      for (std::size_t c = 0; c < columns.size(); ++c) {
        std::string value = columns[c] == kLine ? std::to_string(i - first) : given[columns[c]];
        for (std::size_t at = 0; (at = value.find('\'', at)) != value.npos; at += 2) {
          value.insert(at, 1, '\'');
        }
        sql += (c == 0 ? "'" : ",'") + value + "'";
      }
      sql += ')';
    }
    session.must_run(sql);
  }
}

}  // namespace

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
