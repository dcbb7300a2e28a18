// A Calibration says how recall grows with what a search looks at, as training has measured it on
// rows that it held aside. Every row but those is equally likely to be near, so the measure is not
// k but the share of the rows that is wanted: the nearest 10 of a million, and the nearest 10 of
// the tenth of ten million rows that pass a filter, lie in the same lists. So it serves every k,
// filters, and tables that have grown. Two things lose rows: lists that are not looked into, and
// codes by which a row is not among the candidates that are compared. Each is measured by itself; a
// search finds the product of both. Bytes, as models keep them, all of 4 each and little-endian:
//   u32    version, shares, probes, code shares, refines
// and from version 2 on:
//   f32    {part, error} of a usual search, when the model was trained; the same now; error 1:
//          not known
//   u32    the lists that this search looks into
//   u64    rows of the table now; the number of its next segment
// then:
//   f32    shares[], ascending, above 0, up to 1
//   u32    probes[], ascending, from 1 on
//   f32    {part, error}[shares][probes]
//   f32    code shares[], ascending, above 0, up to 1
//   u32    refines[], ascending, from 1 on
//   f32    {part, error}[code shares][refines]
// and from version 3 on, of a Spread (spread.h):
//   u32    lists, or 0: it was not measured
//   f32    radii[lists], parts[Spread::kSteps]
// and from version 4 on, of Contrasts:
//   u32    steps: ContrastSteps::kLimits + 1, or 0: it was not measured
//   f32    limits[steps - 1], parts[steps]
//   f32    {part, error}[steps][shares][probes], and [steps][code shares][refines]
// Threads: const members from any.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "compute/ivf.h"
#include "core/bytes.h"
#include "core/types.h"
#include "index/index.h"
#include "index/recall/spread.h"
#include "index/trained.h"
#include "index/training_task.h"

namespace warplite::index {

// A part of the true nearest rows, and the standard error of its measurement.
struct Found {
  float part = 0, error = 0;
};

// The recall of a search: that of its lists times that of its codes.
struct Expected {
  double recall, error;
  Expected(const Found& lists, const Found& codes);
};

// D of a query's nearest list and of that at ContrastSteps::kPlace, in units of the nearest: 1; of products −1; 0 where
// that is none.
struct Contrast {
  float nearest, other;

  // Where no product is a gain, a query is in the easiest step whatever its limit.
  float ease() const { return nearest == 0 && other > 0 ? std::numeric_limits<float>::max() : other; }
  // Beyond which easier ones are.
  float limit() const { return std::max(0.0f, other * nearest); }
};

class Calibration {
 public:
  // One of the two measurements: by shares, ascending, and by what a search looks at, ascending.
  struct Table {
    std::vector<float> shares;
    std::vector<std::uint32_t> looks;
    std::vector<Found> found;  // [shares][looks]

    // Between what was measured it is taken to grow evenly, with the logarithm of the share. A
    // smaller share than the least counts as that: fewer rows lie nearer. Nothing is known of a
    // larger one than the largest.
    Found at(double share, double looks) const;
    // The same of every look that was measured; of a larger share than the largest what is of that.
    std::vector<Found> along(double share) const;
    // Takes what was found less, where another measurement of the same shares and looks differs from this
    // one by more than chance.
    void take_less(const Table& other);
  };

  // What queries find, by steps of their contrast: the less of it they have, the more lists hold their
  // neighbours.
  struct Contrasts {
    compute::ContrastSteps::Limits limits = {};
    std::array<float, compute::ContrastSteps::kLimits + 1> parts = {};  // of queries
    std::vector<Table> lists, codes;  // of each step, as Calibration's; empty: it was not measured

    bool known() const { return !lists.empty(); }
    // Of a query with these D of lists.
    std::size_t step(float nearest, float other) const {
      return compute::ContrastSteps::step(limits, nearest, other);
    }
    std::size_t step(const Contrast& contrast) const { return step(contrast.nearest, contrast.other); }
    // So many lists on average.
    double mean(const compute::ContrastSteps& steps) const;
  };

  Table lists, codes;  // of probes, of refine; codes: empty where nothing is coded
  Spread spread;
  Contrasts contrasts;

  // What a search for the nearest 10 finds that looks into so many lists: when the model was trained, and
  // now. Of error 1: not known.
  Found trained{0, 1}, present{0, 1};
  std::uint32_t usual_nprobe = 0;
  // The table when it was measured; a next segment of 0: not known.
  TableMoment table;

  // What codes find of the nearest k rows, such a share of all, among refine times as many candidates. To
  // have ten among twenty is easier than one among two, so that where the share is smaller than any that
  // was measured, what was measured of k / 4 rows counts: 640,000 x 128, k = 10, refine = 2: 0.995 is
  // found, 0.996 was measured of ten rows, and 0.976 of one. Of k rows it must not be: of rows that lie
  // in groups the fewer are alike the fewer there are. A larger share than was measured counts as the
  // largest that was. Codes lose more of it: a search that looks so far has to see whether they tell rows
  // apart there.
  Found by_codes(double share, std::size_t k, std::size_t refine, std::optional<std::size_t> step = {}) const;
  // How many lists queries of each step of contrast probe to find as large a part as all do in `nprobe`, on average,
  // among as many candidates; without `with_codes` as if codes told as much of each. Nothing: some cannot. Not
  // known: all probe as many, or it was not measured.
  std::optional<compute::ContrastSteps> by_contrast(double share, std::size_t k, std::uint32_t nprobe,
                                                    std::size_t refine, bool with_codes) const;
  // Says whether rows are so unlike those that the model has learnt from that it is worth while to train
  // again.
  bool fell() const;

  Bytes bytes() const;
  // Throws Error{kCorrupt} unless the bytes are those of a calibration.
  static Calibration read(std::span<const std::byte> bytes);
};

// Rows of so many bytes that a sample has for all that is measured.
std::size_t calibration_rows(std::size_t row_bytes);
// Rows that are held aside of a sample of so many; 0: too few to measure anything.
std::size_t held_rows(std::size_t sample_rows);

// Measures the model with the last held_rows() of random_order() of the sample, which it has not
// learnt from; it is one of a table of so many rows. The last `newer` of the sample may be unlike the others: where
// less is found of them, that is what counts. The same on every device. Throws Error{kInterrupted}, and what the
// device reports.
Calibration calibrate(const TrainingTask& task, const InvertedModel& model, Distance distance,
                      const MatrixView& sample, std::uint64_t table_rows, std::size_t newer = 0);

}  // namespace warplite::index
