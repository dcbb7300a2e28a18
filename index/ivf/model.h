// A model is what an inverted file has learnt, as engine/ keeps it. Little-endian:
//   header     64 bytes, see ivf_model.cc: version, shape, column, what it learnt from
//   centroids  float[lists][dim]
// with groups of lists:
//   groups     float[groups][dim], their centroids, of other than RaBitQ codes rotated at random
//              (compute/host/rotation.h); u32[groups + 1], the first list of each
// and with codebooks:
//   mean       float[dim]
//   codebooks  float[m][codewords][dim / m]
//   rotation   float[dim][dim], only with opq
// and from version 2 on:
//   recall     what training has measured, index/recall/calibration.h
// Version 3 is that of models with groups of lists and other than RaBitQ codes, versions 4, 5 and 6 those of models
// with RaBitQ codes of version 2, 3 and 4 (index/quantization/codes.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "index/ivf/options.h"
#include "index/recall/calibration.h"
#include "index/trained.h"

namespace warplite::index {

// What training found.
struct IvfParts {
  compute::IvfShape shape;
  std::uint64_t trained_on = 0, table_rows = 0;
  bool rotated = false;  // at random
  std::vector<float> centroids, mean, codebooks, rotation;
  std::vector<float> group_centroids;
  std::vector<std::uint32_t> group_begins;  // of lists; shape.groups + 1, or none
};

std::shared_ptr<const InvertedModel> make_ivf_model(const ColumnShape& column,
                                                    const IvfParts& parts,
                                                    const Calibration& calibration = {});

// The same model with another calibration.
std::shared_ptr<const InvertedModel> with_calibration(const InvertedModel& model,
                                                      const Calibration& calibration);

// Throws Error{kCorrupt} unless the bytes are of a model for these options and this column.
std::shared_ptr<const Model> open_ivf_model(std::span<const std::byte> bytes,
                                            const ColumnShape& column, const IvfOptions& options);

}  // namespace warplite::index
