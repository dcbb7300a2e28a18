// Connections that these tests open have the extension, linked statically.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sqlite3.h>

extern "C" int sqlite3_warplite_init(sqlite3* db, char** message, const void* api);

int main(int argc, char** argv) {
  const auto init = reinterpret_cast<void (*)()>(sqlite3_warplite_init);
  if (sqlite3_auto_extension(init) != SQLITE_OK) return 1;
  return doctest::Context(argc, argv).run();
}
