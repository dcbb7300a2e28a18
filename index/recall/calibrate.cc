// The measurements of a Calibration. Rows are taken in random order: the last are held aside, and
// the nearest are sought among those before them. A tenth of these rows shows what a search for ten
// times the share finds, so that few neighbours of each tell of every share. (They are taken from
// the end, too: with the first rows k-means has begun, so that lists lie around them.)
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "index/clustering/kmeans.h"
#include "index/clustering/matrix.h"
#include "index/clustering/nearest_list.h"
#include "index/quantization/codes.h"
#include "index/recall/calibration.h"
#include "index/recall/measure_spread.h"

namespace warplite::index {
namespace {

constexpr std::size_t kHeldRows = 1024;     // at most; and one in
constexpr std::size_t kHeldShare = 16;      // of the sample
constexpr std::size_t kLeastHeld = 64;      // fewer tell nothing
constexpr std::size_t kMostRows = std::size_t{1} << 18;  // among which the nearest are sought,
constexpr std::size_t kMostBytes = std::size_t{512} << 20;  // and their bytes
constexpr std::size_t kCodedRows = std::size_t{1} << 15;
constexpr std::size_t kNearHeld = 512;      // held rows at most whose surroundings are coded,
constexpr std::size_t kNearRows = 128;      // of so many rows each
constexpr std::size_t kLeastRows = 100;     // of a tenth of a tenth …
constexpr std::size_t kCounts[] = {1, 3, 10};               // of these, that are wanted,
constexpr std::size_t kWideCounts[] = {1, 3, 10, 30, 100};  // and of the fewest rows: large shares
constexpr std::size_t kCodedCounts[] = {1, 10, 100};
constexpr std::size_t kNearCounts[] = {1, 10};  // of which the others nearby are all there
constexpr std::size_t kCandidates = 1024;   // which every device takes

// Among which the nearest are sought.
std::size_t most_rows(std::size_t row_bytes) {
  return std::min(kMostRows, std::max(kCodedRows, kMostBytes / row_bytes));
}

// Some rows of the sample, one after another.
class Picked {
 public:
  Picked(const MatrixView& sample, std::span<const std::size_t> order)
      : bytes_(order.size() * sample.stride(), Bytes::Fill::kGradual), view_(sample) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::memcpy(bytes_.data() + i * sample.stride(), sample.row(order[i]), sample.stride());
    }
    view_.data = bytes_.data();
    view_.rows = order.size();
  }
  const MatrixView& view() const { return view_; }
  MatrixView first(std::size_t rows) const {
    MatrixView some = view_;
    some.rows = std::min(rows, view_.rows);
    return some;
  }

 private:
  Bytes bytes_;
  MatrixView view_;
};

// Mean and standard error of what each held row found of its nearest.
class Mean {
 public:
  void add(double part) {
    sum_ += part;
    squares_ += part * part;
    ++count_;
  }
  // A loss that was never seen may be there all the same, once in so many rows.
  Found found() const {
    const double n = count_, mean = sum_ / n;
    const double variance = std::max(0.0, squares_ / n - mean * mean);
    return {static_cast<float>(mean),
            static_cast<float>(std::min(1.0, std::max(std::sqrt(variance / n), 1 / n)))};
  }

 private:
  double sum_ = 0, squares_ = 0, count_ = 0;
};

// 1 … 8, and then four for each doubling, up to `most`.
std::vector<std::uint32_t> ladder(std::uint32_t most) {
  std::vector<std::uint32_t> steps;
  for (double step = 1; step + 0.5 < most; step = step < 8 ? step + 1 : step * std::sqrt(std::sqrt(2.0))) {
    steps.push_back(static_cast<std::uint32_t>(std::lround(step)));
  }
  steps.push_back(most);
  return steps;
}

class Measurement {
 public:
  Measurement(const TrainingTask& task, const InvertedModel& model, Distance distance,
              const MatrixView& sample)
      : task_(task), model_(model), distance_(distance), order_(last_first(sample.rows)),
        held_(sample, std::span(order_).first(held_rows(sample.rows))),
        base_(sample, std::span(order_).subspan(held_rows(sample.rows), base_rows(sample))),
        in_model_space_(held_.view().rows * sample.dim) {
    order_ = {};
    model.to_model_space(held_.view(), in_model_space_.data());
    const MatrixView& base = base_.view();
    base_buffer_ = resident(task.device(), base.data, base.rows * base.stride());
  }

  Calibration run() {
    Calibration calibration;
    std::vector<Level> levels = find_nearest();
    calibration.lists = measure_lists(levels);
    if (model_.shape().m != 0) task_.report("what codes tell", 2, steps());
    const MatrixView some = base_.first(kCodedRows);
    const Coded coded(*this, some);
    calibration.spread =
        measure_spread(task_, model_, distance_, some, lists_of(coded.block), in_model_space_);
    if (model_.shape().m != 0) measure_codes(coded, levels.front().nearest, calibration.codes);
    return calibration;
  }

 private:
  // A share of rows whose nearest are sought among the first `rows` of them.
  struct Level {
    std::size_t rows;
    std::span<const std::size_t> counts;  // that are wanted
    compute::HitTable nearest;  // and more of the first level

    std::span<const Hit> wanted(std::size_t query) {
      const std::span<const Hit> hits = nearest.sorted(query);
      return hits.first(std::min(hits.size(), counts.back()));
    }
  };

  std::size_t steps() const { return model_.shape().m == 0 ? 2 : 4; }

  static std::vector<std::size_t> last_first(std::size_t rows) {
    std::vector<std::size_t> order = random_order(rows, rows);
    std::reverse(order.begin(), order.end());
    return order;
  }

  static std::size_t base_rows(const MatrixView& sample) {
    return std::min(sample.rows - held_rows(sample.rows), most_rows(sample.stride()));
  }

  static std::shared_ptr<const compute::Buffer> resident(compute::Device& device, const void* data,
                                                         std::size_t size) {
    std::shared_ptr<const compute::Buffer> buffer;
    device.make_resident({nullptr, static_cast<const std::byte*>(data), size}, &buffer).raise();
    return buffer;
  }

  // The nearest to each of the first held rows, among rows that the device has in this buffer.
  compute::HitTable nearest(const compute::Buffer* buffer, const MatrixView& rows,
                            std::size_t held, std::size_t k) const {
    compute::Block block;
    block.vectors = buffer;
    block.host = rows.data;
    block.rows = block.live_rows = static_cast<std::uint32_t>(rows.rows);
    compute::Workload work;
    work.distance = distance_;
    work.queries = held_.first(held);
    work.blocks = {&block, 1};
    work.cancellation = task_.cancellation();
    compute::HitTable best(held, std::min(k, rows.rows));
    task_.device().nearest(work, best).raise();
    return best;
  }

  std::vector<Level> find_nearest() const {
    std::vector<Level> levels;
    task_.report("what lists hold", 0, steps());
    const std::size_t held = held_.view().rows;
    for (std::size_t rows = base_.view().rows; levels.empty() || rows >= kLeastRows; rows /= 10) {
      const bool last = rows / 10 < kLeastRows;
      const std::span<const std::size_t> counts =
          last && rows >= kLeastRows ? std::span<const std::size_t>(kWideCounts) : kCounts;
      const std::size_t most = levels.empty() ? std::max(kNearRows, counts.back()) : counts.back();
      levels.push_back({rows, counts, nearest(base_buffer_.get(), base_.first(rows), held, most)});
    }
    return levels;
  }

  Calibration::Table measure_lists(std::vector<Level>& levels) const {
    task_.report("what lists hold", 1, steps());
    const std::vector<std::uint32_t> lists = lists_of(levels);
    const std::vector<std::vector<std::uint32_t>> ranks = rank(levels, lists);
    return tabulate(levels, ranks);
  }

  // The list of each row that is a neighbour; of others anything.
  std::vector<std::uint32_t> lists_of(std::vector<Level>& levels) const {
    std::vector<bool> wanted(base_.view().rows);
    for (Level& level : levels) {
      for (std::size_t q = 0; q < held_.view().rows; ++q) {
        task_.poll()();
        for (const Hit& hit : level.wanted(q)) wanted[hit.row] = true;
      }
    }
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < wanted.size(); ++row) {
      if (wanted[row]) rows.push_back(row);
    }
    const Picked neighbors(base_.view(), rows);
    const std::uint32_t dim = base_.view().dim;
    std::vector<float> vectors(rows.size() * dim);
    model_.to_model_space(neighbors.view(), vectors.data());
    std::vector<Nearest> nearest(rows.size());
    NearestList(task_.devices(), model_.centroids(), model_.shape().lists, dim)
        .find(vectors.data(), rows.size(), task_.cancellation(), nearest.data());
    std::vector<std::uint32_t> lists(wanted.size());
    for (std::size_t i = 0; i < rows.size(); ++i) lists[rows[i]] = nearest[i].list;
    return lists;
  }

  // How many lists are nearer to the held row than that of each of its neighbours: by level, held
  // rows after one another, as many each as are wanted at most.
  std::vector<std::vector<std::uint32_t>> rank(std::vector<Level>& levels,
                                               const std::vector<std::uint32_t>& list_of) const {
    constexpr std::size_t kMostBatch = 64, kMostNumbers = std::size_t{1} << 20;
    const std::size_t lists = model_.shape().lists;
    const std::size_t batch = std::clamp<std::size_t>(kMostNumbers / lists, 1, kMostBatch);
    const ListOrder order(*this);
    std::vector<std::vector<std::uint32_t>> ranks;
    for (const Level& level : levels) ranks.emplace_back(held_.view().rows * level.counts.back());
    std::vector<float> away(batch * lists);
    for (std::size_t first = 0; first < held_.view().rows; first += batch) {
      const std::size_t count = std::min(batch, held_.view().rows - first);
      order.find(first, count, away.data());
      for (std::size_t i = 0; i < count; ++i) {
        const float* const row = away.data() + i * lists;
        for (std::size_t l = 0; l < levels.size(); ++l) {
          const std::span<const Hit> hits = levels[l].wanted(first + i);
          for (std::size_t n = 0; n < hits.size(); ++n) {
            const float mine = row[list_of[hits[n].row]];
            // Itself aside. Where numbers are too large or too small to tell lists apart, it comes last.
            ranks[l][(first + i) * levels[l].counts.back() + n] = static_cast<std::uint32_t>(
                std::count_if(row, row + lists, [mine](float other) { return !(other > mine); }) - 1);
          }
        }
      }
    }
    return ranks;
  }

  // How far lists are from held rows, in the order in which searches find them.
  class ListOrder {
   public:
    explicit ListOrder(const Measurement& measured)
        : measured_(measured), shape_(measured.model_.shape()),
          by_codes_(shape_.planes != 0 && shape_.groups != 0),
          host_(measured.task_.device().own_memory() ? compute::Registry::instance().host()
                                                     : measured.task_.device()) {
      const InvertedModel& model = measured.model_;
      if (by_codes_) {
        const float* const groups = model.centroids() + std::size_t{shape_.lists} * shape_.dim;
        centroids_ = resident(host_, groups, std::size_t{shape_.groups} * shape_.dim * sizeof(float));
        codes_ = resident(host_, model.coarse()->bytes.data(), model.coarse()->bytes.size());
        return;
      }
      columns_ = transpose(model.centroids(), shape_.lists, shape_.dim);
      squares_.resize(shape_.lists);  // halves; zeros where lists are in the order of products
      if (measured.distance_ == Distance::kInnerProduct) return;
      for (std::size_t list = 0; list < shape_.lists; ++list) {
        const float* const centroid = model.centroids() + list * shape_.dim;
        squares_[list] = static_cast<float>(square_norm(centroid, shape_.dim) / 2);
      }
    }

    // away: [count][lists].
    void find(std::size_t first, std::size_t count, float* away) const {
      if (by_codes_) return find_by_codes(first, count, away);
      const std::size_t lists = shape_.lists;
      multiply(measured_.in_model_space_.data() + first * shape_.dim, count, shape_.dim,
               columns_.data(), lists, away, measured_.task_.poll());
      for (std::size_t i = 0; i < count * lists; ++i) away[i] = squares_[i % lists] - away[i];
    }

   private:
    // Codes put lists in another order than centroids do, and where some of these are far longer than
    // others, as those of products may be, in one that is quite another. Where there are many lists, the
    // last three quarters come last alike: who looks so far may as well compare all rows.
    void find_by_codes(std::size_t first, std::size_t count, float* away) const {
      compute::Block lists;
      lists.rows = lists.live_rows = shape_.lists;
      const Run& coarse = *measured_.model_.coarse();
      const compute::IvfRun run{codes_.get(), coarse.positions, coarse.longest, {&lists, 1}};
      compute::IvfWork work;
      work.distance = measured_.distance_;
      work.queries = measured_.held_.view();
      work.queries.rows = count;
      work.model_queries = measured_.in_model_space_.data() + first * shape_.dim;
      work.model.shape = shape_.coarse();
      work.model.centroids = centroids_.get();
      work.runs = {&run, 1};
      work.nprobe = shape_.groups;
      work.cancellation = measured_.task_.cancellation();
      compute::HitTable found(count, std::min(shape_.lists, std::max(shape_.lists / 4, kOrdered)));
      host_.ivf_nearest(work, found).raise();
      std::fill_n(away, count * shape_.lists, static_cast<float>(shape_.lists));
      for (std::size_t i = 0; i < count; ++i) {
        float place = 0;
        for (const Hit& hit : found.sorted(i)) away[i * shape_.lists + hit.row] = place++;
      }
    }

    static constexpr std::uint32_t kOrdered = 1024;

    const Measurement& measured_;
    const compute::IvfShape& shape_;
    const bool by_codes_;
    compute::Device& host_;  // which puts any number of lists in order
    std::vector<float> columns_, squares_;
    std::shared_ptr<const compute::Buffer> centroids_, codes_;
  };

  Calibration::Table tabulate(const std::vector<Level>& levels,
                              const std::vector<std::vector<std::uint32_t>>& ranks) const {
    Calibration::Table table;
    table.looks = ladder(model_.shape().lists);
    for (std::size_t l = 0; l < levels.size(); ++l) {
      for (const std::size_t count : levels[l].counts) {
        if (l != 0 && count == kCounts[0]) continue;  // as much as the last of the level before
        const auto share = static_cast<float>(static_cast<double>(count) /
                                              static_cast<double>(levels[l].rows));
        table.shares.push_back(share);
        for (const std::uint32_t probes : table.looks) {
          task_.poll()();
          Mean mean;
          for (std::size_t q = 0; q < held_.view().rows; ++q) {
            const std::uint32_t* const of = &ranks[l][q * levels[l].counts.back()];
            mean.add(static_cast<double>(std::count_if(
                         of, of + count, [probes](std::uint32_t rank) { return rank < probes; })) /
                     static_cast<double>(count));
          }
          table.found.push_back(mean.found());
        }
      }
    }
    return table;
  }

  std::vector<std::uint32_t> lists_of(const CodedBlock& block) const {
    const CodesView codes(model_.shape(), block);
    std::vector<std::uint32_t> lists(block.rows);
    for (std::uint32_t row = 0; row < block.rows; ++row) {
      lists[row] = codes.list(block.codes.data(), row);
    }
    return lists;
  }

  // Rows and their codes.
  struct Coded {
    Coded(const Measurement& measurement, const MatrixView& some)
        : rows(some),
          codes(measurement.model_.encode(measurement.task_.device(), some, nullptr,
                                          measurement.task_.cancellation())),
          block{{codes.data(), codes.size()}, static_cast<std::uint32_t>(some.rows)} {}
    const MatrixView rows;
    const Bytes codes;
    const CodedBlock block;
  };

  // Every list is looked into, so that nothing but the codes loses rows. Where rows lie in groups, as
  // pages of a document or frames of a film do, a part of the rows has a part of each group, which hides
  // how many are alike. So of small shares all rows count that lie near a held row.
  // `nearest`: of all rows.
  void measure_codes(const Coded& some, compute::HitTable& nearest, Calibration::Table& table) const {
    task_.report("what codes tell", 3, steps());
    const std::size_t all = base_.view().rows;
    table.looks = ladder(kCandidates);
    std::span<const std::size_t> counts = kCodedCounts;
    if (all > some.rows.rows) {
      const std::size_t held = std::min(coded_held(), kNearHeld);
      const Picked near(base_.view(), rows_of(nearest, held));
      tabulate(Coded(*this, near.view()), held, all, kNearCounts, table);
      counts = counts.subspan(1);
    }
    tabulate(some, coded_held(), some.rows.rows, counts, table);
  }

  // Of some queries, in ascending order.
  static std::vector<std::size_t> rows_of(compute::HitTable& hits, std::size_t queries) {
    std::vector<std::size_t> rows;
    for (std::size_t q = 0; q < queries; ++q) {
      for (const Hit& hit : hits.sorted(q)) rows.push_back(hit.row);
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
  }

  // Held rows that are searched for by codes: fewer where each list of each costs a table.
  std::size_t coded_held() const {
    constexpr std::size_t kMostTables = std::size_t{1} << 18;
    const compute::IvfShape& shape = model_.shape();
    const std::size_t most = shape.listwise ? kMostTables / shape.lists : kHeldRows;
    return std::min(held_.view().rows, std::max(kLeastHeld, most));
  }

  // The best rows by their codes alone.
  compute::HitTable by_codes(const Coded& some, std::size_t held) const {
    const std::size_t rows = some.rows.rows;
    const Run run = model_.make_run({&some.block, 1});
    compute::Device& device = task_.device().supports_ivf(model_.shape())
                                  ? task_.device()
                                  : compute::Registry::instance().host();
    const compute::IvfShape& shape = model_.shape();
    const auto bytes = resident(device, run.bytes.data(), run.bytes.size());
    const std::size_t vector = shape.dim * sizeof(float);
    const auto centroids = resident(device, model_.centroids(),
                                    (std::size_t{shape.lists} + shape.groups) * vector);
    const auto codebooks = shape.has_codebooks()
                               ? resident(device, model_.codebooks(), shape.codewords() * vector)
                               : nullptr;
    const Run* const lists = model_.coarse();
    const auto coarse =
        lists == nullptr ? nullptr : resident(device, lists->bytes.data(), lists->bytes.size());
    compute::Block block;
    block.rows = block.live_rows = static_cast<std::uint32_t>(rows);
    const compute::IvfRun given{bytes.get(), run.positions, run.longest, {&block, 1}};
    compute::IvfWork work;
    work.distance = distance_;
    work.queries = held_.first(held);
    work.model_queries = in_model_space_.data();
    work.model = model_.buffers();
    work.model.centroids = centroids.get();
    work.model.codebooks = codebooks.get();
    work.model.coarse = coarse.get();
    work.runs = {&given, 1};
    work.nprobe = shape.lists;
    work.cancellation = task_.cancellation();
    compute::HitTable best(held, std::min(kCandidates, rows));
    device.ivf_nearest(work, best).raise();
    return best;
  }

  // Adds what codes find of the nearest of these rows, as a share of `all`.
  void tabulate(const Coded& some, std::size_t held, std::size_t all,
                std::span<const std::size_t> counts, Calibration::Table& table) const {
    const std::size_t rows = some.rows.rows;
    compute::HitTable candidates = by_codes(some, held);
    const auto buffer = resident(task_.device(), some.rows.data, rows * some.rows.stride());
    compute::HitTable truth = nearest(buffer.get(), some.rows, held, counts.back());
    // places[q][n]: how many candidates come before the n-th nearest.
    std::vector<std::uint32_t> places(held * truth.k());
    std::vector<std::uint32_t> place_of(rows);
    for (std::size_t q = 0; q < held; ++q) {
      task_.poll()();
      std::fill(place_of.begin(), place_of.end(), ~0u);
      const std::span<const Hit> found = candidates.sorted(q);
      for (std::size_t i = 0; i < found.size(); ++i) {
        place_of[found[i].row] = static_cast<std::uint32_t>(i);
      }
      for (std::size_t n = 0; n < truth.k(); ++n) {
        places[q * truth.k() + n] = place_of[truth.sorted(q)[n].row];
      }
    }
    for (const std::size_t count : counts) {
      if (count > truth.k()) continue;
      table.shares.push_back(static_cast<float>(static_cast<double>(count) / static_cast<double>(all)));
      for (const std::uint32_t refine : table.looks) {
        task_.poll()();
        Mean mean;
        for (std::size_t q = 0; q < held; ++q) {
          const std::uint32_t* const of = &places[q * truth.k()];
          const std::size_t taken = refine * count;
          mean.add(static_cast<double>(std::count_if(
                       of, of + count, [taken](std::uint32_t place) { return place < taken; })) /
                   static_cast<double>(count));
        }
        table.found.push_back(mean.found());
      }
    }
  }

  const TrainingTask& task_;
  const InvertedModel& model_;
  const Distance distance_;
  std::vector<std::size_t> order_;
  const Picked held_, base_;
  std::vector<float> in_model_space_;  // of held_
  std::shared_ptr<const compute::Buffer> base_buffer_;
};

}  // namespace

std::size_t calibration_rows(std::size_t row_bytes) { return most_rows(row_bytes) + kHeldRows; }

std::size_t held_rows(std::size_t sample_rows) {
  const std::size_t held = std::min(kHeldRows, sample_rows / kHeldShare);
  return held < kLeastHeld ? 0 : held;
}

Calibration calibrate(const TrainingTask& task, const InvertedModel& model, Distance distance,
                      const MatrixView& sample) {
  if (held_rows(sample.rows) == 0) return {};
  return Measurement(task, model, distance, sample).run();
}

}  // namespace warplite::index
