// warp_kmeans(table, column, clusters [, iterations [, options]]): the centroids of the column's
// vectors, and how many rows are nearest to each.
#include "engine/filter/content_hits.h"
#include "engine/training/clusters.h"
#include "sql/host/progress.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kCluster, kCentroid, kSize, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kClusters, kIterations, kOptions };
};

constexpr std::int64_t kMostClusters = 1 << 20;
constexpr std::int64_t kMostIterations = 1 << 20;

class ClusterRows final : public Rows {
 public:
  ClusterRows(engine::Clusters clusters, std::uint32_t dim)
      : clusters_(std::move(clusters)), dim_(dim) {}

  bool next() override { return ++returned_ <= clusters_.sizes.size(); }
  bool rewind() override {
    returned_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const std::size_t cluster = returned_ - 1;
    switch (column) {
      case Output::kCluster:
        sqlite3_result_int64(context, static_cast<sqlite3_int64>(cluster));
        break;
      case Output::kCentroid:
        result_vector(context, ElementType::kFloat32, clusters_.centroids.data() + cluster * dim_,
                      dim_ * sizeof(float));
        break;
      case Output::kSize:
        sqlite3_result_int64(context, static_cast<sqlite3_int64>(clusters_.sizes[cluster]));
        break;
    }
  }

 private:
  engine::Clusters clusters_;
  std::size_t dim_;
  std::size_t returned_ = 0;
};

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn);
  if (is_bits(target.column->element)) {
    throw Error(ErrorKind::kInvalid, std::string(call.function()) + ": " + target.place().text() +
                                         " holds BIT vectors, which have no mean; expected FLOAT, "
                                         "FLOAT16 or INT8");
  }
  Interrupt interrupt(call.context().db());
  engine::ClusterRequest request;
  request.column = static_cast<std::size_t>(target.column->slot);
  request.distance = target.column->distance;
  request.clusters = static_cast<std::uint32_t>(call.count(Input::kClusters, 1, kMostClusters));
  if (!call.is_null(Input::kIterations)) {
    request.passes =
        static_cast<std::size_t>(call.count(Input::kIterations, 0, kMostIterations));
  }
  request.device = work_options(call, Input::kOptions).device;
  request.cancellation = &interrupt;
  const std::shared_ptr<const engine::View> view =
      engine::present_view(target.table->collection->view());
  engine::Clusters clusters =
      engine::cluster_rows(*view, request, progress_reporter(target.place().text()));
  return std::make_unique<ClusterRows>(std::move(clusters), target.column->dim);
}

}  // namespace

const TableFunction kKmeans{
    .name = "warp_kmeans",
    .columns = "cluster INTEGER, centroid BLOB, size INTEGER",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"clusters"}, {"iterations", false}, {"options", false}},
    .run = run,
    .orders = {{Output::kCluster}},
};

}  // namespace warplite::sql
