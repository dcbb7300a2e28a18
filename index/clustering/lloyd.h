// Lloyd's iterations: rows go to their nearest centroids, exactly, on a device; centroids to the
// means of their rows, whose sums are taken in double, in the order of the rows. So results depend
// on the rows alone.
// Threads: belongs to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "index/clustering/kmeans.h"
#include "index/clustering/nearest_list.h"
#include "index/training_task.h"

namespace warplite::index {

// Rows by cluster: those of cluster c are rows[begins[c]] … rows[begins[c + 1] − 1], ascending.
struct Members {
  std::vector<std::uint32_t> begins, rows;

  Members(const std::vector<Nearest>& nearest, std::size_t clusters);
  std::size_t clusters() const { return begins.size() - 1; }
  std::uint32_t count(std::size_t c) const { return begins[c + 1] - begins[c]; }
  std::vector<std::uint32_t> counts() const;
};

// The first `wanted` different rows.
std::vector<float> different_rows(const SampleView& sample, std::size_t wanted);

class Lloyd {
 public:
  // REQUIRES: the task outlives this.
  Lloyd(const TrainingTask& task, std::vector<float> centroids, std::uint32_t dim)
      : task_(task), centroids_(std::move(centroids)), dim_(dim) {}

  std::size_t clusters() const { return centroids_.size() / dim_; }
  const float* centroid(std::size_t c) const { return centroids_.data() + c * dim_; }

  std::vector<Nearest> assign(const SampleView& sample) const;
  // Moves centroids to where these rows are. With `reseed`, those without rows begin anew.
  void move(const SampleView& sample, const std::vector<Nearest>& nearest, bool reseed);
  // Up to `iterations` of both, until one gains next to nothing. `told`: before each.
  void run(const SampleView& sample, std::size_t iterations, bool reseed,
           const std::function<void(std::size_t)>& told = {});

  // The centroids that had rows before the last move.
  std::vector<float> take() const;

 private:
  void move_to_means(const SampleView& sample, const Members& members);

  const TrainingTask& task_;
  std::vector<float> centroids_;
  std::uint32_t dim_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace warplite::index
