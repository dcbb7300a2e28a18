// The table-valued functions there are, one line each; every one is described at
// the top of the file that bears its name.
#pragma once

#include "sql/table_functions/table_function.h"

namespace warplite::sql {

extern const TableFunction kKnnSearch;     // knn_search.cc
extern const TableFunction kIvfpqSearch;   // ivfpq_search.cc
extern const TableFunction kRangeSearch;   // range_search.cc
extern const TableFunction kKnnJoin;       // knn_join.cc
extern const TableFunction kKnnArrays;     // knn_arrays.cc
extern const TableFunction kHybridSearch;  // hybrid/hybrid_search.cc
extern const TableFunction kMaxsimSearch;  // vectors/maxsim_search.cc
extern const TableFunction kRangeJoin;     // range_join.cc
extern const TableFunction kMatchCount;    // match_count.cc
extern const TableFunction kMatchJoin;     // match_join.cc
extern const TableFunction kSequenceSearch;  // sequence_search.cc
extern const TableFunction kSequenceJoin;  // sequence_join.cc
extern const TableFunction kDocumentSearch;  // document_search.cc
extern const TableFunction kDocumentJoin;    // document_join.cc
extern const TableFunction kKnnGraph;      // knn_graph.cc
extern const TableFunction kKmeans;        // kmeans.cc
extern const TableFunction kVectorsFile;   // vectors_file.cc
extern const TableFunction kExplain;       // explain.cc
extern const TableFunction kDevices;       // devices.cc
extern const TableFunction kResidency;     // residency.cc
extern const TableFunction kVecEach;       // vec_each.cc

}  // namespace warplite::sql
