#include "index/quantization/codes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "compute/host/parallel.h"
#include "compute/host/rotation.h"
#include "index/clustering/model_space.h"
#include "index/clustering/nearest_list.h"
#include "index/quantization/finite.h"
#include "index/quantization/pq.h"
#include "index/quantization/rabitq.h"
#include "index/training_task.h"

namespace warplite::index {
namespace {

// Elements of the rows coded at once, which bounds the memory in model space, and rows at most; of the
// chunks, where several are coded at once.
constexpr std::size_t kChunkElements = std::size_t{1} << 22, kMostChunk = 16384, kMostOfMany = 8192;
constexpr std::size_t kChunksAtOnce = 8;
constexpr std::size_t kGrainElements = std::size_t{1} << 15;
constexpr std::size_t kCheckedRows = 4096;

std::size_t rows_at_once(std::size_t dim, std::size_t most) {
  return std::clamp<std::size_t>(kChunkElements / dim, 1, most);
}

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorKind::kCorrupt, "codes of the index: " + what);
}

// Codes one a byte, to and from what a block holds.
void pack(const compute::IvfShape& shape, const std::uint8_t* codes, std::byte* to) {
  if (shape.bits == 8) {
    std::memcpy(to, codes, shape.m);
    return;
  }
  for (std::uint32_t s = 0; s < shape.m; s += 2) {
    const unsigned high = s + 1 < shape.m ? codes[s + 1] : 0;
    to[s / 2] = static_cast<std::byte>(codes[s] | high << 4);
  }
}

void unpack(const compute::IvfShape& shape, const std::byte* from, std::uint8_t* codes) {
  for (std::uint32_t s = 0; s < shape.m; ++s) {
    codes[s] = shape.bits == 8 ? static_cast<std::uint8_t>(from[s])
                               : (static_cast<std::uint8_t>(from[s / 2]) >> (s % 2 * 4)) & 15;
  }
}

void decode_residual(const IvfCoder& coder, const std::uint8_t* codes, float* out) {
  const compute::IvfShape& shape = coder.shape;
  decode_codes(coder.codebooks, shape.m, shape.codewords(), shape.sub_dim(), codes, out);
}

// ‖r̂‖² + 2(C − μ)·r̂; listwise ‖r̂‖² alone; 0 for ip.
float bias_of(const IvfCoder& coder, const float* centroid, const float* residual) {
  if (coder.distance == Distance::kInnerProduct) return 0;
  double square = 0, product = 0;
  for (std::uint32_t i = 0; i < coder.shape.dim; ++i) {
    const double r = residual[i];
    square += r * r;
    if (coder.shape.listwise) continue;
    product += (static_cast<double>(centroid[i]) - static_cast<double>(coder.mean[i])) * r;
  }
  return nearest_finite(square + 2 * product);
}

// The RaBitQ code of one row, to and from what a block holds.
class RabitqCode {
 public:
  explicit RabitqCode(const compute::IvfShape& shape)
      : shape_(shape),
        plane_(compute::plane_bytes(shape.dim)),
        planes_(std::size_t{plane_} * shape.planes) {}

  void encode(const IvfCoder& coder, const float* centroid, const float* row) {
    const RabitqTries tries =
        coder.version >= CodesVersion::kNearer ? RabitqTries::kTwice : RabitqTries::kOnce;
    factors_ = encode_rabitq(coder.distance, shape_.dim, centroid, row, shape_.planes, tries,
                             planes_.data());
  }
  void decode(const IvfCoder& coder, const float* centroid, float* out) const {
    decode_rabitq(coder.distance, shape_.dim, centroid, factors_, shape_.planes, planes_.data(),
                  out);
  }

  void write(const CodesView& at, std::uint32_t row, std::byte* block) const {
    at.put_factors(block, row, factors_);
    std::memcpy(at.code(block, row), planes_.data(), plane_);
    std::memcpy(at.rest(block, row) + at.planes_at(), planes_.data() + plane_, planes_.size() - plane_);
  }
  void read(const CodesView& at, std::uint32_t row, const std::byte* block) {
    factors_ = at.factors(block, row);
    std::memcpy(planes_.data(), at.code(block, row), plane_);
    std::memcpy(planes_.data() + plane_, at.rest(block, row) + at.planes_at(), planes_.size() - plane_);
  }

  // Throws Error{kCorrupt} unless a search can use the row's.
  void check(const CodesView& at, std::uint32_t row, const std::byte* block) {
    const RabitqFactors factors = at.factors(block, row);
    for (const float factor : {factors.f, factors.g, factors.fine}) {
      if (!std::isfinite(factor)) corrupt("a factor that is not finite");
    }
    if (shape_.dim % 8 == 0) return;
    read(at, row, block);
    for (std::size_t end = plane_; end <= planes_.size(); end += plane_) {
      if (planes_[end - 1] >> (shape_.dim % 8) != 0) corrupt("a bit too many");
    }
  }

 private:
  const compute::IvfShape& shape_;
  const std::uint32_t plane_;
  std::vector<std::uint8_t> planes_;
  RabitqFactors factors_;
};

// Zeros behind a header.
void begin_block(CodesVersion version, std::uint32_t rows, Bytes& block) {
  const CodesHeader header = codes_header(version, rows);
  std::memset(block.data(), 0, block.size());
  std::memcpy(block.data(), &header, sizeof header);
}

// Fills a block chunk by chunk, as many at once as there are scratches: each row has bytes of its own.
class Encoder {
 public:
  struct Scratch {
    compute::Cancellation* cancellation;
    std::vector<std::byte> vectors = {};
    std::vector<float> model = {};
    std::vector<Nearest> nearest = {};
    std::vector<std::uint8_t> codes = {};
  };

  // `centroids`: resident on the device, or null.
  Encoder(const IvfCoder& coder, compute::Device& device, const compute::Buffer* centroids,
          std::uint32_t rows)
      : coder_(coder),
        device_(device),
        nearest_list_(device, coder.centroids, coder.shape.lists, coder.shape.dim, centroids),
        lists_(rows, CodesView::kNoList),
        at_(coder.shape, rows, coder.version),
        block_(at_.size()) {
    begin_block(coder.version, rows, block_);
  }

  // `rows[i]` is the row of the block that vectors.row(i) is.
  void add(const MatrixView& vectors, const std::uint32_t* rows, Scratch& scratch) {
    const std::size_t count = vectors.rows, dim = coder_.shape.dim;
    scratch.model.resize(count * dim);
    to_model_space(vectors, coder_.distance, coder_.rotation, scratch.model.data());
    scratch.nearest.resize(count);
    nearest_list_.find(scratch.model.data(), count, scratch.cancellation, scratch.nearest.data());
    for (std::size_t i = 0; i < count; ++i) {
      lists_[rows[i]] = scratch.nearest[i].list;
    }
    if (coder_.shape.planes != 0) return code_rabitq(count, rows, scratch);
    if (coder_.shape.m != 0) code(count, rows, scratch);
  }

  Bytes take() {
    for (std::uint32_t row = 0; row < lists_.size(); ++row) {
      at_.put_list(block_.data(), row, lists_[row]);
    }
    return std::move(block_);
  }

 private:
  const float* centroid(const Nearest& nearest) const {
    return coder_.centroids + std::size_t{nearest.list} * coder_.shape.dim;
  }

  template <typename Body>
  void for_each(std::size_t count, const Body& body) const {
    const std::size_t grain = std::max<std::size_t>(1, kGrainElements / coder_.shape.dim);
    compute::in_parallel(count, grain, count / grain, [&](std::size_t first, std::size_t last) {
      body(first, last);
    });
  }

  void code(std::size_t count, const std::uint32_t* rows, Scratch& scratch) {
    const compute::IvfShape& shape = coder_.shape;
    float* const model = scratch.model.data();
    for_each(count, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        float* row = model + i * shape.dim;
        const float* from = centroid(scratch.nearest[i]);
        for (std::uint32_t d = 0; d < shape.dim; ++d) row[d] -= from[d];
      }
    });
    scratch.codes.resize(count * shape.m);
    compute::PqAssignWork work;
    work.rows = model;
    work.count = count;
    work.dim = shape.dim;
    work.m = shape.m;
    work.codewords = shape.codewords();
    work.codebooks = coder_.codebooks;
    work.out = scratch.codes.data();
    work.cancellation = scratch.cancellation;
    device_.pq_assign(work).raise();
    for_each(count, [&](std::size_t first, std::size_t last) {
      std::vector<float> residual(shape.dim);
      for (std::size_t i = first; i < last; ++i) {
        const std::uint8_t* codes = scratch.codes.data() + i * shape.m;
        decode_residual(coder_, codes, residual.data());
        const float bias = bias_of(coder_, centroid(scratch.nearest[i]), residual.data());
        at_.put_bias(block_.data(), rows[i], bias);
        pack(shape, codes, at_.code(block_.data(), rows[i]));
      }
    });
  }

  void code_rabitq(std::size_t count, const std::uint32_t* rows, const Scratch& scratch) {
    for_each(count, [&](std::size_t first, std::size_t last) {
      RabitqCode code(coder_.shape);
      for (std::size_t i = first; i < last; ++i) {
        code.encode(coder_, centroid(scratch.nearest[i]), scratch.model.data() + i * coder_.shape.dim);
        code.write(at_, rows[i], block_.data());
      }
    });
  }

  const IvfCoder& coder_;
  compute::Device& device_;
  NearestList nearest_list_;
  std::vector<std::uint32_t> lists_;  // of rows, whose lists share bytes in the block
  CodesView at_;
  Bytes block_;
};

// The vectors of `rows`, side by side.
MatrixView gather(const MatrixView& vectors, const std::uint32_t* rows, std::size_t count,
                  std::vector<std::byte>* staging) {
  const std::size_t stride = vectors.stride();
  MatrixView gathered = vectors;
  gathered.rows = count;
  gathered.data = vectors.row(rows[0]);
  if (rows[count - 1] - rows[0] + 1 == count) return gathered;
  staging->resize(count * stride);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(staging->data() + i * stride, vectors.row(rows[i]), stride);
  }
  gathered.data = staging->data();
  return gathered;
}

}  // namespace

Bytes encode_block(const IvfCoder& coder, compute::Device& device, const MatrixView& vectors,
                   const Bitmap* present, compute::Cancellation* cancellation,
                   const compute::Buffer* centroids) {
  std::vector<std::uint32_t> rows;
  rows.reserve(vectors.rows);
  for (std::uint32_t row = 0; row < vectors.rows; ++row) {
    if (present == nullptr || present->test(row)) rows.push_back(row);
  }
  Encoder encoder(coder, device, centroids, static_cast<std::uint32_t>(vectors.rows));
  // A GPU finds lists of some rows while the host codes others.
  const bool apart = device.own_memory();
  const std::size_t at_once = rows_at_once(vectors.dim, apart ? kMostOfMany : kMostChunk);
  const std::size_t chunks = (rows.size() + at_once - 1) / at_once;
  const std::size_t threads = std::min<std::size_t>(chunks, apart ? kChunksAtOnce : 1);
  std::atomic<std::size_t> next{0};
  const std::thread::id caller = std::this_thread::get_id();
  compute::in_parallel(threads, 1, threads, [&](std::size_t, std::size_t) {
    HelperCancellation helper;
    Encoder::Scratch scratch{std::this_thread::get_id() == caller ? cancellation : &helper};
    for (std::size_t chunk = next++; chunk < chunks; chunk = next++) {
      const std::uint32_t* const some = rows.data() + chunk * at_once;
      const std::size_t count = std::min(at_once, rows.size() - chunk * at_once);
      encoder.add(gather(vectors, some, count, &scratch.vectors), some, scratch);
    }
  });
  return encoder.take();
}

Bytes encode_in_lists(const IvfCoder& coder, const float* rows,
                      std::span<const std::uint32_t> lists) {
  const auto count = static_cast<std::uint32_t>(lists.size());
  const CodesView at(coder.shape, count, coder.version);
  Bytes block(at.size());
  begin_block(coder.version, count, block);
  for (std::uint32_t row = 0; row < count; ++row) at.put_list(block.data(), row, lists[row]);
  const std::size_t dim = coder.shape.dim;
  const std::size_t grain = std::max<std::size_t>(1, kGrainElements / dim);
  compute::in_parallel(count, grain, count / grain, [&](std::size_t first, std::size_t last) {
    RabitqCode code(coder.shape);
    std::vector<float> vector(dim);
    for (std::size_t i = first; i < last; ++i) {
      const auto row = static_cast<std::uint32_t>(i);
      std::copy_n(rows + i * dim, dim, vector.begin());
      if (coder.rotation.random) compute::rotate_at_random(coder.shape.dim, vector.data());
      code.encode(coder, coder.centroids + lists[i] * dim, vector.data());
      code.write(at, row, block.data());
    }
  });
  return block;
}

void check_block(const IvfCoder& coder, std::span<const std::byte> codes, std::uint32_t rows) {
  const compute::IvfShape& shape = coder.shape;
  const CodesView at(shape, rows, coder.version);
  if (codes.size() != at.size()) {
    corrupt(std::to_string(codes.size()) + " bytes, expected " + std::to_string(at.size()));
  }
  if (read_header(codes) != codes_header(coder.version, rows)) corrupt("an unknown header");
  compute::in_parallel(rows, kCheckedRows, rows / kCheckedRows, [&](std::size_t first, std::size_t last) {
    RabitqCode code(shape);
    for (auto row = static_cast<std::uint32_t>(first); row < last; ++row) {
      const std::uint32_t list = at.list(codes.data(), row);
      if (list != CodesView::kNoList && list >= shape.lists) {
        corrupt("list " + std::to_string(list) + " of " + std::to_string(shape.lists));
      }
      if (shape.m == 0) continue;
      if (!std::isfinite(at.bias(codes.data(), row))) corrupt("a bias that is not finite");
      if (shape.planes != 0) {
        code.check(at, row, codes.data());
      } else if (shape.bits == 4 && shape.m % 2 != 0) {
        const std::byte last_code = at.code(codes.data(), row)[at.code_size() - 1];
        if ((last_code & std::byte{0xf0}) != std::byte{0}) corrupt("a code too many");
      }
    }
  });
}

void decode_rows(const IvfCoder& coder, const CodedBlock& block, RowRange rows, std::byte* out,
                 Bitmap* present) {
  const compute::IvfShape& shape = coder.shape;
  const CodesView at(shape, block);
  const std::byte* const codes = block.codes.data();
  const auto has_vector = [&](std::uint32_t i) {
    return at.list(codes, rows.first + i) != CodesView::kNoList;
  };
  if (present != nullptr) *present = Bitmap(rows.count);
  const std::size_t stride = bytes_per_vector(coder.type, shape.dim);
  const std::size_t grain = std::max<std::size_t>(1, kGrainElements / shape.dim);
  const std::size_t at_once = rows_at_once(shape.dim, kMostChunk);
  std::vector<float> model(std::min<std::size_t>(at_once, rows.count) * shape.dim);
  for (std::size_t begin = 0; begin < rows.count; begin += at_once) {
    const std::size_t count = std::min(at_once, rows.count - begin);
    compute::in_parallel(count, grain, count / grain, [&](std::size_t first, std::size_t last) {
      std::vector<std::uint8_t> unpacked(shape.m);
      RabitqCode code(shape);
      for (std::size_t i = first; i < last; ++i) {
        const std::uint32_t row = rows.first + static_cast<std::uint32_t>(begin + i);
        float* const vector = model.data() + i * shape.dim;
        const std::uint32_t list = at.list(codes, row);
        if (list == CodesView::kNoList) {
          std::fill_n(vector, shape.dim, 0.0f);
          continue;
        }
        if (list >= shape.lists) corrupt("list " + std::to_string(list) + " of another model");
        const float* centroid = coder.centroids + std::size_t{list} * shape.dim;
        if (shape.planes != 0) {
          code.read(at, row, codes);
          code.decode(coder, centroid, vector);
          continue;
        }
        unpack(shape, at.code(codes, row), unpacked.data());
        decode_residual(coder, unpacked.data(), vector);
        for (std::uint32_t d = 0; d < shape.dim; ++d) vector[d] += centroid[d];
      }
    });
    std::byte* const to = out + begin * stride;
    from_model_space(model.data(), count, shape.dim, coder.type, coder.distance, coder.rotation,
                     to);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!has_vector(begin + i)) {
        std::memset(to + i * stride, 0, stride);
      } else if (present != nullptr) {
        present->set(begin + i);
      }
    }
  }
}

Bytes gather_rows(const IvfCoder& coder, std::span<const CodedRow> rows) {
  const auto count = static_cast<std::uint32_t>(rows.size());
  const CodesView to(coder.shape, count, coder.version);
  Bytes gathered(to.size());
  begin_block(coder.version, count, gathered);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (rows[i].block == nullptr) {
      to.put_list(gathered.data(), i, CodesView::kNoList);
      continue;
    }
    const CodesView from(coder.shape, *rows[i].block);
    const std::byte* const codes = rows[i].block->codes.data();
    to.put_list(gathered.data(), i, from.list(codes, rows[i].row));
    to.put_bias(gathered.data(), i, from.bias(codes, rows[i].row));
    std::memcpy(to.code(gathered.data(), i), from.code(codes, rows[i].row), to.code_size());
    std::memcpy(to.rest(gathered.data(), i), from.rest(codes, rows[i].row), to.rest_size());
  }
  return gathered;
}

}  // namespace warplite::index
