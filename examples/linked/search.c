/* Warplite linked into a program. Beside this file stand three ways to build it: with an installed Warplite
   by CMake (find_package) or by make (pkg_config), and with Warplite's sources in a folder (add_subdirectory). */
#include <sqlite3.h>
#include <stdio.h>
#include <warplite.h>

static int print_row(void *unused, int columns, char **values, char **names) {
  (void)unused;
  for (int i = 0; i < columns; ++i) printf("%s=%s%s", names[i], values[i], i + 1 < columns ? " " : "\n");
  return 0;
}

int main(void) {
  sqlite3 *db = NULL;
  char *message = NULL;
  int code = sqlite3_open(":memory:", &db);
  if (code == SQLITE_OK) code = sqlite3_warplite_init(db, &message, NULL);
  if (code == SQLITE_OK) {
    code = sqlite3_exec(
        db,
        "CREATE VIRTUAL TABLE points USING warp(position FLOAT[3], colour TEXT);"
        "INSERT INTO points(position, colour) VALUES"
        "  ('[0, 0, 1]', 'red'), ('[0, 2, 0]', 'blue'), ('[3, 0, 0]', 'red');"
        "SELECT rowid, colour, distance FROM points WHERE position MATCH '[1, 0, 0]' AND colour = 'red'"
        "  ORDER BY distance LIMIT 2",
        print_row, NULL, &message);
  }
  if (code != SQLITE_OK) fprintf(stderr, "%s\n", message != NULL ? message : sqlite3_errmsg(db));
  sqlite3_free(message);
  sqlite3_close(db);
  return code == SQLITE_OK ? 0 : 1;
}
