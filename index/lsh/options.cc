#include "index/lsh/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "compute/spelling.h"
#include "index/lsh/layout.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kMostFunctions = 65536;
constexpr std::uint32_t kMostBuckets = 1u << 20;
constexpr std::uint32_t kMostRefine = 10000;
// These limits keep a model, and the codes of 65,536 rows, within what SQLite takes as one value.
constexpr std::size_t kMostRowBytes = 8192;
constexpr std::size_t kMostModelBytes = std::size_t{512} << 20;
constexpr double kDefaultError = 0.06;  // epsilon and delta
constexpr double kWorstSimilarity = 0.49;

constexpr LshFamily kFamilies[] = {LshFamily::kE2lsh, LshFamily::kRbh, LshFamily::kSimhash};

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kInvalid, "index=lsh " + what);
}

// Takes parameters out of a spec; those that are left are unknown.
class Parameters {
 public:
  explicit Parameters(const Spec& spec) : left_(spec.parameters) {}

  std::optional<std::string> text(const std::string& name) {
    known_ += (known_.empty() ? "" : ", ") + name;
    const auto given = left_.find(name);
    if (given == left_.end()) return std::nullopt;
    std::string value = std::move(given->second);
    left_.erase(given);
    return value;
  }

  std::optional<std::uint32_t> whole(const std::string& name, std::uint32_t low,
                                     std::uint32_t high) {
    return number<std::uint32_t>(
        name, std::to_string(low) + " to " + std::to_string(high),
        [=](std::uint32_t value) { return value >= low && value <= high; });
  }
  std::optional<double> share(const std::string& name, const std::string& least, double low) {
    return number<double>(name, "a number from " + least + " to 0.5",
                          [=](double value) { return value >= low && value <= 0.5; });
  }
  std::optional<double> positive(const std::string& name) {
    return number<double>(name, "a number from 1e-30 to 1e30",
                          [](double value) { return value >= 1e-30 && value <= 1e30; });
  }
  void finish(LshFamily family) const {
    if (left_.empty()) return;
    fail("with family=" + std::string(name(family)) + " takes the parameters " + known_ +
         ", but \"" + left_.begin()->first + "\" was given" +
         compute::did_you_mean(left_.begin()->first, known_));
  }

 private:
  template <class Number, class Accept>
  std::optional<Number> number(const std::string& name, const std::string& expected,
                               const Accept& accept) {
    const std::optional<std::string> given = text(name);
    if (!given) return std::nullopt;
    Number value{};
    const char* end = given->data() + given->size();
    const auto result = std::from_chars(given->data(), end, value);
    if (result.ec != std::errc() || result.ptr != end || !accept(value)) {
      fail("expects " + name + "=" + expected + ", but \"" + *given + "\" was given");
    }
    return value;
  }

  std::map<std::string, std::string> left_;
  std::string known_;
};

bool serves(LshFamily family, Distance distance) {
  switch (family) {
    case LshFamily::kE2lsh: return distance == Distance::kL2 || distance == Distance::kL1;
    case LshFamily::kRbh: return distance == Distance::kL1;
    case LshFamily::kSimhash: return distance == Distance::kCosine;
  }
  return false;
}

LshFamily parse_family(Parameters& parameters, const ColumnShape& column) {
  const std::string distance(info(column.distance).name);
  const std::optional<std::string> given = parameters.text("family");
  for (const LshFamily family : kFamilies) {
    if (given ? *given != name(family) : !serves(family, column.distance)) continue;
    if (serves(family, column.distance)) return family;
    fail("with family=" + *given + " needs distance=" +
         distances_listed([&](const DistanceInfo& row) { return serves(family, row.distance); }) +
         ", but distance=" + distance + " was given");
  }
  if (given) fail("expects family=e2lsh, rbh or simhash, but \"" + *given + "\" was given");
  const auto served = [](const DistanceInfo& row) {
    return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                       [&](LshFamily family) { return serves(family, row.distance); });
  };
  fail("needs distance=" + distances_listed(served) + ", but distance=" + distance + " was given");
}

std::uint32_t parse_functions(Parameters& parameters) {
  const std::optional<std::uint32_t> m = parameters.whole("m", 1, kMostFunctions);
  const std::optional<double> epsilon = parameters.share("epsilon", "0.001", 1e-3);
  const std::optional<double> delta = parameters.share("delta", "0.000001", 1e-6);
  if (m && (epsilon || delta)) {
    fail("expects m, or epsilon and delta, but m=" + std::to_string(*m) + " and " +
         (epsilon ? "epsilon" : "delta") + " were given");
  }
  if (m) return *m;
  const std::uint32_t needed =
      functions_for(epsilon.value_or(kDefaultError), delta.value_or(kDefaultError));
  if (needed == 0) {
    fail("expects an epsilon and a delta that " + std::to_string(kMostFunctions) +
         " functions can meet, but smaller ones were given");
  }
  return needed;
}

void check_size(const LshOptions& options, const ColumnShape& column) {
  const std::size_t each = signature_bytes(options.family, options.m, options.buckets);
  const std::string asked = "with m=" + std::to_string(options.m);
  if (each > kMostRowBytes) {
    fail(asked + " and buckets=" + std::to_string(options.buckets) + " takes " +
         std::to_string(each) + " bytes a row, at most " + std::to_string(kMostRowBytes) +
         " are possible");
  }
  const std::size_t model = LshLayout::of(options.family, options.m, column.dim).size();
  if (model > kMostModelBytes) {
    fail(asked + " takes " + std::to_string(model >> 20) + " MiB of random numbers for " +
         std::to_string(column.dim) + " dimensions, at most " +
         std::to_string(kMostModelBytes >> 20) + " are possible");
  }
}

}  // namespace

std::string_view name(LshFamily family) {
  switch (family) {
    case LshFamily::kE2lsh: return "e2lsh";
    case LshFamily::kRbh: return "rbh";
    case LshFamily::kSimhash: return "simhash";
  }
  return "";
}

LshOptions parse_lsh(const Spec& spec, const ColumnShape& column) {
  if (is_bits(column.type)) {
    fail("needs " + element_types_listed([](ElementType type) { return !is_bits(type); }) +
         " vectors, but the column holds BIT");
  }
  Parameters parameters(spec);
  LshOptions options;
  options.family = parse_family(parameters, column);
  options.m = parse_functions(parameters);
  if (options.family == LshFamily::kSimhash) {
    options.buckets = 2;
  } else {
    options.buckets = parameters.whole("buckets", 2, kMostBuckets).value_or(options.buckets);
  }
  if (options.family == LshFamily::kE2lsh) options.width = parameters.positive("width").value_or(0);
  if (options.family == LshFamily::kRbh) options.sigma = parameters.positive("sigma").value_or(0);
  options.seed = parameters.whole("seed", 0, 0xffffffffu).value_or(0);
  options.refine = parameters.whole("refine", 0, kMostRefine)
                       .value_or(static_cast<std::uint32_t>(options.refine));
  parameters.finish(options.family);
  check_size(options, column);
  return options;
}

namespace {

// ln(0!) … ln(n!)
std::vector<double> log_factorials(std::uint32_t n) {
  std::vector<double> logs(std::size_t{n} + 1, 0.0);
  for (std::uint32_t i = 1; i <= n; ++i) logs[i] = logs[i - 1] + std::log(i);
  return logs;
}

double probability(const std::vector<double>& logs, std::uint32_t m, double s, double epsilon) {
  constexpr double kSlack = 1e-9;  // s ± epsilon are decimals: (0.49 + 0.06) · 100 is 55
  const double low = std::max(0.0, std::ceil((s - epsilon) * m - kSlack));
  const double high = std::min<double>(m, std::floor((s + epsilon) * m + kSlack));
  const double log_s = std::log(s), log_rest = std::log1p(-s);
  double sum = 0;
  for (double c = low; c <= high; ++c) {
    const auto i = static_cast<std::size_t>(c);
    sum += std::exp(logs[m] - logs[i] - logs[m - i] + c * log_s + (m - c) * log_rest);
  }
  return sum;
}

}  // namespace

double estimate_probability(std::uint32_t m, double s, double epsilon) {
  if (s <= 0 || s >= 1) return 1;
  return probability(log_factorials(m), m, s, epsilon);
}

std::uint32_t functions_for(double epsilon, double delta) {
  const std::vector<double> logs = log_factorials(kMostFunctions);
  for (std::uint32_t m = 1; m <= kMostFunctions; ++m) {
    if (probability(logs, m, kWorstSimilarity, epsilon) >= 1 - delta) return m;
  }
  return 0;
}

}  // namespace warplite::index
