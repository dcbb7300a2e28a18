// Learns a model from a sample: the parts come in this order, and each uses so many rows of the
// sample. papers/faiss-gpu-2017 §2.
//   lists      k-means (index/clustering/kmeans.h) on up to kKmeansRows rows per list
//   rotation   (opq) on the residuals of up to kRotationRows rows
//   codebooks  on those of up to kCodebookRows rows
// held_rows() of them are left for calibrate(), unless there are hardly more than lists.
#pragma once

#include "index/ivf/model.h"
#include "index/ivf/options.h"
#include "index/training_task.h"

namespace warplite::index {

// Rows that training can use, of a table of `rows`.
std::size_t training_rows(const IvfOptions& options, std::uint64_t rows);

// Throws Error{kInvalid} when there are fewer rows than lists, or none.
IvfParts train_ivf(const TrainingTask& task, const IvfOptions& options, const ColumnShape& column,
                   const MatrixView& sample, std::uint64_t table_rows);

}  // namespace warplite::index
