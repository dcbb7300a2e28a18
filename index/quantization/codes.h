// Makes, checks and reads codes of rows (codes_view.h).
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/device.h"
#include "compute/ivf.h"
#include "core/bitmap.h"
#include "core/bytes.h"
#include "core/distance.h"
#include "index/clustering/model_space.h"
#include "index/quantization/codes_view.h"
#include "index/trained.h"

namespace warplite::index {

// What coding needs of a model.
struct IvfCoder {
  compute::IvfShape shape;
  ElementType type = ElementType::kFloat32;
  Distance distance = Distance::kL2;
  const float* centroids = nullptr;
  const float* mean = nullptr;
  const float* codebooks = nullptr;
  Rotation rotation;  // none without opq or rotate
  CodesVersion version = CodesVersion::kLong;
};

// See InvertedModel::encode(), check_codes(), decode() and gather().
Bytes encode_block(const IvfCoder& coder, compute::Device& device, const MatrixView& vectors,
                   const Bitmap* present, compute::Cancellation* cancellation,
                   const compute::Buffer* centroids);
// RaBitQ codes of rows in model space, [lists.size()][dim], whose lists are given; rows are rotated
// before where coder.rotation is random.
Bytes encode_in_lists(const IvfCoder& coder, const float* rows,
                      std::span<const std::uint32_t> lists);
void check_block(const IvfCoder& coder, std::span<const std::byte> codes, std::uint32_t rows);
void decode_rows(const IvfCoder& coder, const CodedBlock& block, RowRange rows, std::byte* out,
                 Bitmap* present);
Bytes gather_rows(const IvfCoder& coder, std::span<const CodedRow> rows);

}  // namespace warplite::index
