#include "index/metric/text_clusters.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "index/metric/text_metric.h"

namespace warplite::index {
namespace {

using compute::kEditGroup;
using compute::TextClusters;

constexpr std::uint16_t kNoText = compute::MetricTexts::kNoText;

// One tile's clusters, cluster by cluster.
class Clustering {
 public:
  Clustering(compute::Device& host, const TileTexts& texts, std::uint32_t size)
      : host_(host), texts_(texts), size_(size), left_(texts) {
    out_.begins.push_back(0);
  }

  TextClusters run(compute::Cancellation* cancellation) {
    std::uint32_t centre = texts_.first_row();
    while (left_.count() != 0) {
      add_cluster(centre, cancellation);
      if (left_.count() == 0) break;
      out_.inner.push_back(left_.least());
      left_.tidy();
      centre = left_.farthest();
    }
    out_.inner.resize(out_.count, kNoText);  // none comes after the last one
    out_.centres = texts_.lay_out(centres_);
    out_.members = texts_.lay_out(members_);
    return std::move(out_);
  }

 private:
  // The centre and the texts nearest to it leave those that are left.
  void add_cluster(std::uint32_t centre, compute::Cancellation* cancellation) {
    centres_.push_back(left_.text(centre));
    left_.measure(host_, centre, cancellation);
    for (const TextsLeft::Taken& taken : left_.take(centre, std::min(size_, left_.count()))) {
      members_.push_back(taken.text);
      out_.rows.push_back(texts_.row(taken.text));
      out_.rings.push_back(taken.distance);
    }
    out_.cover.push_back(out_.rings.back());
    members_.resize(std::size_t{text_groups(members_.size())} * kEditGroup, TileTexts::kNobody);
    out_.rows.resize(members_.size());
    out_.rings.resize(members_.size(), kNoText);
    out_.begins.push_back(text_groups(members_.size()));
    ++out_.count;
  }

  compute::Device& host_;
  const TileTexts& texts_;
  const std::uint32_t size_;
  TextsLeft left_;
  std::vector<std::uint32_t> centres_, members_;
  TextClusters out_;
};

class ClusterBuilder : public compute::TextMetricBuilder {
 public:
  explicit ClusterBuilder(std::uint32_t size) : size_(size) {}

  double cost(std::size_t texts) const override {
    const auto n = static_cast<double>(texts);
    return n * (n / size_ / 2 + 1);
  }
  std::shared_ptr<const compute::TextMetric> build(
      compute::Device& host, const compute::EditTile& tile, const std::byte* bytes,
      compute::Cancellation* cancellation) const override {
    auto out = std::make_shared<compute::TextMetric>();
    out->width = tile.width;
    const TileTexts texts(tile, bytes);
    out->clusters = std::make_unique<TextClusters>(cluster_texts(host, texts, size_, cancellation));
    return out;
  }

 private:
  const std::uint32_t size_;
};

}  // namespace

TextsLeft::TextsLeft(const TileTexts& texts)
    : texts_(texts), count_(texts.size()), order_(count_), sums_(count_) {
  std::iota(order_.begin(), order_.end(), 0u);
  assign();
}

void TextsLeft::assign() {
  groups_.assign(texts_, order_);
  taken_.assign(order_.size(), 0);
  distances_.resize(groups_.places());
}

void TextsLeft::measure(compute::Device& host, std::uint32_t place,
                        compute::Cancellation* cancellation) {
  groups_.compute(host, texts_.symbols(order_[place]), cancellation, distances_.data());
  for (std::size_t i = 0; i < order_.size(); ++i) {
    sums_[i] += static_cast<std::uint16_t>(distances_[i] & ~taken_[i]);
    distances_[i] |= taken_[i];
  }
}

// Returns how many places are that near.
std::uint32_t TextsLeft::within(std::uint16_t distance) const {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) count += distances_[i] <= distance ? 1 : 0;
  return count;
}

// The least distance that has so many within; most often it is small.
std::uint16_t TextsLeft::edge(std::uint32_t count) const {
  std::uint32_t low = 0, high = 4;
  while (within(static_cast<std::uint16_t>(high)) < count) {
    low = high + 1;
    high *= 2;
  }
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (within(static_cast<std::uint16_t>(middle)) < count) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return static_cast<std::uint16_t>(low);
}

void TextsLeft::take_place(std::uint32_t place, std::vector<Taken>& out) {
  out.push_back({order_[place], distances_[place]});
  taken_[place] = distances_[place] = kTaken;
  sums_[place] = 0;
  --count_;
}

// Returns whether no place of the group at `place` is that near.
bool TextsLeft::none_within(std::uint32_t place, std::uint16_t distance) const {
  std::uint16_t least = kTaken;
  for (std::size_t i = 0; i < kEditGroup; ++i) least = std::min(least, distances_[place + i]);
  return least > distance;
}

std::vector<TextsLeft::Taken> TextsLeft::take(std::uint32_t first, std::uint32_t count) {
  std::vector<Taken> out;
  out.reserve(count);
  take_place(first, out);
  if (count == 1) return out;
  const std::uint16_t most = edge(count - 1);
  const std::uint32_t nearer = most == 0 ? 0 : within(static_cast<std::uint16_t>(most - 1));
  std::uint32_t at_edge = count - 1 - nearer;
  for (std::uint32_t i = 0; i < order_.size() && out.size() < count; ++i) {
    // Most texts are too far, so they are left out by the group, which is a vector or two.
    if (i % kEditGroup == 0 && none_within(i, most)) {
      i += kEditGroup - 1;
      continue;
    }
    if (distances_[i] > most || (distances_[i] == most && at_edge == 0)) continue;
    if (distances_[i] == most) --at_edge;
    take_place(i, out);
  }
  std::stable_sort(out.begin() + 1, out.end(), [](const Taken& a, const Taken& b) {
    return a.distance < b.distance;
  });
  return out;
}

std::uint16_t TextsLeft::least() const {
  return *std::min_element(distances_.begin(),
                           distances_.begin() + static_cast<std::ptrdiff_t>(order_.size()));
}

std::uint32_t TextsLeft::farthest() const {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) most = std::max(most, sums_[i]);
  std::uint32_t place = 0;
  while (taken_[place] != 0 || sums_[place] != most) ++place;
  return place;
}

void TextsLeft::tidy() {
  if (order_.size() - count_ < order_.size() / 8) return;
  std::uint32_t to = 0;
  for (std::uint32_t place = 0; place < order_.size(); ++place) {
    if (taken_[place] != 0) continue;
    order_[to] = order_[place];
    sums_[to++] = sums_[place];
  }
  order_.resize(to);
  sums_.resize(to);
  assign();
}

TextClusters cluster_texts(compute::Device& host, const TileTexts& texts, std::uint32_t size,
                           compute::Cancellation* cancellation) {
  return Clustering(host, texts, size).run(cancellation);
}

std::unique_ptr<compute::TextMetricBuilder> make_text_clusters(std::uint32_t size) {
  return std::make_unique<ClusterBuilder>(size);
}

}  // namespace warplite::index
