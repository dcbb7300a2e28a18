#include "sql/table_functions/table_functions.h"

#include "sql/table_functions/functions.h"

namespace warplite::sql {

int register_table_functions(sqlite3* db, Context* context) {
  for (const TableFunction* function : {&kKnnSearch, &kIvfpqSearch, &kRangeSearch, &kKnnJoin,
                                        &kKnnArrays, &kHybridSearch, &kMaxsimSearch, &kRangeJoin,
                                        &kMatchCount, &kMatchJoin, &kSequenceSearch,
                                        &kSequenceJoin, &kDocumentSearch, &kDocumentJoin,
                                        &kKnnGraph, &kKmeans, &kVectorsFile, &kDevices,
                                        &kResidency, &kVecEach, &kExplain}) {
    const int code = register_table_function(db, *function, context);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

}  // namespace warplite::sql
