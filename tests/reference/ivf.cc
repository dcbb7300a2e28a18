// Compiled with -ffp-contract=off: a fused multiply-add would change the bits.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "compute/host/rotation.h"
#include "compute/reference.h"
#include "tests/reference/rabitq.h"
#include "tests/reference/reference.h"

namespace warplite::compute {
namespace {

const std::byte* bytes_of(const float* values) {
  return reinterpret_cast<const std::byte*>(values);
}

float dot(const float* x, const float* y, std::uint32_t n) {
  float sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// Tables that a query makes of the model.
struct Tables {
  std::vector<std::uint8_t> entries;  // [m][codewords]
  float step = 1, offset = 0;
};

// T of ivf.h, in float32, of the query as it is seen from `origin`.
std::vector<float> unrounded_tables(const IvfWork& work, const float* query, const float* origin,
                                    const float* codebooks) {
  const IvfShape& shape = work.model.shape;
  const bool product = work.distance == Distance::kInnerProduct;
  std::vector<float> z(query, query + shape.dim);
  for (std::uint32_t i = 0; i < shape.dim && !product; ++i) z[i] -= origin[i];
  std::vector<float> all;
  for (std::uint32_t s = 0; s < shape.m; ++s) {
    for (std::uint32_t j = 0; j < shape.codewords(); ++j) {
      const std::size_t codeword = std::size_t{s} * shape.codewords() + j;
      const float t =
          dot(&z[s * shape.sub_dim()], codebooks + codeword * shape.sub_dim(), shape.sub_dim());
      all.push_back(product ? -t : -2 * t);
    }
  }
  return all;
}

Tables make_tables(const IvfWork& work, const float* query, const float* origin,
                   const float* codebooks) {
  const IvfShape& shape = work.model.shape;
  const std::vector<float> all = unrounded_tables(work, query, origin, codebooks);
  std::vector<float> lows;
  float widest = 0;
  Tables tables;
  for (std::uint32_t s = 0; s < shape.m; ++s) {
    float low = std::numeric_limits<float>::infinity(), high = -low;
    for (std::uint32_t j = 0; j < shape.codewords(); ++j) {
      const float entry = all[std::size_t{s} * shape.codewords() + j];
      if (entry < low) low = entry;
      if (entry > high) high = entry;
    }
    if (high - low > widest) widest = high - low;
    lows.push_back(low);
    tables.offset = s == 0 ? low : tables.offset + low;
  }
  tables.step = widest / 255;
  if (tables.step == 0) tables.step = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float rounded = (all[i] - lows[i / shape.codewords()]) / tables.step + 0.5f;
    tables.entries.push_back(rounded < 255 ? static_cast<std::uint8_t>(rounded) : 255);
  }
  return tables;
}

struct Probe {
  double distance;
  std::uint32_t list;

  friend bool operator<(const Probe& a, const Probe& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.list < b.list;
  }
};

// Lists that are compared with the query.
std::vector<std::uint32_t> candidate_lists(const IvfWork& work, const float* query,
                                           const IvfHostModel& model) {
  const IvfShape& shape = work.model.shape;
  std::vector<std::uint32_t> lists(shape.lists);
  std::iota(lists.begin(), lists.end(), 0u);
  if (shape.groups == 0) return lists;
  lists.clear();
  std::vector<float> rotated(query, query + shape.dim);
  rotate_at_random(shape.dim, rotated.data());
  for (const RabitqProbe& probe : rabitq_probes(work, rotated.data(), model)) {
    lists.push_back(probe.list);
  }
  return lists;
}

std::vector<Probe> nearest_lists(const IvfWork& work, const float* query,
                                 const IvfHostModel& model) {
  const IvfShape& shape = work.model.shape;
  const Distance coarse = work.distance == Distance::kInnerProduct ? work.distance : Distance::kL2;
  std::vector<Probe> probes;
  for (const std::uint32_t list : candidate_lists(work, query, model)) {
    const float* centroid = model.centroids + std::size_t{list} * shape.dim;
    probes.push_back({canonical_distance(coarse, ElementType::kFloat32, shape.dim, bytes_of(query),
                                         bytes_of(centroid)),
                      list});
  }
  std::sort(probes.begin(), probes.end());
  probes.resize(std::min<std::size_t>(probes.size(), work.nprobe));
  probes.resize(work.steps().probes_of(probes.size(), [&](std::size_t place) {
    const double distance = probes[place].distance;
    return static_cast<float>(coarse == Distance::kL2 ? distance * distance : distance);
  }));
  return probes;
}

struct Candidate {
  float score = 0;
  std::uint64_t ordinal = 0;  // among all runs
  std::size_t run = 0, block = 0;
  std::uint32_t row = 0;

  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.ordinal < b.ordinal;
  }
};

// Finds the block of `ordinal`, one of the run's; false when the row takes no part.
bool find_row(const IvfRun& run, std::uint32_t ordinal, Candidate& candidate) {
  candidate.block = 0;
  while (ordinal >= run.blocks[candidate.block].rows) {
    ordinal -= run.blocks[candidate.block++].rows;
  }
  candidate.row = ordinal;
  const std::uint64_t* live = run.blocks[candidate.block].live;
  return live == nullptr || ((live[ordinal / 64] >> (ordinal % 64)) & 1) != 0;
}

std::uint32_t code_at(const IvfShape& shape, const std::uint8_t* codes, std::uint32_t position,
                      std::uint32_t s) {
  if (shape.bits == 8) return codes[std::size_t{position} * shape.code_stride() + s];
  const std::size_t group = position / kFastScanRows, i = position % kFastScanRows;
  const std::uint8_t both = codes[(group * shape.m + s) * 16 + i % 16];
  return i < 16 ? both & 15u : both >> 4;
}

// Counts a row of the list at a place among those that the query probes.
void count(const IvfWork& work, std::size_t query, std::size_t place, bool live) {
  if (work.probed == nullptr || place >= work.told() || !IvfWork::counts_list(place)) return;
  ProbedList& list = work.probed_of(query)[place];
  ++list.rows;
  if (live) ++list.live;
}

// The tables of a query for a list.
using TablesOf = std::function<Tables(std::uint32_t)>;

// Every live row of the probed lists of one run, with its score when rows are coded.
void collect(const IvfWork& work, std::size_t run_index, std::uint64_t first_ordinal,
             const std::byte* bytes, std::size_t query, const std::vector<Probe>& probes,
             const TablesOf& tables_of, std::vector<Candidate>& out) {
  const IvfShape& shape = work.model.shape;
  const IvfRun& run = work.runs[run_index];
  const IvfLayout at = IvfLayout::of(shape, run.positions);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* ends = reinterpret_cast<const std::uint32_t*>(bytes + at.ends);
  const auto* ordinals = reinterpret_cast<const std::uint32_t*>(bytes + at.ordinals);
  const auto* bias = reinterpret_cast<const float*>(bytes + at.bias);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(bytes + at.codes);
  for (const Probe& probe : probes) {
    const Tables tables = tables_of(probe.list);
    const double d = probe.distance;
    const double square = work.distance == Distance::kInnerProduct ? d : d * d;
    const float a = static_cast<float>(square) + tables.offset;
    for (std::uint32_t p = begins[probe.list]; p < ends[probe.list]; ++p) {
      Candidate candidate;
      const bool live = find_row(run, ordinals[p], candidate);
      count(work, query, static_cast<std::size_t>(&probe - probes.data()), live);
      if (!live) continue;
      candidate.run = run_index;
      candidate.ordinal = first_ordinal + ordinals[p];
      if (shape.m != 0) {
        std::uint32_t sum = 0;
        for (std::uint32_t s = 0; s < shape.m; ++s) {
          sum += tables.entries[s * shape.codewords() + code_at(shape, codes, p, s)];
        }
        const float score = (tables.step * static_cast<float>(sum) + bias[p]) + a;
        candidate.score = std::isnan(score) ? std::numeric_limits<float>::infinity() : score;
      }
      out.push_back(candidate);
    }
  }
}

// The same for RaBitQ codes.
void collect_rabitq(const IvfWork& work, std::size_t run_index, std::uint64_t first_ordinal,
                    const std::byte* bytes, std::size_t number, const IvfHostModel& model,
                    std::vector<Candidate>& out) {
  const IvfShape& shape = work.model.shape;
  const IvfRun& run = work.runs[run_index];
  const IvfLayout at = IvfLayout::of(shape, run.positions);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* ends = reinterpret_cast<const std::uint32_t*>(bytes + at.ends);
  const float* query = work.model_queries + number * shape.dim;
  const std::vector<RabitqProbe> probes = rabitq_probes(work, query, model);
  for (const RabitqProbe& probe : probes) {
    const RabitqPair pair(shape, work.distance, query,
                          model.centroids + std::size_t{probe.list} * shape.dim, work.codes_decide);
    for (std::uint32_t p = begins[probe.list]; p < ends[probe.list]; ++p) {
      Candidate candidate;
      std::uint32_t ordinal;
      candidate.score = pair.score(bytes, at, p, &ordinal);
      const bool live = find_row(run, ordinal, candidate);
      count(work, number, static_cast<std::size_t>(&probe - probes.data()), live);
      if (!live) continue;
      candidate.run = run_index;
      candidate.ordinal = first_ordinal + ordinal;
      out.push_back(candidate);
    }
  }
}

static_assert(products_are({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}));

double distance_of_score(Distance distance, double score) {
  if (distance == Distance::kInnerProduct) return score;
  return distance == Distance::kL2 ? std::sqrt(std::max(0.0, score)) : std::max(0.0, score / 2);
}

// Keeps the max(1, refine)·k best by score.
void keep_best(const IvfWork& work, std::size_t query, std::size_t k,
               std::vector<Candidate>& candidates) {
  const std::size_t refine = std::max<std::size_t>(1, work.refine);
  if (candidates.size() / refine < k || candidates.size() == refine * k) return;
  std::sort(candidates.begin(), candidates.end());
  candidates.resize(refine * k);
  if (work.left != nullptr) {
    work.left[query] = std::min(work.left[query], candidates.back().score);
  }
}

}  // namespace

void reference_ivf_nearest(const IvfWork& work, const IvfHostModel& model,
                           std::span<const IvfHostRun> runs, HitTable& best) {
  const IvfShape& shape = work.model.shape;
  for (std::size_t q = 0; q < work.queries.rows; ++q) {
    const float* query = work.model_queries + q * shape.dim;
    const bool rabitq = shape.planes != 0;
    const std::vector<Probe> probes =
        rabitq ? std::vector<Probe>() : nearest_lists(work, query, model);
    Tables shared;
    if (shape.has_codebooks() && !shape.listwise) {
      shared = make_tables(work, query, work.model.mean, model.codebooks);
    }
    const TablesOf tables = [&](std::uint32_t list) {
      if (!shape.listwise) return shared;
      return make_tables(work, query, model.centroids + std::size_t{list} * shape.dim,
                         model.codebooks);
    };
    std::vector<Candidate> candidates;
    std::uint64_t first_ordinal = 0;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (rabitq) {
        collect_rabitq(work, r, first_ordinal, runs[r].bytes, q, model, candidates);
      } else {
        collect(work, r, first_ordinal, runs[r].bytes, q, probes, tables, candidates);
      }
      for (const Block& block : work.runs[r].blocks) first_ordinal += block.rows;
    }
    if (shape.m != 0) keep_best(work, q, best.k(), candidates);
    for (const Candidate& c : candidates) {
      const Block& block = work.runs[c.run].blocks[c.block];
      double distance = distance_of_score(work.distance, c.score);
      if (shape.m == 0 || work.refine != 0) {
        distance = canonical_distance(work.distance, work.queries.type, work.queries.dim,
                                      work.queries.row(q),
                                      runs[c.run].vectors[c.block] + c.row * work.queries.stride());
      }
      best.row(q).push({distance, block.rowids[c.row], block.id, c.row});
    }
  }
}

}  // namespace warplite::compute
