/* Warplite linked into a program, with the SQLite that the program has (libwarplite.a; docs/building.md).
   A program that loads warplite.so at run time needs no header.

   Either every connection that is opened from now on has it,

     sqlite3_auto_extension((void (*)(void))sqlite3_warplite_init);

   or one connection:

     char *message = NULL;
     if (sqlite3_warplite_init(db, &message, NULL) != SQLITE_OK) { ...; sqlite3_free(message); }

   Threads: as sqlite3_open(). The function may be called again for the same connection. */
#ifndef WARPLITE_H
#define WARPLITE_H

#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a SQLite result code; on failure *message says why, and sqlite3_free() frees it.
   routines: what sqlite3_auto_extension() hands over; NULL: the SQLite that is linked. */
int sqlite3_warplite_init(sqlite3 *db, char **message, const struct sqlite3_api_routines *routines);

#ifdef __cplusplus
}
#endif

#endif
