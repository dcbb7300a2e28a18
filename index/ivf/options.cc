#include "index/ivf/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "compute/rabitq.h"
#include "compute/spelling.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kMostRefine = 10000;
constexpr std::uint32_t kDefaultRefine = 8;  // where vectors are kept
constexpr double kDefaultRecall = 0.95;  // of index=approximate
constexpr std::uint32_t kDefaultPlanes = 4;
constexpr std::uint32_t kFewestGroupedLists = 512;  // with RaBitQ codes
// The same of others, since GPUs serve only models without groups. Batches of queries compare 65,536
// centroids in 83 us a query at 32 dimensions, 119 at 64 and 198 at 128; in groups they take 110 to 136.
constexpr std::uint32_t kFewestGroupedOthers = 50000;
constexpr std::uint64_t kFewestGroupedElements = 3000000;
constexpr std::uint64_t kRowsPerList = 32;  // at least, where the lists are ours to choose

[[noreturn]] void fail(const Spec& spec, const std::string& what) {
  throw Error(ErrorKind::kInvalid, "index=" + spec.kind + " " + what);
}

// Takes parameters out of a spec; those that are left are unknown.
class Parameters {
 public:
  explicit Parameters(const Spec& spec) : spec_(spec), left_(spec.parameters) {}

  // The number of `name`, which `accept` takes; none when it is not given.
  template <typename Number, typename Accept>
  std::optional<Number> given(const std::string& name, const std::string& expected,
                              const Accept& accept) {
    known_ += (known_.empty() ? "" : ", ") + name;
    const auto given = left_.find(name);
    if (given == left_.end()) return std::nullopt;
    const std::string text = given->second;
    left_.erase(given);
    Number value = 0;
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end || !accept(value)) {
      fail(spec_, "expects " + name + "=" + expected + ", but \"" + text + "\" was given");
    }
    return value;
  }
  template <typename Accept>
  std::uint32_t number(const std::string& name, std::uint32_t otherwise,
                       const std::string& expected, const Accept& accept) {
    return given<std::uint32_t>(name, expected, accept).value_or(otherwise);
  }
  std::uint32_t between(const std::string& name, std::uint32_t low, std::uint32_t high,
                        std::uint32_t otherwise) {
    return number(name, otherwise, std::to_string(low) + " to " + std::to_string(high),
                  [=](std::uint32_t value) { return value >= low && value <= high; });
  }
  void finish() const {
    if (left_.empty()) return;
    fail(spec_, "takes the parameters " + known_ + ", but \"" + left_.begin()->first +
                    "\" was given" + compute::did_you_mean(left_.begin()->first, known_));
  }

 private:
  const Spec& spec_;
  std::map<std::string, std::string> left_;
  std::string known_;
};

void check_column(const Spec& spec, const ColumnShape& column) {
  if (is_bits(column.type)) {
    fail(spec, "needs " + element_types_listed([](ElementType type) { return !is_bits(type); }) +
                   " vectors, but the column holds BIT");
  }
  if (info(column.distance).product) return;
  fail(spec, "needs distance=" +
                 distances_listed([](const DistanceInfo& row) { return row.product; }) +
                 ", but distance=" + std::string(info(column.distance).name) + " was given");
}

void parse_recall(Parameters& parameters, IvfOptions* options) {
  options->recall = parameters.given<double>("recall", "a number above 0 and up to 1",
                                             [](double value) { return value > 0 && value <= 1; });
}

void parse_lists(Parameters& parameters, IvfOptions* options) {
  options->lists = parameters.between("lists", 1, kMostLists, 0);
  const std::uint32_t most = options->lists == 0 ? kMostLists : options->lists;
  options->nprobe = parameters.between("nprobe", 1, most, 0);
  parse_recall(parameters, options);
}

void parse_refine(const Spec& spec, const ColumnShape& column, std::uint32_t otherwise,
                  Parameters& parameters, IvfOptions* options) {
  const bool kept = !column.codes_only;
  options->refine = parameters.between("refine", 0, kMostRefine, kept ? otherwise : 0);
  if (kept || options->refine == 0) return;
  fail(spec, "expects refine=0 with store=codes, which keeps no vectors to refine with, but "
             "refine=" + std::to_string(options->refine) + " was given");
}

// What few bits a dimension say needs more of the vectors to be looked at.
std::uint32_t rabitq_refine(std::uint32_t planes) {
  constexpr std::uint32_t kOfFour = 3;
  return planes == 1 ? 4 * kOfFour : planes < 4 ? 2 * kOfFour : kOfFour;
}

// Returns the divisor of dim that makes sub-spaces whose size is nearest to the wanted one.
std::uint32_t default_m(std::uint32_t dim, std::uint32_t bits) {
  const double wanted = (dim <= 256 ? 4.0 : 8.0) * bits / 8;
  std::uint32_t best = dim;
  for (std::uint32_t m = dim; m >= 1; --m) {
    if (dim % m != 0) continue;
    const auto off = [&](std::uint32_t n) { return std::fabs(std::log(dim / wanted / n)); };
    if (off(m) < off(best)) best = m;
  }
  return best;
}

}  // namespace

IvfOptions parse_ivfflat(const Spec& spec, const ColumnShape& column) {
  check_column(spec, column);
  IvfOptions options;
  Parameters parameters(spec);
  parse_lists(parameters, &options);
  parameters.finish();
  return options;
}

IvfOptions parse_ivfpq(const Spec& spec, const ColumnShape& column) {
  check_column(spec, column);
  IvfOptions options;
  Parameters parameters(spec);
  parse_lists(parameters, &options);
  const std::uint32_t dim = column.dim;
  options.bits = parameters.number("bits", 8, "8 or 4",
                                   [](std::uint32_t bits) { return bits == 8 || bits == 4; });
  options.m = parameters.number("m", default_m(dim, options.bits),
                                "a divisor of " + std::to_string(dim),
                                [=](std::uint32_t m) { return m != 0 && dim % m == 0; });
  options.opq = parameters.between("opq", 0, 1, 0) != 0;
  parse_refine(spec, column, kDefaultRefine, parameters, &options);
  parameters.finish();
  return options;
}

IvfOptions parse_ivfrabitq(const Spec& spec, const ColumnShape& column) {
  check_column(spec, column);
  IvfOptions options;
  Parameters parameters(spec);
  parse_lists(parameters, &options);
  options.planes = parameters.between("bits", 1, compute::kMostPlanes, kDefaultPlanes);
  options.rotate = parameters.between("rotate", 0, 1, 1) != 0;
  options.m = (column.dim + compute::kRabitqDims - 1) / compute::kRabitqDims;
  options.bits = 4;
  parse_refine(spec, column, rabitq_refine(options.planes), parameters, &options);
  parameters.finish();
  return options;
}

IvfOptions parse_approximate(const Spec& spec, const ColumnShape& column) {
  IvfOptions options;
  Parameters parameters(spec);
  parse_recall(parameters, &options);
  parameters.finish();
  if (!options.recall) options.recall = kDefaultRecall;
  // Codes are to be small beside the elements.
  const std::size_t element = bytes_per_vector(column.type, 8) / 8;
  options.planes = element == 1 ? 2 : element == 2 ? 3 : kDefaultPlanes;
  options.rotate = true;
  options.m = (column.dim + compute::kRabitqDims - 1) / compute::kRabitqDims;
  options.bits = 4;
  options.refine = rabitq_refine(options.planes);
  return options;
}

std::uint32_t lists_for(const IvfOptions& options, std::uint64_t rows) {
  if (options.lists != 0) return options.lists;
  // Measured with RaBitQ codes on 640,000 image descriptors: at a recall of 0.95 a query takes 65 us with
  // 1,800 lists, 66 with 2,400, 70 with 3,198 and 75 with 5,000; at 0.99 131, 134, 139 and 160, and 143 with
  // 1,200. Whole vectors cost more than codes, and fewer of them are in shorter lists.
  const double factor = options.planes != 0 ? 2.5 : 4;
  const double wanted = std::round(factor * std::sqrt(static_cast<double>(rows)));
  const std::uint64_t most = std::clamp<std::uint64_t>(rows / kRowsPerList, 1, kMostLists);
  return static_cast<std::uint32_t>(std::clamp<double>(wanted, 1, static_cast<double>(most)));
}

std::uint32_t groups_for(const IvfOptions& options, std::uint32_t dim, std::uint32_t lists) {
  const bool many = options.planes != 0 ? lists >= kFewestGroupedLists
                                        : lists >= kFewestGroupedOthers &&
                                              std::uint64_t{lists} * dim >= kFewestGroupedElements;
  if (!many) return 0;
  return static_cast<std::uint32_t>(std::lround(std::sqrt(lists) / 2));
}

}  // namespace warplite::index
