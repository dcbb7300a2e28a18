#include "index/recall/calibration.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <ranges>
#include <string>

namespace warplite::index {
namespace {

static_assert(std::endian::native == std::endian::little, "stored bytes are little-endian");

constexpr std::uint32_t kVersion = 4;
constexpr std::uint32_t kUndated = 1;     // the version that does not say when it was measured,
constexpr std::uint32_t kSpreadless = 2;  // the one that says so, but not how rows spread,
constexpr std::uint32_t kContrastless = 3;  // and the one that does not tell queries apart
constexpr float kFall = 0.02f;         // of recall, that is worth a training
constexpr float kErrors = 2;
constexpr float kLeastPart = 1e-6f;
constexpr std::uint32_t kContrastSteps = compute::ContrastSteps::kLimits + 1;
constexpr std::uint32_t kMostShares = 64, kMostLooks = 256;
constexpr std::uint32_t kMostLook = 1u << 20;  // lists there can be, and candidates of use

struct Header {
  std::uint32_t version, shares, probes, code_shares, refines;
};
struct Dated {
  Found trained, present;
  std::uint32_t usual_nprobe;
  std::uint32_t rows[2], next_segment[2];  // low halves first
};
static_assert(sizeof(Dated) == 36);

void put(std::uint64_t value, std::uint32_t (&halves)[2]) {
  halves[0] = static_cast<std::uint32_t>(value);
  halves[1] = static_cast<std::uint32_t>(value >> 32);
}
std::uint64_t number(const std::uint32_t (&halves)[2]) {
  return halves[0] | std::uint64_t{halves[1]} << 32;
}

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorKind::kCorrupt, "what the model of the index says of recall " + what);
}

template <class T>
void append(std::vector<std::byte>& out, const std::vector<T>& values) {
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  out.insert(out.end(), data, data + values.size() * sizeof(T));
}

// Takes values off the front. REQUIRES: they are there.
template <class T>
void take(std::span<const std::byte>& from, std::size_t count, std::vector<T>& out) {
  out.resize(count);
  if (count != 0) std::memcpy(out.data(), from.data(), count * sizeof(T));
  from = from.subspan(count * sizeof(T));
}

std::size_t table_size(std::size_t shares, std::size_t looks) {
  return shares * sizeof(float) + looks * sizeof(std::uint32_t) + shares * looks * sizeof(Found);
}

Calibration::Table take_table(std::span<const std::byte>& from, std::size_t shares,
                              std::size_t looks) {
  Calibration::Table table;
  take(from, shares, table.shares);
  take(from, looks, table.looks);
  take(from, shares * looks, table.found);
  return table;
}

// The values of a part that may be missing, which says so itself: a number, and so many values then.
std::span<const std::byte> take_part(std::span<const std::byte>& from, std::uint32_t& number,
                                     std::uint32_t most, const auto& values) {
  std::vector<std::uint32_t> numbers;
  if (from.size() < sizeof number) corrupt("is too short");
  take(from, 1, numbers);
  number = numbers[0];
  const std::size_t size = number == 0 ? 0 : values(number) * sizeof(float);
  if (number > most || from.size() < size) {
    corrupt("has " + std::to_string(from.size()) + " bytes left, expected " + std::to_string(size));
  }
  const std::span<const std::byte> part = from.first(size);
  from = from.subspan(size);
  return part;
}

// The number of lists is that of the radii.
Spread take_spread(std::span<const std::byte>& from) {
  std::uint32_t lists;
  std::span<const std::byte> part = take_part(
      from, lists, kMostLook, [](std::size_t n) { return n + Spread::kSteps; });
  Spread spread;
  if (lists == 0) return spread;
  take(part, lists, spread.radii);
  take(part, Spread::kSteps, spread.parts);
  return spread;
}

Calibration::Contrasts take_contrasts(std::span<const std::byte>& from, const Calibration::Table& lists,
                                      const Calibration::Table& codes) {
  Calibration::Contrasts contrasts;
  const std::size_t found = lists.found.size() + codes.found.size();
  std::uint32_t steps;
  std::span<const std::byte> part = take_part(from, steps, kContrastSteps, [&](std::size_t n) {
    return 2 * n - 1 + n * found * (sizeof(Found) / sizeof(float));
  });
  if (steps == 0) return contrasts;
  if (steps != kContrastSteps) corrupt("has " + std::to_string(steps) + " steps of contrast");
  std::vector<float> values;
  take(part, contrasts.limits.size() + contrasts.parts.size(), values);
  std::copy_n(values.begin(), contrasts.limits.size(), contrasts.limits.begin());
  std::copy_n(values.begin() + contrasts.limits.size(), contrasts.parts.size(), contrasts.parts.begin());
  contrasts.lists.assign(steps, lists);
  contrasts.codes.assign(steps, codes);
  for (Calibration::Table& table : contrasts.lists) take(part, lists.found.size(), table.found);
  for (Calibration::Table& table : contrasts.codes) take(part, codes.found.size(), table.found);
  return contrasts;
}

template <class T>
bool ascends(const std::vector<T>& values) {
  return std::adjacent_find(values.begin(), values.end(), [](T a, T b) { return !(a < b); }) ==
         values.end();
}

bool can_be(const Found& found) {
  return found.part >= 0 && found.part <= 1 && found.error >= 0 && found.error <= 1;
}

void take_date(std::span<const std::byte>& from, Calibration& to) {
  std::vector<Dated> dated;
  take(from, 1, dated);
  to.trained = dated[0].trained;
  to.present = dated[0].present;
  to.usual_nprobe = dated[0].usual_nprobe;
  to.table = {number(dated[0].rows), static_cast<std::int64_t>(number(dated[0].next_segment))};
  if (!can_be(to.trained) || !can_be(to.present) || to.usual_nprobe > kMostLook ||
      to.table.next_segment < 0) {
    corrupt("was at a time that cannot be");
  }
}

void check(const Calibration::Table& table) {
  const auto share = [](float x) { return x > 0 && x <= 1; };
  if (!std::all_of(table.shares.begin(), table.shares.end(), share) || !ascends(table.shares)) {
    corrupt("is of shares that cannot be");
  }
  const bool looks =
      table.looks.empty() || (table.looks.front() > 0 && table.looks.back() <= kMostLook);
  if (!looks || !ascends(table.looks)) {
    corrupt("is of searches that cannot be");
  }
  if (!std::all_of(table.found.begin(), table.found.end(), can_be)) {
    corrupt("is no part of all rows");
  }
}

void check(const Spread& spread) {
  const auto radius = [](float x) { return x >= 0 && std::isfinite(x); };
  const auto part = [](float x) { return x >= 0 && x <= 1; };
  if (!std::ranges::all_of(spread.radii, radius) || !std::ranges::all_of(spread.parts, part) ||
      !std::ranges::is_sorted(spread.parts)) {
    corrupt("is of lists that cannot be");
  }
}

void check(const Calibration::Contrasts& contrasts) {
  const auto limit = [](float x) { return x >= 0 && std::isfinite(x); };
  const auto part = [](float x) { return x >= 0 && x <= 1; };
  if (!std::ranges::all_of(contrasts.limits, limit) || !std::ranges::all_of(contrasts.parts, part) ||
      !std::ranges::is_sorted(contrasts.limits, std::greater())) {
    corrupt("is of contrasts that cannot be");
  }
  const float all = std::accumulate(contrasts.parts.begin(), contrasts.parts.end(), 0.0f);
  if (contrasts.known() && std::fabs(all - 1) > 0.01f) corrupt("is of contrasts that are not all");
  for (const Calibration::Table& table : contrasts.lists) check(table);
  for (const Calibration::Table& table : contrasts.codes) check(table);
}

// Where x lies in what ascends: between `below` and `below` + 1, at `part` of the way; or at
// `below`.
struct Place {
  std::size_t below;
  double part;
};
template <class T, class Scale>
Place place(const std::vector<T>& values, double x, const Scale& scale) {
  const auto above = std::upper_bound(values.begin(), values.end(), x,
                                      [](double a, T b) { return a < static_cast<double>(b); });
  if (above == values.begin()) return {0, 0};
  const auto below = static_cast<std::size_t>(above - values.begin()) - 1;
  if (above == values.end()) return {below, 0};
  const double low = scale(static_cast<double>(values[below]));
  return {below, (scale(x) - low) / (scale(static_cast<double>(*above)) - low)};
}

Found between(const Found& a, const Found& b, double part) {
  const auto mix = [part](float x, float y) {
    return static_cast<float>(static_cast<double>(x) * (1 - part) + static_cast<double>(y) * part);
  };
  return {mix(a.part, b.part), mix(a.error, b.error)};
}

// As by_codes() has it.
Found of_codes(const Calibration::Table& codes, double share, std::size_t k, std::size_t refine) {
  if (codes.shares.empty()) return {};
  // The least share that was measured is that of one row.
  constexpr double kLessRows = 4;
  const double of_k = static_cast<double>(k) / kLessRows * static_cast<double>(codes.shares.front());
  const double most = static_cast<double>(codes.shares.back());
  return codes.at(std::min(std::max(share, of_k), most),
                  static_cast<double>(std::max<std::size_t>(refine, 1)));
}

}  // namespace

Expected::Expected(const Found& lists, const Found& codes) {
  const double a = lists.part, b = codes.part;
  recall = a * b;
  error = std::hypot(static_cast<double>(lists.error) * b, static_cast<double>(codes.error) * a);
}

Found Calibration::by_codes(double share, std::size_t k, std::size_t refine,
                            std::optional<std::size_t> step) const {
  return of_codes(step ? contrasts.codes[*step] : codes, share, k, refine);
}

bool Calibration::fell() const {
  const auto known = [](const Found& found) { return found.error < 1; };
  const float chance = kErrors * std::hypot(trained.error, present.error);
  return known(trained) && known(present) &&
         trained.part - present.part > std::max(kFall, chance);
}

Found Calibration::Table::at(double share, double look) const {
  if (shares.empty() || looks.empty() || share > static_cast<double>(shares.back())) return {};
  if (look < static_cast<double>(looks.front())) return {};
  const Place s = place(shares, share, [](double x) { return std::log(x); });
  const Place l = place(looks, look, [](double x) { return x; });
  const auto along = [&](std::size_t row) {
    const Found* const of = &found[row * looks.size()];
    return l.part == 0 ? of[l.below] : between(of[l.below], of[l.below + 1], l.part);
  };
  return s.part == 0 ? along(s.below) : between(along(s.below), along(s.below + 1), s.part);
}

std::vector<Found> Calibration::Table::along(double share) const {
  const Place s = place(shares, share, [](double x) { return std::log(x); });
  std::vector<Found> out(looks.size());
  for (std::size_t look = 0; look < looks.size(); ++look) {
    const Found& low = found[s.below * looks.size() + look];
    out[look] =
        s.part == 0 ? low : between(low, found[(s.below + 1) * looks.size() + look], s.part);
  }
  return out;
}

void Calibration::Table::take_less(const Table& other) {
  constexpr float kChance = 3;  // standard errors
  const auto least = [](const Found& one) { return one.part - kErrors * one.error; };
  std::vector<Found> less = found;
  bool differs = false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Found& mine = found[i];
    const Found& its = other.found[i];
    differs = differs || mine.part - its.part > kChance * std::hypot(mine.error, its.error);
    if (least(its) < least(mine)) less[i] = its;
  }
  if (differs) found = std::move(less);
}

std::optional<compute::ContrastSteps> Calibration::by_contrast(double share, std::size_t k,
                                                               std::uint32_t nprobe, std::size_t refine,
                                                               bool with_codes) const {
  compute::ContrastSteps steps;
  const std::uint32_t most = lists.looks.empty() ? 0 : lists.looks.back();
  if (!contrasts.known() || share > static_cast<double>(lists.shares.back()) || nprobe >= most ||
      most <= compute::ContrastSteps::kPlace + 1) {
    return steps;
  }
  steps.limits = contrasts.limits;
  const bool coded = with_codes && !codes.shares.empty();
  const float of_all = coded ? by_codes(share, k, refine).part : 1;
  // Lists of half the usual rows hold as many as are wanted.
  constexpr double kRoom = 2;
  auto least = static_cast<std::uint32_t>(std::clamp(std::ceil(kRoom * share * most), 1.0, most - 1.0));
  for (std::size_t step = 0; step < contrasts.lists.size(); ++step) {
    float wanted = lists.at(share, nprobe).part;
    if (coded) {
      // What codes lose of few queries is not known as well as what they lose of all.
      const Found of_step = by_codes(share, k, refine, step);
      const float possible = std::min(of_all, of_step.part + of_step.error);
      wanted *= of_all / std::max({of_step.part, possible, kLeastPart});
    }
    const auto looks = std::views::iota(least, most);
    const auto first = std::ranges::partition_point(looks, [&](std::uint32_t look) {
      return contrasts.lists[step].at(share, look).part < wanted;
    });
    if (first == looks.end()) return {};
    least = steps.nprobe[step] = *first;
  }
  return steps.nprobe[0] == least ? compute::ContrastSteps() : steps;
}

double Calibration::Contrasts::mean(const compute::ContrastSteps& steps) const {
  return std::inner_product(parts.begin(), parts.end(), steps.nprobe.begin(), 0.0);
}

Bytes Calibration::bytes() const {
  const auto count = [](const auto& values) { return static_cast<std::uint32_t>(values.size()); };
  std::vector<std::byte> out;
  append(out, std::vector<std::uint32_t>{kVersion, count(lists.shares), count(lists.looks),
                                         count(codes.shares), count(codes.looks)});
  Dated dated{trained, present, usual_nprobe, {}, {}};
  put(table.rows, dated.rows);
  put(static_cast<std::uint64_t>(table.next_segment), dated.next_segment);
  append(out, std::vector<Dated>{dated});
  for (const Table* one : {&lists, &codes}) {
    append(out, one->shares);
    append(out, one->looks);
    append(out, one->found);
  }
  append(out, std::vector<std::uint32_t>{count(spread.radii)});
  append(out, spread.radii);
  append(out, spread.parts);
  append(out, std::vector<std::uint32_t>{count(contrasts.lists)});
  if (contrasts.known()) {
    append(out, std::vector(contrasts.limits.begin(), contrasts.limits.end()));
    append(out, std::vector(contrasts.parts.begin(), contrasts.parts.end()));
  }
  for (const Table& one : contrasts.lists) append(out, one.found);
  for (const Table& one : contrasts.codes) append(out, one.found);
  Bytes bytes(out.size());
  std::memcpy(bytes.data(), out.data(), out.size());
  return bytes;
}

Calibration Calibration::read(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) corrupt("has " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version < kUndated || header.version > kVersion) {
    corrupt("has version " + std::to_string(header.version) + ", expected " +
            std::to_string(kUndated) + " to " + std::to_string(kVersion));
  }
  if (std::max(header.shares, header.code_shares) > kMostShares ||
      std::max(header.probes, header.refines) > kMostLooks) {
    corrupt("claims more than is ever measured");
  }
  const std::size_t dated = header.version == kUndated ? 0 : sizeof(Dated);
  const std::size_t size = sizeof header + dated + table_size(header.shares, header.probes) +
                           table_size(header.code_shares, header.refines);
  const bool spreads = header.version > kSpreadless;
  if (spreads ? bytes.size() < size : bytes.size() != size) {
    corrupt("has " + std::to_string(bytes.size()) + " bytes, expected " + std::to_string(size));
  }
  std::span<const std::byte> rest = bytes.subspan(sizeof header);
  Calibration calibration;
  if (dated != 0) take_date(rest, calibration);
  calibration.lists = take_table(rest, header.shares, header.probes);
  calibration.codes = take_table(rest, header.code_shares, header.refines);
  check(calibration.lists);
  check(calibration.codes);
  if (spreads) calibration.spread = take_spread(rest);
  if (header.version > kContrastless) calibration.contrasts = take_contrasts(rest, calibration.lists, calibration.codes);
  if (!rest.empty()) corrupt("has " + std::to_string(rest.size()) + " bytes more than it says");
  check(calibration.spread);
  check(calibration.contrasts);
  return calibration;
}

}  // namespace warplite::index
