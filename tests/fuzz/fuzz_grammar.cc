// The text between the brackets of CREATE VIRTUAL TABLE … USING warp(…). A refused declaration
// leaves nothing behind; an accepted one can be used, dumped to text, renamed and dropped.
#include <algorithm>
#include <string>

#include "tests/fuzz/fuzz_database.h"
#include "tests/fuzz/fuzz_target.h"

using warplite::fuzzing::answer;
using warplite::fuzzing::database;
using warplite::fuzzing::require;
using warplite::fuzzing::run;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sqlite3* db = database();
  std::string declaration(reinterpret_cast<const char*>(data), size);
  declaration.erase(std::remove(declaration.begin(), declaration.end(), '\0'), declaration.end());
  const bool created = run(db, "CREATE VIRTUAL TABLE t USING warp(" + declaration + ")");
  if (!created) {
    run(db, "DROP TABLE IF EXISTS t");
    const std::string left = answer(db, "SELECT group_concat(name) FROM sqlite_schema");
    require(left == "NULL", "left behind: " + left + "\n" + declaration);
    return 0;
  }
  const bool real = answer(db, "SELECT count(*) FROM sqlite_schema WHERE name = 't_state'") == "1";
  if (real) {
    run(db, "INSERT INTO t DEFAULT VALUES");
    require(answer(db, "SELECT count(*) >= 0 FROM t") == "1", "cannot be read: " + declaration);
    require(answer(db, "PRAGMA integrity_check") == "ok", "integrity: " + declaration);
    require(run(db, "ALTER TABLE t RENAME TO renamed_to"), "cannot be renamed: " + declaration);
    require(run(db, "DROP TABLE renamed_to"), "cannot be dropped: " + declaration);
  }
  // The declaration may have closed its bracket and gone on with other statements.
  run(db, "COMMIT");
  run(db, "DROP TABLE IF EXISTS t");
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"e FLOAT[3]",
          "id INTEGER PRIMARY KEY, e float[4] distance_metric=cosine, +contents text, k2 text partition key",
          "word TEXT PRIMARY KEY, e BIT[16] distance=hamming index=flat",
          "e INT8[7] distance = l1, n INTEGER, x REAL, s TEXT, y BOOLEAN, h FLOAT16[2]",
          "\"quoted name\" FLOAT[2], [bracketed] TEXT, `ticked` INTEGER, 'single' REAL",
          "e FLOAT[8] index=ivfpq(lists=4, m=2, bits=8, opq=1)",
          "e FLOAT[9] distance=cosine index=ivfrabitq(lists=4, bits=7, rotate=0, refine=3)",
          "e FLOAT[3] index=ivfrabitq(bits=1), store=codes", "e INT8[3] index=approximate(recall=0.9)",
          "e FLOAT[8] index=lsh(family=e2lsh, m=237), s TEXT index=ngram(n=3), chunk_size=1024",
          "distance REAL, k INTEGER, nprobe TEXT",
          "e FLOAT[99999999999999999999]",
          "e FLOAT[-1], e FLOAT[2]",
          "e f32[3], f i8[3], store=codes, content=docs, content_rowid=id",
          "e FLOAT[2] -- comment\n, /* other */ s TEXT COLLATE NOCASE NOT NULL DEFAULT 5",
          "",
          ",,,",
          "(((("};
}
