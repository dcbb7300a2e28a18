// Reads vectors from .fvecs .bvecs .ivecs .npy .fbin .u8bin .i8bin files, one at a time.
// Memory is bounded by one vector and a read buffer. Errors: Error{kInvalid} that names the
// file and, where there is one, the record (counted from 0).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/types.h"

namespace warplite::sql {

class VectorFile {
 public:
  virtual ~VectorFile() = default;

  // The elements as the vectors are returned: bytes 0…255 and int32 values become FLOAT.
  virtual ElementType type() const = 0;
  // Goes to the first, then to the next vector. False: there is none.
  virtual bool next() = 0;
  // The current vector, valid until next().
  virtual std::span<const std::byte> vector() const = 0;
};

// The extension of the name decides the format.
std::unique_ptr<VectorFile> open_vector_file(const std::string& path);

}  // namespace warplite::sql
