// k-means over all rows of a vector column. It begins with what index/clustering/kmeans.h learns from a
// sample of 32 rows a cluster, and then moves the centroids by passes over every row. GPUs that
// have room for the rows hold them, find the cluster of each and add them up (passed_rows.h); else
// they are read part by part, so that memory is bounded by some parts and the sample.
// Of 200,000 × 128 rows and 2,048 clusters it takes 2.2 seconds of a core (Zen 5) to learn
// from the sample, and 1.1 for each of up to ten passes.
// Vectors are compared as index/clustering/model_space.h has them: for cosine divided by their norm.
// The same result on every device and on any number of them, with any number of threads.
// Threads: as the view's connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "engine/table/view.h"
#include "index/trained.h"

namespace warplite::engine {

struct ClusterRequest {
  std::size_t column = 0;  // index into Layout::vectors; not of BIT
  Distance distance = Distance::kL2;
  std::uint32_t clusters = 1;
  std::size_t passes = 10;  // at most: it ends when a pass gains next to nothing
  std::string device;       // empty: the configured one
  compute::Cancellation* cancellation = nullptr;
};

struct Clusters {
  std::vector<float> centroids;      // [sizes.size()][dim]
  std::vector<std::uint64_t> sizes;  // rows to which this centroid is the nearest (l2); none is 0
};

// Makes as many clusters as asked for, if there are as many different rows. Throws
// Error{kInterrupted}.
Clusters cluster_rows(const View& view, const ClusterRequest& request,
                      const index::Progress& progress);

}  // namespace warplite::engine
