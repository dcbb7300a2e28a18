// Drawing, writing and checking models: lsh.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "index/clustering/model_space.h"
#include "index/lsh/layout.h"
#include "index/lsh/lsh.h"
#include "index/lsh/random.h"
#include "index/lsh/training.h"

namespace warplite::index {
namespace {

constexpr std::uint64_t kMagic = 0x6c65646f4d48534cu;  // "LSHModel"
constexpr std::uint32_t kVersion = 1;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorKind::kCorrupt, "the model of the index " + what);
}

double given_scale(const LshOptions& options) {
  return options.family == LshFamily::kRbh ? options.sigma : options.width;
}

// Returns the value as a float32 that is finite: a Cauchy number of a narrow width may be none.
float stored(double value, double least = -1e38) {
  return static_cast<float>(std::clamp(value, least, 1e38));
}

// Each function has numbers of its own, so that the first of many are those of few.
void draw_function(const LshOptions& options, const ColumnShape& column, double scale,
                   std::uint32_t function, float* factors, float* offsets) {
  LshRandom random(LshRandom(options.seed ^ std::uint64_t{function} << 32)());
  const auto offset = [&] { return static_cast<float>(random.uniform() - 0.5); };
  for (std::uint32_t d = 0; d < column.dim; ++d) {
    switch (options.family) {
      case LshFamily::kE2lsh:
        factors[d] = stored((column.distance == Distance::kL1 ? random.cauchy() : random.normal()) /
                            scale);
        break;
      case LshFamily::kRbh:
        factors[d] = stored(1 / random.gamma2(scale), 1e-37);
        offsets[d] = offset();
        break;
      case LshFamily::kSimhash: factors[d] = stored(random.normal()); break;
    }
  }
  if (options.family == LshFamily::kE2lsh) *offsets = offset();
}

// The rows of a sample that are of use, anywhere in it.
std::vector<float> sample_rows(const MatrixView& sample) {
  const std::vector<std::size_t> order =
      random_order(sample.rows, std::min(sample.rows, kLshSampleRows));
  Bytes gathered(order.size() * sample.stride());
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::memcpy(gathered.data() + i * sample.stride(), sample.row(order[i]), sample.stride());
  }
  std::vector<float> rows(order.size() * sample.dim);
  to_model_space({gathered.data(), order.size(), sample.dim, sample.type}, Distance::kL2, {},
                 rows.data());
  return rows;
}

void check_header(const LshHeader& header, const ColumnShape& column, const LshOptions& options) {
  if (header.magic != kMagic) corrupt("does not begin as a model does");
  if (header.version != kVersion) {
    corrupt("has version " + std::to_string(header.version) + ", expected " +
            std::to_string(kVersion));
  }
  if (header.dim != column.dim || header.type != static_cast<std::uint8_t>(column.type) ||
      header.distance != static_cast<std::uint8_t>(column.distance)) {
    corrupt("is for another column");
  }
  const double given = given_scale(options);
  if (header.family != static_cast<std::uint8_t>(options.family) || header.m != options.m ||
      header.buckets != options.buckets || header.seed != options.seed ||
      std::memcmp(&header.given, &given, sizeof given) != 0 || header.zero != 0 ||
      header.zeros[0] != 0 || header.zeros[1] != 0) {
    corrupt("is for other parameters");
  }
  const double known = options.family == LshFamily::kSimhash ? 1 : given;
  if (!std::isfinite(header.scale) || header.scale <= 0 ||
      (known != 0 && header.scale != known)) {
    corrupt("has a width of " + std::to_string(header.scale));
  }
}

}  // namespace

std::shared_ptr<const LshModel> train_lsh(const LshOptions& options, const ColumnShape& column,
                                          const MatrixView& sample, std::uint64_t table_rows) {
  WARP_CHECK(sample.dim == column.dim && sample.type == column.type);
  const std::vector<float> rows = sample_rows(sample);
  const double scale = lsh_scale(options, column.distance,
                                 {rows.data(), rows.size() / column.dim, column.dim});
  const LshHeader header{kMagic,
                         kVersion,
                         column.dim,
                         options.m,
                         options.buckets,
                         static_cast<std::uint8_t>(column.distance),
                         static_cast<std::uint8_t>(column.type),
                         static_cast<std::uint8_t>(options.family),
                         0,
                         options.seed,
                         given_scale(options),
                         scale,
                         sample.rows,
                         table_rows,
                         {0, 0}};
  const LshLayout layout = LshLayout::of(options.family, options.m, column.dim);
  Bytes bytes(layout.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  float* const factors = reinterpret_cast<float*>(bytes.data() + sizeof header);
  float* const offsets = factors + layout.factors;
  for (std::uint32_t i = 0; i < options.m; ++i) {
    draw_function(options, column, scale, i, factors + std::size_t{i} * column.dim,
                  offsets + i * (layout.offsets / options.m));
  }
  return std::make_shared<LshModel>(std::move(bytes));
}

std::shared_ptr<const LshModel> open_lsh(std::span<const std::byte> bytes,
                                         const ColumnShape& column, const LshOptions& options) {
  LshHeader header;
  if (bytes.size() < sizeof header) corrupt("has " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  check_header(header, column, options);
  const LshLayout layout = LshLayout::of(options.family, options.m, column.dim);
  if (bytes.size() != layout.size()) {
    corrupt("has " + std::to_string(bytes.size()) + " bytes, expected " +
            std::to_string(layout.size()));
  }
  Bytes copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  const float* const floats = reinterpret_cast<const float*>(copy.data() + sizeof header);
  for (std::size_t i = 0; i < layout.factors + layout.offsets; ++i) {
    if (!std::isfinite(floats[i])) corrupt("holds a number that is not finite");
    const bool binning = options.family == LshFamily::kRbh;
    if (i < layout.factors && binning && floats[i] <= 0) corrupt("holds a pitch below 0");
    if (i >= layout.factors && std::fabs(floats[i]) > 0.5f) corrupt("holds an offset beyond 1/2");
  }
  return std::make_shared<LshModel>(std::move(copy));
}

}  // namespace warplite::index
