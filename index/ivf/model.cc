#include "index/ivf/model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "core/process/derived_store.h"
#include "index/clustering/matrix.h"
#include "index/clustering/model_space.h"
#include "index/ivf/list_places.h"
#include "index/ivf/run.h"
#include "index/quantization/codes.h"

namespace warplite::index {
namespace {

static_assert(std::endian::native == std::endian::little, "stored bytes are little-endian");

constexpr std::uint64_t kMagic = 0x6c65646f4d465649u;  // "IVFModel"
constexpr std::uint32_t kUncalibrated = 1;  // the version of models that say nothing of recall
constexpr std::uint32_t kCalibrated = 2;
constexpr std::uint32_t kGrouped = 3;  // of lists of other than RaBitQ codes; also where recall is measured
constexpr std::uint32_t kShort = 4;    // with short RaBitQ codes; the same
constexpr std::uint32_t kPacked = 5;   // with packed ones; the same
constexpr std::uint32_t kNearer = 6;   // with those that come nearer, which all are that are made; the same

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t dim, lists, m, bits;
  std::uint8_t distance, type, opq, planes;  // opq: of planes, whether they are rotated
  std::uint64_t trained_on, table_rows;
  std::uint64_t calibration;  // its bytes; 0 in version 1
  std::uint32_t groups, listwise;  // listwise: 0 or 1
};
static_assert(sizeof(Header) == 64);

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorKind::kCorrupt, "the model of the index " + what);
}

// Says where things lie, in floats behind the header. Sizes come from the header, which may say
// anything.
struct ModelLayout {
  std::size_t group_centroids = 0, group_begins = 0, mean = 0, codebooks = 0, rotation = 0, end = 0;

  ModelLayout(const compute::IvfShape& shape, bool opq) {
    const std::size_t dim = shape.dim;
    group_centroids = shape.lists * dim;
    group_begins = group_centroids + shape.groups * dim;
    mean = group_begins + (shape.groups == 0 ? 0 : std::size_t{shape.groups} + 1);
    codebooks = mean + (shape.has_codebooks() ? dim : 0);
    rotation = codebooks + (shape.has_codebooks() ? shape.codewords() * dim : 0);
    end = rotation + (opq && shape.has_codebooks() ? dim * dim : 0);
  }
  std::size_t size() const { return sizeof(Header) + end * sizeof(float); }
};

std::uint32_t version_of(const compute::IvfShape& shape) {
  if (shape.planes != 0) return kNearer;
  return shape.groups != 0 ? kGrouped : kCalibrated;
}

CodesVersion codes_of(std::uint32_t version) {
  if (version == kNearer) return CodesVersion::kNearer;
  if (version == kPacked) return CodesVersion::kPacked;
  return version == kShort ? CodesVersion::kShort : CodesVersion::kLong;
}

// Returns the size of the run of lists.
std::size_t coarse_bytes(const compute::IvfShape& shape, const std::uint32_t* group_begins) {
  if (shape.groups == 0) return 0;
  std::vector<std::uint32_t> lists(shape.groups);
  for (std::uint32_t i = 0; i < shape.groups; ++i) lists[i] = group_begins[i + 1] - group_begins[i];
  const std::uint32_t positions = place_lists(shape.coarse(), lists).begins.back();
  return compute::IvfLayout::of(shape.coarse(), positions).size;
}

// Lists as rows of a run, each in the list of its group.
Run make_coarse_run(const IvfCoder& coder, const std::uint32_t* group_begins) {
  const compute::IvfShape& shape = coder.shape;
  IvfCoder coarse = coder;
  coarse.shape = shape.coarse();
  coarse.centroids = coder.centroids + std::size_t{shape.lists} * shape.dim;
  coarse.rotation = {nullptr, shape.planes == 0};
  coarse.version = CodesVersion::kLong;
  std::vector<std::uint32_t> groups(shape.lists);
  for (std::uint32_t group = 0; group < shape.groups; ++group) {
    std::fill(groups.begin() + group_begins[group], groups.begin() + group_begins[group + 1], group);
  }
  const Bytes codes = encode_in_lists(coarse, coder.centroids, groups);
  const CodedBlock block{{codes.data(), codes.size()}, shape.lists};
  return make_ivf_run(coarse.shape, {&block, 1});
}

compute::IvfShape shape_of(const Header& header) {
  return {header.dim,    header.lists,  header.m,
          header.bits,   header.planes, header.groups,
          header.listwise != 0};
}

constexpr int kNone = std::numeric_limits<int>::min();  // the exponent of nothing

// Of the root of a square.
int exponent_of(double square) {
  int exponent = 0;
  std::frexp(std::sqrt(square), &exponent);
  return exponent;
}

// Multiplies a vector by a power of two, which loses nothing, so that its length has the exponent. Returns
// by what; 1: there is no such length.
float lengthen(float* vector, std::uint32_t dim, int exponent) {
  constexpr int kMost = 120;  // so that it is a float, and one by which can be divided
  const double square = square_norm(vector, dim);
  if (square == 0 || exponent == kNone) return 1;
  const int power = std::clamp(exponent - exponent_of(square), -kMost, kMost);
  if (power == 0) return 1;
  const float scale = std::ldexp(1.0f, power);
  for (std::uint32_t i = 0; i < dim; ++i) vector[i] *= scale;
  return scale;
}

class IvfModel : public InvertedModel {
 public:
  // REQUIRES: check() of them. Throws Error{kCorrupt} when they speak of no recall there can be.
  explicit IvfModel(Bytes bytes) : bytes_(std::move(bytes)) {
    std::memcpy(&header_, bytes_.data(), sizeof header_);
    shape_ = shape_of(header_);
    const ModelLayout at(shape_, header_.opq != 0);
    const float* floats = reinterpret_cast<const float*>(bytes_.data() + sizeof header_);
    group_begins_ = reinterpret_cast<const std::uint32_t*>(floats + at.group_begins);
    const bool rotates = header_.opq != 0, learnt = shape_.has_codebooks();
    parts_ = {shape_, static_cast<ElementType>(header_.type),
              static_cast<Distance>(header_.distance), floats, floats + at.mean,
              floats + at.codebooks,
              {rotates && learnt ? floats + at.rotation : nullptr, rotates && !learnt},
              codes_of(header_.version)};
    if (header_.version == kUncalibrated) return;
    calibration_ = Calibration::read({bytes_.data() + at.size(), header_.calibration});
    const Spread& spread = calibration_->spread;
    const std::vector<std::uint32_t>& looks = calibration_->lists.looks;
    if ((spread.known() && spread.radii.size() != header_.lists) ||
        (!looks.empty() && looks.back() > header_.lists)) {
      corrupt("measured other lists");
    }
  }

  const compute::IvfShape& shape() const override { return shape_; }
  const float* centroids() const override { return parts_.centroids; }
  // Made when it is first asked for: writers need none.
  const Run* coarse() const override {
    if (shape_.groups == 0) return nullptr;
    const auto make = [this] {
      return std::make_shared<const Run>(make_coarse_run(parts_, group_begins_));
    };
    return made_.get<const Run>(make).get();
  }
  const float* codebooks() const override {
    return shape_.has_codebooks() ? parts_.codebooks : nullptr;
  }
  const float* mean() const override { return shape_.has_codebooks() ? parts_.mean : nullptr; }
  std::span<const std::byte> bytes() const override { return {bytes_.data(), bytes_.size()}; }
  // What was measured is there as it was read and as it is used.
  std::size_t memory() const override {
    return bytes_.size() + header_.calibration + coarse_bytes(shape_, group_begins_);
  }
  const Calibration* calibration() const override {
    return calibration_ ? &*calibration_ : nullptr;
  }
  std::uint64_t trained_on() const override { return header_.trained_on; }
  std::uint64_t table_rows() const override { return header_.table_rows; }

  bool rotates_at_random() const override { return parts_.rotation.random; }
  void to_model_space(const MatrixView& vectors, float* out) const override {
    index::to_model_space(vectors, parts_.distance, parts_.rotation, out);
  }
  void queries_to_model_space(const MatrixView& queries, float* out, float* scales) const override {
    to_model_space(queries, out);
    std::fill_n(scales, queries.rows, 1.0f);
    if (parts_.distance != Distance::kInnerProduct) return;
    const auto longest = made_.get<const Longest>([this] { return std::make_shared<const Longest>(*this); });
    for (std::size_t i = 0; i < queries.rows; ++i) {
      scales[i] = lengthen(out + i * queries.dim, queries.dim, longest->exponent);
    }
  }
  Bytes encode(compute::Device& device, const MatrixView& vectors, const Bitmap* present,
               compute::Cancellation* cancellation,
               const compute::Buffer* centroids) const override {
    return encode_block(parts_, device, vectors, present, cancellation, centroids);
  }
  double coding_bytes() const override {
    return static_cast<double>(shape_.lists) * shape_.dim * sizeof(float);
  }
  void check_codes(std::span<const std::byte> codes, std::uint32_t rows) const override {
    check_block(parts_, codes, rows);
  }
  Run make_run(std::span<const CodedBlock> blocks, const ReleaseBlock& release) const override {
    return make_ivf_run(shape_, blocks, release);
  }
  void decode(const CodedBlock& block, RowRange rows, std::byte* out,
              Bitmap* present) const override {
    decode_rows(parts_, block, rows, out, present);
  }
  Bytes gather(std::span<const CodedRow> rows) const override {
    return gather_rows(parts_, rows);
  }

 private:
  // Of the centroids: 2^(exponent − 1) <= its length < 2^exponent. Made when it is first asked for.
  struct Longest {
    explicit Longest(const IvfModel& of) {
      double square = 0;
      for (std::size_t list = 0; list < of.shape_.lists; ++list) {
        square = std::max(square, square_norm(of.centroids() + list * of.shape_.dim, of.shape_.dim));
      }
      if (square > 0) exponent = exponent_of(square);
    }
    int exponent = kNone;
  };

  Bytes bytes_;
  Header header_;
  compute::IvfShape shape_;
  IvfCoder parts_;
  std::optional<Calibration> calibration_;
  const std::uint32_t* group_begins_;
  mutable DerivedStore made_;
};

// Groups hold all lists, and each at least one.
void check_groups(std::span<const std::byte> floats, const ModelLayout& layout,
                  const compute::IvfShape& shape) {
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i <= shape.groups; ++i) {
    std::uint32_t begin;
    std::memcpy(&begin, floats.data() + (layout.group_begins + i) * sizeof begin, sizeof begin);
    if (i == 0 ? begin != 0 : begin <= before) corrupt("has groups of lists out of order");
    before = begin;
  }
  if (before != shape.lists) corrupt("has lists in no group");
}

void check(std::span<const std::byte> bytes, const ColumnShape& column, const IvfOptions& options) {
  Header header;
  if (bytes.size() < sizeof header) corrupt("has " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) corrupt("does not begin as a model does");
  if (header.version < kUncalibrated || header.version > kNearer) {
    corrupt("has version " + std::to_string(header.version) + ", expected " +
            std::to_string(kUncalibrated) + " to " + std::to_string(kNearer));
  }
  if (header.dim != column.dim || header.type != static_cast<std::uint8_t>(column.type) ||
      header.distance != static_cast<std::uint8_t>(column.distance)) {
    corrupt("is for another column");
  }
  const std::uint32_t bits = options.m == 0 ? 8 : options.bits;
  const bool rotates = options.planes == 0 ? options.opq : options.rotate;
  if (header.m != options.m || header.bits != bits || header.opq != (rotates ? 1 : 0) ||
      header.planes != options.planes || header.listwise > 1 ||
      (header.version >= kShort && header.planes == 0) ||
      (header.version == kUncalibrated && header.calibration != 0)) {
    corrupt("is for other parameters");
  }
  if (header.lists == 0 || header.lists > (options.lists != 0 ? options.lists : kMostLists)) {
    corrupt("has " + std::to_string(header.lists) + " lists");
  }
  const bool may_be_listwise =
      options.has_codebooks() && column.distance != Distance::kInnerProduct;
  if (header.listwise != 0 && !may_be_listwise) corrupt("has tables for each list");
  const compute::IvfShape shape = shape_of(header);
  const bool grouped = version_of(shape) == kGrouped;
  if (header.groups > header.lists || grouped != (header.version == kGrouped)) {
    corrupt("has " + std::to_string(header.groups) + " groups of lists");
  }
  const ModelLayout layout(shape, header.opq != 0);
  if (bytes.size() < layout.size() || bytes.size() - layout.size() != header.calibration) {
    corrupt("has " + std::to_string(bytes.size()) + " bytes, expected " +
            std::to_string(layout.size() + header.calibration));
  }
  if (shape.groups != 0) check_groups(bytes.subspan(sizeof header), layout, shape);
  for (std::size_t i = 0; i < layout.end; ++i) {
    if (i == layout.group_begins) i = layout.mean;
    if (i == layout.end) break;
    float value;
    std::memcpy(&value, bytes.data() + sizeof header + i * sizeof value, sizeof value);
    if (!std::isfinite(value)) corrupt("holds a number that is not finite");
  }
}

// Refuses a model that would be refused when it is opened: it must not be kept, and vectors given
// up for it.
void require_finite(const IvfParts& parts) {
  for (const auto* values : {&parts.centroids, &parts.group_centroids, &parts.mean,
                             &parts.codebooks, &parts.rotation}) {
    if (std::all_of(values->begin(), values->end(), [](float x) { return std::isfinite(x); })) {
      continue;
    }
    throw Error(ErrorKind::kInvalid,
                "the vectors are too large to learn from: float32 cannot hold what follows");
  }
}

}  // namespace

std::shared_ptr<const InvertedModel> make_ivf_model(const ColumnShape& column,
                                                    const IvfParts& parts,
                                                    const Calibration& calibration) {
  require_finite(parts);
  const compute::IvfShape& shape = parts.shape;
  const bool opq = !parts.rotation.empty() || parts.rotated;
  const Bytes measured = calibration.bytes();
  const Header header{kMagic,
                      version_of(shape),
                      shape.dim,
                      shape.lists,
                      shape.m,
                      shape.bits,
                      static_cast<std::uint8_t>(column.distance),
                      static_cast<std::uint8_t>(column.type),
                      static_cast<std::uint8_t>(opq),
                      static_cast<std::uint8_t>(shape.planes),
                      parts.trained_on,
                      parts.table_rows,
                      measured.size(),
                      shape.groups,
                      shape.listwise};
  const ModelLayout layout(shape, opq);
  Bytes bytes(layout.size() + measured.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + layout.size(), measured.data(), measured.size());
  const auto put = [&](std::size_t at, const auto& values, std::size_t end) {
    static_assert(sizeof values[0] == sizeof(float));
    WARP_CHECK(values.size() == end - at);
    if (values.empty()) return;
    std::memcpy(bytes.data() + sizeof header + at * sizeof(float), values.data(),
                values.size() * sizeof(float));
  };
  put(0, parts.centroids, layout.group_centroids);
  put(layout.group_centroids, parts.group_centroids, layout.group_begins);
  put(layout.group_begins, parts.group_begins, layout.mean);
  put(layout.mean, parts.mean, layout.codebooks);
  put(layout.codebooks, parts.codebooks, layout.rotation);
  put(layout.rotation, parts.rotation, layout.end);
  return std::make_shared<IvfModel>(std::move(bytes));
}

std::shared_ptr<const InvertedModel> with_calibration(const InvertedModel& model,
                                                      const Calibration& calibration) {
  Header header;
  std::memcpy(&header, model.bytes().data(), sizeof header);
  const std::size_t learnt = ModelLayout(shape_of(header), header.opq != 0).size();
  const Bytes measured = calibration.bytes();
  header.version = std::max(header.version, kCalibrated);  // codes stay as they are
  header.calibration = measured.size();
  Bytes bytes(learnt + measured.size());
  std::memcpy(bytes.data(), model.bytes().data(), learnt);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + learnt, measured.data(), measured.size());
  return std::make_shared<IvfModel>(std::move(bytes));
}

std::shared_ptr<const Model> open_ivf_model(std::span<const std::byte> bytes,
                                            const ColumnShape& column, const IvfOptions& options) {
  check(bytes, column, options);
  Bytes copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  return std::make_shared<IvfModel>(std::move(copy));
}

}  // namespace warplite::index
