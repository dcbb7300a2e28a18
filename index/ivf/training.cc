#include "index/ivf/training.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "compute/host/parallel.h"
#include "compute/host/rotation.h"
#include "core/bytes.h"
#include "core/process/interruption.h"
#include "index/clustering/kmeans.h"
#include "index/clustering/matrix.h"
#include "index/clustering/model_space.h"
#include "index/clustering/nearest_list.h"
#include "index/quantization/opq.h"
#include "index/quantization/pq.h"

namespace warplite::index {
namespace {

constexpr std::size_t kSampleRowsPerList = 256;
constexpr std::size_t kMostSampleRows = std::size_t{1} << 20;
// Where the lists are ours to choose. Centroids of few rows lie nearer to these than to others, and recall is measured
// with them: of 50,000 rows (SIFT), learnt from 6,250 in 559 lists, a search for 0.95 found 0.924.
constexpr std::size_t kFewestSampleRowsPerList = 32;
constexpr std::size_t kFewestOfManyRows = 8;  // the same where more lists are wanted than the largest sample has rows for
constexpr std::size_t kRotationRows = 16384;

// Rows of the sample in random order, in model space but not rotated.
class Sample {
 public:
  Sample(const TrainingTask& task, const MatrixView& all, Distance distance, std::size_t wanted)
      : task_(task), dim_(all.dim) {
    const std::vector<std::size_t> order = random_order(all.rows, wanted);
    count_ = order.size();
    rows_ = Bytes(count_ * dim_ * sizeof(float), Bytes::Fill::kGradual);
    constexpr std::size_t kGrain = 1024;
    compute::in_parallel(count_, kGrain, count_ / kGrain, [&](std::size_t first, std::size_t last) {
      task_.poll()();
      std::vector<std::byte> picked((last - first) * all.stride());
      for (std::size_t i = first; i < last; ++i) {
        std::memcpy(picked.data() + (i - first) * all.stride(), all.row(order[i]), all.stride());
      }
      const MatrixView view{picked.data(), last - first, dim_, all.type};
      to_model_space(view, distance, {}, data() + first * dim_);
    });
  }

  SampleView view() const {
    return {reinterpret_cast<const float*>(rows_.data()), count_, dim_};
  }

  // Sums are taken in the order of the rows, whatever threads there are.
  std::vector<float> mean() const {
    const SampleView rows = view();
    std::vector<float> mean(dim_);
    constexpr std::size_t kGrain = 16;  // elements that lie together in memory
    compute::in_parallel(dim_, kGrain, rows.rows >> 12, [&](std::size_t first, std::size_t last) {
      double sums[kGrain] = {};
      SparsePoll poll;
      for (std::size_t i = 0; i < rows.rows; ++i) {
        poll();
        for (std::size_t d = first; d < last; ++d) {
          sums[d - first] += static_cast<double>(rows.row(i)[d]);
        }
      }
      for (std::size_t d = first; d < last; ++d) {
        mean[d] = static_cast<float>(sums[d - first] / static_cast<double>(rows.rows));
      }
    });
    return mean;
  }

 private:
  float* data() { return reinterpret_cast<float*>(rows_.data()); }

  const TrainingTask& task_;
  std::uint32_t dim_;
  std::size_t count_ = 0;
  Bytes rows_;  // float32
};

std::vector<float> residuals(const TrainingTask& task, const SampleView& sample,
                             const IvfParts& parts) {
  std::vector<Nearest> nearest(sample.rows);
  NearestList(task.devices(), parts.centroids.data(), parts.shape.lists, sample.dim)
      .find(sample.data, sample.rows, task.cancellation(), nearest.data());
  std::vector<float> out(sample.data, sample.data + sample.rows * sample.dim);
  SparsePoll poll(1024);
  for (std::size_t i = 0; i < sample.rows; ++i) {
    poll();
    const float* centroid = parts.centroids.data() + std::size_t{nearest[i].list} * sample.dim;
    for (std::uint32_t d = 0; d < sample.dim; ++d) out[i * sample.dim + d] -= centroid[d];
  }
  return out;
}

void rotate(const std::vector<float>& rotation, std::uint32_t dim, std::vector<float>* rows) {
  std::vector<float> rotated(rows->size());
  multiply(rows->data(), rows->size() / dim, dim, rotation.data(), dim, rotated.data());
  rows->swap(rotated);
}

// Leaves out rows that are far from all others: each would get a codeword of its own, and the
// tables of a query would be stretched to hold it.
void drop_outliers(std::uint32_t dim, std::vector<float>* rows) {
  constexpr double kFar = 25;  // times the median of the squared norms
  const std::size_t count = rows->size() / dim;
  std::vector<double> squares(count);
  SparsePoll poll(1024);
  for (std::size_t i = 0; i < count; ++i) {
    poll();
    for (std::uint32_t d = 0; d < dim; ++d) {
      const double x = (*rows)[i * dim + d];
      squares[i] += x * x;
    }
  }
  std::vector<double> sorted = squares;
  const auto median = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(sorted.begin(), median, sorted.end());
  if (!(*median > 0)) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    poll();
    if (squares[i] > kFar * *median) continue;
    std::copy_n(rows->begin() + static_cast<std::ptrdiff_t>(i * dim), dim,
                rows->begin() + static_cast<std::ptrdiff_t>(kept++ * dim));
  }
  rows->resize(kept * dim);
}

// Brings lists that are near each other together, in groups: a query compares the groups first.
void group_lists(const TrainingTask& task, const IvfOptions& options, IvfParts* parts) {
  const std::uint32_t dim = parts->shape.dim, lists = parts->shape.lists;
  const std::uint32_t wanted = groups_for(options, dim, lists);
  if (wanted == 0) return;
  std::vector<float>& centroids = parts->centroids;
  parts->group_centroids = kmeans(task, {centroids.data(), lists, dim}, wanted);
  const auto groups = static_cast<std::uint32_t>(parts->group_centroids.size() / dim);
  std::vector<Nearest> nearest(lists);
  NearestList(task.devices(), parts->group_centroids.data(), groups, dim)
      .find(centroids.data(), lists, task.cancellation(), nearest.data());
  std::vector<std::uint32_t> order(lists);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return nearest[a].list < nearest[b].list;
  });
  std::vector<float> grouped, kept;
  const auto append = [dim](const std::vector<float>& from, std::size_t i, std::vector<float>* to) {
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(i * dim);
    to->insert(to->end(), at, at + dim);
  };
  for (std::uint32_t i = 0; i < lists; ++i) {
    const std::uint32_t group = nearest[order[i]].list;
    if (i == 0 || group != nearest[order[i - 1]].list) {
      parts->group_begins.push_back(i);
      append(parts->group_centroids, group, &kept);
    }
    append(centroids, order[i], &grouped);
  }
  parts->shape.groups = static_cast<std::uint32_t>(parts->group_begins.size());
  parts->group_begins.push_back(lists);
  centroids.swap(grouped);
  parts->group_centroids.swap(kept);
}

// Of the squared lengths of rows from `origin`.
double median_square(const SampleView& rows, const float* origin) {
  std::vector<double> squares(rows.rows);
  SparsePoll poll(1024);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    poll();
    for (std::uint32_t d = 0; d < rows.dim; ++d) {
      const double from = origin == nullptr ? 0 : static_cast<double>(origin[d]);
      const double x = static_cast<double>(rows.row(i)[d]) - from;
      squares[i] += x * x;
    }
  }
  const auto median = squares.begin() + static_cast<std::ptrdiff_t>(rows.rows / 2);
  std::nth_element(squares.begin(), median, squares.end());
  return *median;
}

// Says whether rows are so much nearer to their lists than to the mean that tables which serve all
// lists would hide what tells rows of a list apart. Measured on 500 clusters in 64 dimensions:
// where their spread is 0.05,
// 0.01 and 0.001 of the distance between them, codes alone find 0.71, 0.70 and 0.68 with tables by
// list, and
// 0.68, 0.44 and 0.14 with tables for all; at 0.1 the latter have lost nothing.
bool wants_tables_by_list(const SampleView& residuals, const SampleView& rows,
                          const std::vector<float>& mean) {
  constexpr double kFarther = 256;  // squares
  const double within = median_square(residuals, nullptr);
  return within > 0 && median_square(rows, mean.data()) > kFarther * within;
}

void rotate_at_random(std::uint32_t dim, std::vector<float>* rows) {
  for (std::size_t at = 0; at < rows->size(); at += dim) {
    compute::rotate_at_random(dim, rows->data() + at);
  }
}

// RaBitQ codes need nothing but lists. Where these are not rotated, groups are.
void finish_rotation(const IvfOptions& options, IvfParts* parts) {
  parts->shape.planes = options.planes;
  parts->rotated = options.rotate;
  if (options.rotate) rotate_at_random(parts->shape.dim, &parts->centroids);
  if (options.rotate || options.planes == 0) {
    rotate_at_random(parts->shape.dim, &parts->group_centroids);
  }
}

// Everything but the lists.
void train_codes(const TrainingTask& task, const IvfOptions& options, Distance distance,
                 const Sample& sample, IvfParts* parts) {
  const std::uint32_t dim = parts->shape.dim;
  parts->mean = sample.mean();
  std::vector<float> rows = residuals(task, sample.view().first(kCodebookRows), *parts);
  if (distance != Distance::kInnerProduct && rows.size() != 0) {
    parts->shape.listwise = wants_tables_by_list({rows.data(), rows.size() / dim, dim},
                                                 sample.view().first(kCodebookRows), parts->mean);
  }
  drop_outliers(dim, &rows);
  if (options.opq) {
    const SampleView view = SampleView{rows.data(), rows.size() / dim, dim}.first(kRotationRows);
    parts->rotation = train_rotation(task.part(0, 0.6), view, options.m, options.codewords());
    rotate(parts->rotation, dim, &rows);
    rotate(parts->rotation, dim, &parts->centroids);
    rotate(parts->rotation, dim, &parts->group_centroids);
    rotate(parts->rotation, dim, &parts->mean);
  }
  const SampleView view{rows.data(), rows.size() / dim, dim};
  const TrainingTask rest = options.opq ? task.part(0.6, 1) : task;
  parts->codebooks = train_codebooks(rest, view, options.m, options.codewords()).values;
}

// Where the number is ours to choose there are no more than the sample has rows for, few as they
// may be when little time was given to gather them.
std::uint32_t lists_of(const IvfOptions& options, std::size_t sample_rows, std::uint64_t table_rows) {
  const std::uint32_t wanted =
      lists_for(options, std::max<std::uint64_t>(table_rows, sample_rows));
  if (options.lists != 0) return wanted;
  const std::size_t fewest = sample_rows < kMostSampleRows / 2 ? kFewestSampleRowsPerList : kFewestOfManyRows;
  const std::size_t most = std::max<std::size_t>(sample_rows / fewest, 1);
  return static_cast<std::uint32_t>(std::min<std::size_t>(wanted, most));
}

}  // namespace

std::size_t training_rows(const IvfOptions& options, std::uint64_t rows) {
  std::size_t wanted = lists_for(options, rows) * kSampleRowsPerList;
  if (options.has_codebooks()) wanted = std::max(wanted, kCodebookRows);
  return static_cast<std::size_t>(std::min<std::uint64_t>(std::min(wanted, kMostSampleRows), rows));
}

IvfParts train_ivf(const TrainingTask& task, const IvfOptions& options, const ColumnShape& column,
                   const MatrixView& sample, std::uint64_t table_rows) {
  const std::uint32_t lists = lists_of(options, sample.rows, table_rows);
  if (sample.rows < lists) {
    throw Error(ErrorKind::kInvalid,
                "training lists=" + std::to_string(lists) +
                    " needs at least as many rows with a vector, but there are " +
                    std::to_string(sample.rows));
  }
  IvfParts parts;
  parts.trained_on = sample.rows;
  parts.table_rows = table_rows;
  const bool coded = options.has_codebooks();
  const std::size_t wanted = std::max(lists * kKmeansRows, coded ? kCodebookRows : 0);
  const std::size_t most = std::max<std::size_t>(lists, sample.rows - held_rows(sample.rows));
  const Sample rows(task, sample, column.distance, std::min(wanted, most));
  const TrainingTask lists_task = task.part(0, coded ? 0.5 : 1);
  parts.centroids = kmeans(lists_task.part(0, 0.95), rows.view(), lists);
  const auto found = static_cast<std::uint32_t>(parts.centroids.size() / column.dim);
  parts.shape = {column.dim, found, options.m, options.m != 0 ? options.bits : 8};
  group_lists(lists_task.part(0.95, 1), options, &parts);
  if (coded) train_codes(task.part(0.5, 1), options, column.distance, rows, &parts);
  finish_rotation(options, &parts);
  return parts;
}

}  // namespace warplite::index
