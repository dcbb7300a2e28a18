#include "sql/table_functions/vectors/vector_file.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/system.h"
#include "sql/definition/values.h"
#include "sql/table_functions/vectors/npy_header.h"

namespace warplite::sql {
namespace {

constexpr std::size_t kReadBuffer = std::size_t{1} << 18;  // stays in a second-level cache
// Limits of what a header may claim: files with holes are as long as anybody says.
constexpr std::uint64_t kMostDimension = 65536;  // of a column
constexpr std::uint32_t kMostHeader = 1u << 16;  // bytes of a .npy header

// Says what an element is in the file.
enum class Stored { kFloat32, kFloat16, kInt8, kUint8, kInt32 };

std::size_t stored_size(Stored stored) {
  switch (stored) {
    case Stored::kFloat32:
    case Stored::kInt32: return 4;
    case Stored::kFloat16: return 2;
    case Stored::kInt8:
    case Stored::kUint8: return 1;
  }
  return 1;
}

ElementType returned_type(Stored stored) {
  if (stored == Stored::kFloat16) return ElementType::kFloat16;
  return stored == Stored::kInt8 ? ElementType::kInt8 : ElementType::kFloat32;
}

// Bytes from the front of a regular file to its end, read in large pieces.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), buffer_(kReadBuffer) {
    if (path.find('\0') != path.npos) {
      throw Error(ErrorKind::kInvalid, "warp_vectors_file: expected a path without NUL");
    }
    std::string why;
    file_.reset(os::open_regular_file(path, left_, why));
    if (file_ == nullptr) fail(why);
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  }

  std::uint64_t left() const { return left_; }
  // The next bytes, valid until the next call. REQUIRES: size <= left()
  const std::byte* take(std::size_t size) {
    if (filled_ - at_ < size) fill(size);
    const std::byte* bytes = buffer_.data() + at_;
    at_ += size;
    left_ -= size;
    return bytes;
  }
  template <typename Value>
  Value take_value() {
    Value value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInvalid, "warp_vectors_file: " + path_ + ": " + what);
  }
  void check_dimension(std::uint64_t dim) const {
    if (dim <= kMostDimension) return;
    fail("the dimension is " + std::to_string(dim) + ", where " + std::to_string(kMostDimension) +
         " is the most");
  }
  [[noreturn]] void fail_at(std::uint64_t record, const std::string& what) const {
    fail("record " + std::to_string(record) + ": " + what);
  }

 private:
  // Makes `size` bytes or more lie ahead of at_.
  void fill(std::size_t size) {
    filled_ -= at_;
    std::memmove(buffer_.data(), buffer_.data() + at_, filled_);
    at_ = 0;
    if (buffer_.size() < size) buffer_.resize(size);
    const std::size_t more =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), left_)) - filled_;
    if (std::fread(buffer_.data() + filled_, 1, more, file_.get()) != more) {
      fail("cannot be read to its end");
    }
    filled_ += more;
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;      // buffer_[at_ … filled_) was read and not taken
  std::size_t filled_ = 0;
  std::uint64_t left_ = 0;  // bytes of the file that were not taken
};

// One vector as it is in the file and as it is returned.
class Decoder {
 public:
  explicit Decoder(Stored stored) : stored_(stored) {}

  Stored stored() const { return stored_; }
  void read(Reader& reader, std::uint64_t record, std::size_t dim) {
    const std::size_t size = dim * stored_size(stored_);
    const std::byte* raw = reader.take(size);
    vector_ = {raw, size};
    if (stored_ != Stored::kUint8 && stored_ != Stored::kInt32) return;
    floats_.resize(dim);
    for (std::size_t i = 0; i < dim; ++i) {
      if (stored_ == Stored::kUint8) {
        floats_[i] = static_cast<float>(raw[i]);
        continue;
      }
      std::int32_t value;
      std::memcpy(&value, raw + i * 4, 4);
      floats_[i] = static_cast<float>(value);
      if (static_cast<std::int64_t>(floats_[i]) != value) {
        reader.fail_at(record, std::to_string(value) + " has no exact float32 value");
      }
    }
    vector_ = std::as_bytes(std::span(floats_));
  }
  std::span<const std::byte> vector() const { return vector_; }

 private:
  Stored stored_;
  std::span<const std::byte> vector_;  // in the reader's buffer, or floats_
  std::vector<float> floats_;
};

// .fvecs .bvecs .ivecs: every vector follows its own dimension.
class RecordFile : public VectorFile {
 public:
  RecordFile(Reader reader, Stored stored) : reader_(std::move(reader)), decoder_(stored) {}

  ElementType type() const override { return returned_type(decoder_.stored()); }
  std::span<const std::byte> vector() const override { return decoder_.vector(); }
  bool next() override {
    if (reader_.left() == 0) return false;
    if (reader_.left() < sizeof(std::int32_t)) {
      reader_.fail_at(record_, "the file ends within a dimension");
    }
    const auto dim = reader_.take_value<std::int32_t>();
    if (dim <= 0) reader_.fail_at(record_, "the dimension is " + std::to_string(dim));
    if (record_ == 0) dim_ = dim;
    if (dim != dim_) {
      reader_.fail_at(record_, "expected dimension " + std::to_string(dim_) +
                                   " as in record 0, got " + std::to_string(dim));
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(dim) * stored_size(decoder_.stored());
    if (reader_.left() < bytes) {
      reader_.fail_at(record_, "expected " + std::to_string(bytes) +
                                   " bytes of vector, the file ends after " +
                                   std::to_string(reader_.left()));
    }
    reader_.check_dimension(static_cast<std::uint64_t>(dim));
    decoder_.read(reader_, record_, static_cast<std::size_t>(dim));
    ++record_;
    return true;
  }

 private:
  Reader reader_;
  Decoder decoder_;
  std::int32_t dim_ = 0;
  std::uint64_t record_ = 0;
};

// .npy .fbin .u8bin .i8bin: one header, then a dense matrix.
class MatrixFile : public VectorFile {
 public:
  MatrixFile(Reader reader, Stored stored, std::uint64_t rows, std::uint64_t dim)
      : reader_(std::move(reader)), decoder_(stored), rows_(rows), dim_(dim) {
    const std::uint64_t size = stored_size(stored);
    const bool possible = rows == 0 || (dim > 0 && rows <= reader_.left() / (dim * size));
    if (!possible || rows * dim * size != reader_.left()) {
      reader_.fail("expected " + std::to_string(rows) + " vectors of dimension " +
                   std::to_string(dim) + " after the header, got " +
                   std::to_string(reader_.left()) + " bytes");
    }
    reader_.check_dimension(dim);
  }

  ElementType type() const override { return returned_type(decoder_.stored()); }
  std::span<const std::byte> vector() const override { return decoder_.vector(); }
  bool next() override {
    if (record_ == rows_) return false;
    decoder_.read(reader_, record_, static_cast<std::size_t>(dim_));
    ++record_;
    return true;
  }

 private:
  Reader reader_;
  Decoder decoder_;
  std::uint64_t rows_;
  std::uint64_t dim_;
  std::uint64_t record_ = 0;
};

std::unique_ptr<VectorFile> open_bin(Reader reader, Stored stored) {
  if (reader.left() < 2 * sizeof(std::int32_t)) reader.fail("expected a header of 8 bytes");
  const auto rows = reader.take_value<std::int32_t>();
  const auto dim = reader.take_value<std::int32_t>();
  if (rows < 0 || dim <= 0) {
    reader.fail("the header says " + std::to_string(rows) + " vectors of dimension " +
                std::to_string(dim));
  }
  return std::make_unique<MatrixFile>(std::move(reader), stored, static_cast<std::uint64_t>(rows),
                                      static_cast<std::uint64_t>(dim));
}

std::unique_ptr<VectorFile> open_npy(Reader reader) {
  constexpr std::size_t kPrefix = 8;  // magic and version
  if (reader.left() < kPrefix + 4) reader.fail("is no .npy file");
  const std::byte* prefix = reader.take(kPrefix);
  const int version = std::to_integer<int>(prefix[6]);
  if (std::memcmp(prefix, "\x93NUMPY", 6) != 0 || version < 1 || version > 3) {
    reader.fail("is no .npy file of version 1 to 3");
  }
  const std::uint32_t size =
      version == 1 ? reader.take_value<std::uint16_t>() : reader.take_value<std::uint32_t>();
  if (size > kMostHeader) reader.fail("the header has " + std::to_string(size) + " bytes");
  if (size > reader.left()) reader.fail("the file ends within its header");
  const std::string text(reinterpret_cast<const char*>(reader.take(size)), size);
  const std::optional<NpyHeader> header = parse_npy_header(text);
  if (!header) {
    reader.fail("expected descr, fortran_order and shape in the header, got " +
                describe(Cell::text(text)));
  }
  if (header->fortran_order) reader.fail("expected C order, got Fortran order");
  if (header->shape.size() > 2 || header->shape.empty()) {
    reader.fail("expected an array of 1 or 2 dimensions, got " +
                std::to_string(header->shape.size()));
  }
  constexpr struct {
    const char* descr;
    Stored stored;
  } kTypes[] = {{"<f4", Stored::kFloat32}, {"<f2", Stored::kFloat16}, {"|i1", Stored::kInt8},
                {"|u1", Stored::kUint8}};
  for (const auto& type : kTypes) {
    if (header->descr != type.descr) continue;
    const bool one = header->shape.size() == 1;
    return std::make_unique<MatrixFile>(std::move(reader), type.stored, one ? 1 : header->shape[0],
                                        header->shape.back());
  }
  reader.fail("expected elements of type <f4, <f2, |i1 or |u1, got " +
              describe(Cell::text(header->descr)));
}

}  // namespace

std::unique_ptr<VectorFile> open_vector_file(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  std::string extension = dot == path.npos ? "" : path.substr(dot);
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (extension == ".fvecs") return std::make_unique<RecordFile>(Reader(path), Stored::kFloat32);
  if (extension == ".bvecs") return std::make_unique<RecordFile>(Reader(path), Stored::kUint8);
  if (extension == ".ivecs") return std::make_unique<RecordFile>(Reader(path), Stored::kInt32);
  if (extension == ".fbin") return open_bin(Reader(path), Stored::kFloat32);
  if (extension == ".u8bin") return open_bin(Reader(path), Stored::kUint8);
  if (extension == ".i8bin") return open_bin(Reader(path), Stored::kInt8);
  if (extension == ".npy") return open_npy(Reader(path));
  throw Error(ErrorKind::kInvalid,
              "warp_vectors_file: " + path +
                  ": expected a name that ends in .fvecs, .bvecs, .ivecs, .npy, .fbin, .u8bin or "
                  ".i8bin");
}

}  // namespace warplite::sql
