/* Similarity search from C. Build and run it after examples/quickstart.sh, from the repository's root:
     cc examples/c/search.c -lsqlite3 -o build/search && build/search ocean */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static void check(sqlite3 *db, int code) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  fprintf(stderr, "%s\n", sqlite3_errmsg(db));
  exit(1);
}

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "ocean";
  sqlite3 *db;
  char *message = NULL;
  int code = sqlite3_open("build/quickstart.db", &db);
  check(db, code);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  if (sqlite3_load_extension(db, "build/release/warplite", NULL, &message) != SQLITE_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }

  /* A vector is a BLOB of little-endian float32 values. */
  sqlite3_stmt *find;
  check(db, sqlite3_prepare_v2(db, "SELECT embedding FROM words WHERE word = ?", -1, &find, NULL));
  check(db, sqlite3_bind_text(find, 1, word, -1, SQLITE_STATIC));
  code = sqlite3_step(find);
  check(db, code);
  if (code != SQLITE_ROW) {
    fprintf(stderr, "\"%s\" is not among the words\n", word);
    return 1;
  }

  sqlite3_stmt *search;
  check(db, sqlite3_prepare_v2(db,
      "SELECT word, distance FROM words WHERE embedding MATCH ?1 AND letters >= 6"
      " ORDER BY distance LIMIT 5", -1, &search, NULL));
  check(db, sqlite3_bind_blob(search, 1, sqlite3_column_blob(find, 0),
                              sqlite3_column_bytes(find, 0), SQLITE_TRANSIENT));
  while ((code = sqlite3_step(search)) == SQLITE_ROW) {
    printf("%-16s %.4f\n", (const char *)sqlite3_column_text(search, 0),
           sqlite3_column_double(search, 1));
  }
  check(db, code);
  sqlite3_finalize(search);
  sqlite3_finalize(find);
  return sqlite3_close(db) == SQLITE_OK ? 0 : 1;
}
