// Inverted files with and without product quantisation, as devices search them: what is resident,
// what a search asks, and every step of its arithmetic, so that devices nominate the same rows.
// papers/faiss-gpu-2017 §2 (IVFADC), §5.2-5.3.
//
// Model space. Vectors are compared with the model as float32 vectors x: the stored elements
// converted; for cosine divided by their norm; with OPQ rotated (index/ does this). They are
// finite, as models are; of others nothing is asked but that a device outlives them.
// A row belongs to the list of its nearest centroid C (canonical l2, ties to the lower list). Its
// residual r = x − C is coded: m sub-vectors, of each the codeword c that is nearest.
// With r̂ for the decoded residual and μ for the model's mean,
//   ‖y − C − r̂‖² = ‖y − C‖² + [‖r̂‖² + 2(C − μ)·r̂] − 2(y − μ)·r̂
//                    per list       bias, per row         tables, per query alone
//   −y·(C + r̂)   = −y·C − y·r̂     (ip: the bias is 0 and μ is not used)
// so tables do not depend on the list, unlike those of §5.3, and a list costs nothing to begin.
// Where lists are far apart and their rows near each other, y − μ is far larger than what tells
// rows of a list apart, and 8 bits do not hold both. With IvfShape::listwise (l2 and cosine) μ is
// not used, and each list has tables of its own:
//   ‖y − C − r̂‖² = ‖y − C‖² + ‖r̂‖² − 2(y − C)·r̂
//                    per list   bias   tables, per query and list
//
// Arithmetic: float32, each operation rounded by itself, never fused, in this order:
//   z_i = y_i − μ_i (ip: y_i; listwise: y_i − C_i);  t[s][j] = ((0 + z_0·c_0) + z_1·c_1) + … over sub-space s
//   T[s][j] = −2·t (ip: −t);  low_s = min_j T;  step = max_s(max_j T − low_s) / 255, 1 if that is 0
//   T8[s][j] = min(255, ⌊(T − low_s) / step + 0.5⌋), an IEEE division;  offset = ((low_0 + low_1) + …)
//   a(list) = (float)D + offset,  D = d·d of the canonical l2 distance d of y and C (ip: −y·C)
//   score(row) = (step · (float)Σ_s T8[s][code_s] + bias) + a
// Where float32 overflows: low_s and max_j leave NaN out, T8 of NaN is 255, a score that is NaN
// counts as +∞. No score is −0.
// Lists probed: the nprobe nearest centroids by (canonical distance, list): l2 in model space for
// l2 and cosine, ip for ip. With IvfShape::groups they are sought among
// IvfShape::coarse_candidates() lists alone, the best by (score, list) of their codes (rabitq.h,
// "Lists probed"), which are of query and centroids rotated at random (host/rotation.h), and so are the
// centroids of groups. Candidates are ordered by (score, ordinal), the ordinal being the row's
// position among all blocks of all runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/ops.h"
#include "compute/rabitq.h"
#include "core/distance.h"
#include "core/types.h"

namespace warplite::compute {

class Buffer;

// m == 0: lists of whole vectors (ivfflat); nothing is coded.
struct IvfShape {
  std::uint32_t dim = 0;
  std::uint32_t lists = 0;
  std::uint32_t m = 0;     // sub-spaces; divides dim, unless planes != 0
  std::uint32_t bits = 8;  // of a code: 8 or 4
  // Not 0: RaBitQ codes of so many bits a dimension (rabitq.h); then m = ⌈dim / 4⌉ and bits = 4.
  std::uint32_t planes = 0;
  std::uint32_t groups = 0;  // of lists; 0: none
  bool listwise = false;     // each list has tables of its own; only with codebooks

  // Of the lists themselves, as they are looked for.
  constexpr IvfShape coarse() const {
    return {dim, groups, (dim + kRabitqDims - 1) / kRabitqDims, 4, kCoarsePlanes, 0};
  }
  // How many lists are taken by their codes, where nprobe are wanted.
  constexpr std::uint32_t coarse_candidates(std::uint32_t nprobe) const {
    const std::uint32_t wanted = planes != 0 ? nprobe : nprobe + nprobe / 2 + 8;
    return wanted < lists ? wanted : lists;
  }
  constexpr bool has_codebooks() const { return m != 0 && planes == 0; }
  // Codes of kFastScanRows positions lie together.
  constexpr bool fast_scan() const { return m != 0 && bits == 4; }
  constexpr std::uint32_t codewords() const { return 1u << bits; }
  constexpr std::uint32_t sub_dim() const { return m == 0 ? 0 : dim / m; }
  // Bytes of a row's codes as a run has them. 8 bits: a multiple of four, zeros behind the m-th;
  // 4 bits: see IvfLayout.
  constexpr std::uint32_t code_stride() const { return bits == 8 ? (m + 3) / 4 * 4 : (m + 1) / 2; }
};

// Positions whose 4-bit codes lie together, in a group.
inline constexpr std::uint32_t kFastScanRows = 32;
inline constexpr std::uint32_t kNoOrdinal = 0xffffffffu;

// An IvfLayout says where things lie in the bytes of a run, all but `ends` on 64 bytes.
// `positions`: those of all lists, and those between lists, which have no row: with 4-bit codes
// positions are whole groups. Lists of PQ codes of 4 bits begin at a group each. With RaBitQ codes
// lists are in any order, and share groups: one may end, and another begin, within any. No list is
// in more groups than its rows need, so that nothing is lost by that, and few positions are left
// between them.
//   begins    u32[lists + 1]     first position of each list; `positions`
//   ends      u32[lists]         position behind the last of each list; without 4-bit codes that is
//                                where the next one begins: these are begins[1] … begins[lists]
//   ordinals  u32[positions]     position of the row among the run's blocks, ascending in a list;
//                                kNoOrdinal between lists
//   bias      float[positions]   only with codebooks; 0 between lists
//   codes     8 bits: u8[positions][code_stride]
//             4 bits: for each kFastScanRows positions and each sub-space 16 bytes; byte i holds
//             the code of row i in its low half and of row i + 16 in its high half
//             RaBitQ: RabitqGroup for each kFastScanRows positions
//   records   RabitqRecord[positions], kPlaneSlack zeros; only of RaBitQ codes, and more than one
//             plane
struct IvfLayout {
  std::size_t begins = 0, ends = 0, ordinals = 0, bias = 0, codes = 0, records = 0, size = 0;

  static IvfLayout of(const IvfShape& shape, std::uint32_t positions) {
    const auto round = [](std::size_t n) { return (n + 63) / 64 * 64; };
    IvfLayout at;
    at.ends = shape.fast_scan() ? (std::size_t{shape.lists} + 1) * 4 : 4;
    at.ordinals = round(at.ends + std::size_t{shape.lists} * 4);
    at.bias = at.ordinals + round(std::size_t{positions} * 4);
    at.codes = at.bias + (shape.has_codebooks() ? round(std::size_t{positions} * 4) : 0);
    const std::size_t group = shape.planes == 0 ? std::size_t{shape.m} * 16
                                                : std::size_t{RabitqGroup(shape.m).size};
    const std::size_t codes =
        shape.m == 0      ? 0
        : shape.bits == 8 ? std::size_t{positions} * shape.code_stride()
                          : std::size_t{positions} / kFastScanRows * group;
    at.records = at.codes + round(codes);
    const std::size_t record = RabitqRecord::size(shape.dim, shape.planes);
    at.size = at.records + (record == 0 ? 0 : round(positions * record + kPlaneSlack));
    return at;
  }
};

// Rows of some blocks, by list.
struct IvfRun {
  const Buffer* bytes = nullptr;      // IvfLayout::of(shape, positions)
  std::uint32_t positions = 0;
  std::uint32_t longest = 0;          // rows of the longest list
  // Blocks are in the order of ordinals: block i holds ordinals from Σ rows of the blocks before it
  // on. A row takes part when its block's `live` says so. `vectors` may be null when refine is 0
  // and m != 0.
  std::span<const Block> blocks;
};

// A trained model on a device.
struct IvfModelBuffers {
  IvfShape shape;
  const Buffer* centroids = nullptr;  // float32 [lists][dim], then those of groups: [groups][dim]
  const Buffer* coarse = nullptr;     // a run of shape.coarse() whose rows are the lists; null without groups
  std::uint32_t coarse_positions = 0;
  const Buffer* codebooks = nullptr;  // float32 [m][codewords][sub_dim], or null
  const float* mean = nullptr;        // host [dim], or null without codebooks
};

// Rows of a list that a query probes, and how many of them take part; which list it is, and what
// its centroid adds to scores (D above, as a float32; of RaBitQ codes that of rabitq.h).
struct ProbedList {
  std::uint32_t rows = 0, live = 0;
  std::uint32_t list = 0;
  float a = 0;
};

// Adaptive nprobe: how many lists a query probes by its contrast, which is the squared distance of its eighth
// nearest centroid by that of its nearest. The neighbours of a query in the midst of a list are there; of one
// that is about as far from many lists, they are in many. Of products it is the part of the
// greatest that the eighth is.
struct ContrastSteps {
  static constexpr std::uint32_t kPlace = 7;  // of the eighth list
  static constexpr std::uint32_t kLimits = 4;
  using Limits = std::array<float, kLimits>;
  Limits limits = {};                                // of the contrast, descending
  std::array<std::uint32_t, kLimits + 1> nprobe = {};  // between them, ascending; zeros: it is not asked

  constexpr bool known() const { return nprobe[0] != 0; }
  // How many limits the contrast is not beyond.
  static constexpr std::uint32_t step(const Limits& limits, float nearest, float other) {
    std::uint32_t step = 0;
    for (const float limit : limits) step += other > limit * nearest ? 0 : 1;
    return step;
  }
  constexpr std::uint32_t probes(float nearest, float other) const {
    return nprobe[step(limits, nearest, other)];
  }
  // How many of its lists a query probes; d: what their centroids add to scores, nearest first.
  constexpr std::size_t probes_of(std::size_t lists, const auto& d) const {
    if (!known() || lists <= kPlace) return lists;
    const std::size_t some = probes(d(0), d(kPlace));
    return some < lists ? some : lists;
  }
};

struct IvfWork {
  Distance distance = Distance::kL2;  // l2, cosine or ip
  MatrixView queries;                 // as the column has them: for canonical distances
  // Host [queries.rows][dim], in model space. Null: the device rotates_queries(), and makes these
  // of `queries` by the random rotation.
  const float* model_queries = nullptr;
  IvfModelBuffers model;
  std::span<const IvfRun> runs;
  std::uint32_t nprobe = 1;           // 1 … lists
  // Where it is known, queries that have a list at kPlace probe the first of the nprobe nearest
  // alone; unless all lists are probed, or no more than kPlace.
  ContrastSteps by_contrast = {};
  // Host [queries.rows]: so many of a query's lists, the nearest, were searched before. Their rows are
  // left out, though they are counted. Null: none were. A device with memory of its own is not asked this.
  const std::uint32_t* searched = nullptr;
  // 0: the k best by score are returned, at the distances of their codes (in double: √max(0,
  // score); cosine max(0, score / 2); ip score). n: of the n·k best by score the canonical
  // distances decide and are returned. k is that of the table, rows those of all runs of the call.
  // m == 0: every row of a probed list is compared canonically, whatever this says.
  std::size_t refine = 0;
  // No vector is compared, neither by the device nor with what it returns: RaBitQ codes are scored as
  // closely as they can be (rabitq.h). Lists are found as ever.
  bool codes_decide = false;
  // Where few rows of the lists take part, a device may compare all of them canonically, whatever
  // refine says but 0: what it returns is then at least as near.
  bool may_compare_all = false;
  // Host [queries.rows][told()], nearest list first, to which a device that counts_lists() adds
  // rows of those lists that counts_list() names; null: nobody asks. Where all lists are probed and
  // are more than 8,192 they may come in another order. Of lists that a query does not probe by its contrast there
  // are no rows; which one is at kPlace is told all the same.
  ProbedList* probed = nullptr;
  std::uint32_t most_told = ~0u;  // of how many lists of a query it is to tell
  // Host [queries.rows], beside `probed`, lowered to the score from which on rows of a query were
  // no candidates: the worst candidate's, where any was dropped. Where there are no more than that,
  // a device may lower it too.
  float* left = nullptr;
  // Stands for which rows take part: searches with the same number have the same `live` in all
  // blocks of a run, and a number is not used again for other rows. 0: it stands for nothing. What
  // a device makes of these rows it may keep for the next search.
  std::uint64_t filter = 0;
  // The same of all that `runs` says, blocks and rowids too.
  std::uint64_t rows = 0;
  Cancellation* cancellation = nullptr;

  // by_contrast, where it holds.
  ContrastSteps steps() const {
    const bool some = nprobe > ContrastSteps::kPlace && nprobe < model.shape.lists;
    return some ? by_contrast : ContrastSteps();
  }
  std::uint32_t told() const { return nprobe < most_told ? nprobe : most_told; }
  ProbedList* probed_of(std::size_t query) const { return probed + query * told(); }

  // The nearest lists are counted, and every fourth of the others: those are many and much alike.
  static constexpr std::size_t kAllCounted = 64, kOneIn = 4;
  static constexpr bool counts_list(std::size_t place) {
    return place < kAllCounted || place % kOneIn == 0;
  }
  // How many lists are counted, and the place of the i-th of them.
  static constexpr std::size_t counted_lists(std::size_t told) {
    return told < kAllCounted ? told : kAllCounted + (told - kAllCounted + kOneIn - 1) / kOneIn;
  }
  static constexpr std::size_t counted_place(std::size_t i) {
    return i < kAllCounted ? i : kAllCounted + (i - kAllCounted) * kOneIn;
  }
};

// The nearest of some centroids, by (canonical l2 distance, number), of each row.
struct Assigned {
  std::uint32_t list;
  double distance;
};
struct AssignWork {
  const float* rows = nullptr;        // host [count][dim]
  std::size_t count = 0;
  std::uint32_t dim = 0, lists = 0;
  const Buffer* centroids = nullptr;  // float32 [lists][dim], on the device
  Assigned* out = nullptr;            // host [count]
  Cancellation* cancellation = nullptr;
};

// Codes of vectors: out[row][s] is the lowest j for which
//   e = h_j − (((0 + r_0·c_0) + r_1·c_1) + …),  h_j = (float)(½ Σ (double)c_i²)
// is least, in float32 as above.
struct PqAssignWork {
  const float* rows = nullptr;       // host [count][dim]
  std::size_t count = 0;
  std::uint32_t dim = 0, m = 0, codewords = 0;
  const float* codebooks = nullptr;  // host [m][codewords][dim / m]
  std::uint8_t* out = nullptr;       // host [count][m]
  Cancellation* cancellation = nullptr;
};

// The obvious version.
void reference_pq_assign(const PqAssignWork& work);

}  // namespace warplite::compute
