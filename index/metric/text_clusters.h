// List of Clusters of the texts of a tile (metric-range §II-A), for make_text_clusters().
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/edit_metric.h"
#include "index/metric/text_metric_texts.h"

namespace warplite::index {

// Texts that no cluster has taken yet, and their distances. Places are in the order of the tile, so
// that groups are of about one length; now and then those that were taken are left out.
class TextsLeft {
 public:
  explicit TextsLeft(const TileTexts& texts);

  struct Taken {
    std::uint32_t text;
    std::uint16_t distance;
  };

  std::uint32_t count() const { return count_; }
  std::uint32_t text(std::uint32_t place) const { return order_[place]; }
  // Distances become those to the text at this place, and are added to the sums.
  void measure(compute::Device& host, std::uint32_t place, compute::Cancellation* cancellation);
  // Takes the one at `first`, and the nearest of the others: `count` in all, nearest first.
  // REQUIRES: 0 < count ≤ count()
  std::vector<Taken> take(std::uint32_t first, std::uint32_t count);
  // The least distance of those that are left. REQUIRES: count() > 0
  std::uint16_t least() const;
  // The place with the largest sum of distances. REQUIRES: count() > 0
  std::uint32_t farthest() const;
  // Leaves out places of those that were taken, if they are many: places change.
  void tidy();

 private:
  static constexpr std::uint16_t kTaken = 0xffff;  // distance of a place

  std::uint32_t within(std::uint16_t distance) const;
  std::uint16_t edge(std::uint32_t count) const;
  bool none_within(std::uint32_t place, std::uint16_t distance) const;
  void take_place(std::uint32_t place, std::vector<Taken>& out);
  void assign();

  const TileTexts& texts_;
  std::uint32_t count_;
  std::vector<std::uint32_t> order_;      // text by place
  std::vector<std::uint16_t> taken_;      // by place: kTaken, or 0
  std::vector<std::uint16_t> distances_;  // by place, up to whole groups
  std::vector<std::uint32_t> sums_;       // by place; 0 where it was taken
  TextDistances groups_;
};

// Throws Error{kInterrupted}.
compute::TextClusters cluster_texts(compute::Device& host, const TileTexts& texts,
                                    std::uint32_t size, compute::Cancellation* cancellation);

}  // namespace warplite::index
