// Runs tests/sql/*.test: SQL tests that read like a conversation with SQLite.
//
// A file is a sequence of records, separated by blank lines; # begins a comment line.
//
//   statement ok                   SQL that must succeed (several statements may follow
//   INSERT INTO t VALUES (1);      one another); rows it returns are read and dropped
//
//   statement error <text>         SQL that must fail with a message that contains <text>
//   INSERT INTO t VALUES (1);      (compared without regard to case)
//
//   query                          one statement and the rows it must return, values
//   SELECT 1, 0.5, NULL, x'ff';    separated by |. Floats are the shortest text that reads
//   ----                           back as the same value (2.0, 0.1), NULL is NULL, blobs
//   1|0.5|NULL|x'ff'               are x'..', empty text is (empty), newlines are \n
//
//   query rowsort                  the same; both sides are sorted first
//
//   explain                        EXPLAIN QUERY PLAN of one statement: each line must be part
//   SELECT * FROM t                of some row's detail; a line that begins with ! must be
//   ----                           part of none
//   SCAN t
//
// Directives, one line each, outside records:
//
//   db memory | db file            run on this kind of database only (default: on both)
//   require sqlite>=3.44           an older SQLite skips the rest of the file
//   onlyif sqlite>=3.44            an older (or with sqlite<3.44, newer) one skips the next record
//   connection NAME                go on with another connection to the same file; the first
//                                  one is called main
//   reopen                         close every connection and open the file again
//   defensive on | defensive off   SQLITE_DBCONFIG_DEFENSIVE of this connection
//   backup NAME                    copy the database to $DIR/NAME with the backup API
//   write NAME HEX…                a file $DIR/NAME of these bytes
//
// $DIR in SQL is a directory of the test's own, removed afterwards.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace warplite::testing {

enum class DatabaseKind { kMemory, kFile };

// All .test files of `directory`, by name.
std::vector<std::filesystem::path> sql_tests(const std::filesystem::path& directory);

// What went wrong, one text per failed record, each beginning with FILE:LINE. A file that
// is not for this kind of database, or not for this SQLite, passes.
std::vector<std::string> run_sql_test(const std::filesystem::path& file, DatabaseKind kind);

}  // namespace warplite::testing
