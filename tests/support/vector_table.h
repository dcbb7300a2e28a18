// A table of random vectors in small segments, and searches of it on any device, for tests of
// what happens between the engine and devices.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/filter/filter.h"
#include "engine/residency/uploader.h"
#include "engine/search/search.h"
#include "tests/support/engine_fixture.h"

namespace warplite::engine {

// (query, rowid, distance), in order.
using Found = std::vector<std::tuple<std::size_t, RowId, double>>;

class VectorTable {
 public:
  // `rows` vectors in segments of `segment_rows`. Elements are small integers, unless it is said
  // how to draw them.
  using Draw = std::function<float(std::mt19937&)>;
  VectorTable(unsigned seed, int rows, std::uint32_t dim = 64, std::uint32_t segment_rows = 64,
              Draw draw = [](std::mt19937& random) { return static_cast<float>(random() % 5); })
      : dim_(dim), random_(seed), draw_(std::move(draw)) {
    options_.layout.vectors = {{ElementType::kFloat32, dim}};
    options_.layout.plains = {PlainType::kInteger};
    options_.plain_names = {"n"};
    options_.vectors = {{"v", Distance::kL2, {}}};
    options_.layout.segment_rows = segment_rows;
    options_.tail_rows = 1;
    db_.run("BEGIN");
    table_ = Collection::create(db_.get(), "main", "t", options_);
    table_->begin();
    insert(rows);
    flush();
  }
  ~VectorTable() {
    db_.run("ROLLBACK");
    table_->rollback();
  }
  VectorTable(const VectorTable&) = delete;
  VectorTable& operator=(const VectorTable&) = delete;

  void insert(int count) {
    for (int i = 0; i < count; ++i) add(std::nullopt);
  }
  // Gives a row another vector.
  void change(RowId rowid) {
    table_->erase(rowid);
    add(rowid);
  }
  // Pending rows become part of segments.
  void flush() { table_->sync(); }

  // Has the device get a copy of everything, in the background.
  void request_uploads(compute::Device& device) {
    const auto view = table_->view();
    std::vector<Uploader::Item> items;
    for (std::size_t i = 0; i < view->parts(); ++i) {
      const Part::Vectors vectors = view->part(i).vectors(0);
      if (vectors.resident != nullptr) items.push_back({vectors.key, vectors.resident});
    }
    Uploader::instance().request(device, std::move(items));
  }

  // The copies on a device, in use for as long as they are held.
  std::vector<std::shared_ptr<const compute::Buffer>> hold(compute::Device& device) {
    const auto view = table_->view();
    std::vector<std::shared_ptr<const compute::Buffer>> held;
    for (std::size_t i = 0; i < view->parts(); ++i) {
      const Part::Vectors vectors = view->part(i).vectors(0);
      REQUIRE(Residency::instance()
                  .buffer(device, vectors.key, vectors.resident, &held.emplace_back())
                  .ok());
    }
    return held;
  }

  std::shared_ptr<const View> view() { return table_->view(); }

  // Bytes of the vectors that devices keep.
  std::size_t bytes() {
    const auto view = table_->view();
    std::size_t sum = 0;
    for (std::size_t i = 0; i < view->parts(); ++i) sum += view->part(i).vector_bytes(0);
    return sum;
  }
  std::size_t segment_bytes() const { return options_.layout.segment_rows * dim_ * 4; }

  void ask(std::size_t queries) {
    queries_.resize(queries * dim_);
    for (float& x : queries_) x = element();
  }
  SearchRequest request(const std::string& device) const {
    SearchRequest request;
    request.queries = {reinterpret_cast<const std::byte*>(queries_.data()),
                       queries_.size() / dim_, dim_, ElementType::kFloat32};
    request.device = device;
    return request;
  }
  // The ten nearest rows of each query.
  Found nearest_ten(const std::string& device = "") { return nearest_ten(request(device)); }
  Found nearest_ten(const SearchRequest& request) {
    const auto view = table_->view();
    auto best = nearest(*view, Selection(*view, {}), table_->index(0), request, 10);
    Found found;
    for (std::size_t q = 0; q < best.queries(); ++q) {
      for (const Hit& hit : best.sorted(q)) found.emplace_back(q, hit.rowid, hit.distance);
    }
    return found;
  }
  // Rows whose n is 3, within a distance.
  Found within_some(const std::string& device = "") {
    const auto view = table_->view();
    Predicate predicate;
    predicate.column = 0;
    predicate.operands = {Value(Cell::of(std::int64_t{3}))};
    SearchRequest ranged = request(device);
    ranged.range.high = std::sqrt(static_cast<double>(dim_)) * 1.6;
    auto lists = within(*view, Selection(*view, {predicate}), table_->index(0), ranged);
    Found found;
    for (std::size_t q = 0; q < lists.size(); ++q) {
      for (const Hit& hit : lists[q]) found.emplace_back(q, hit.rowid, hit.distance);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  float element() { return draw_(random_); }
  void add(std::optional<RowId> rowid) {
    std::vector<float> vector(dim_);
    for (float& x : vector) x = element();
    const Cell bytes = Cell::blob({reinterpret_cast<const char*>(vector.data()), dim_ * 4});
    const Cell number = Cell::of(static_cast<std::int64_t>(random_() % 5));
    NewRow row;
    row.rowid = rowid;
    row.vectors = &bytes;
    row.plains = &number;
    table_->insert(row, OnConflict::kAbort);
  }

  const std::uint32_t dim_;
  std::mt19937 random_;
  const Draw draw_;
  Database db_;
  TableOptions options_;
  std::shared_ptr<Collection> table_;
  std::vector<float> queries_;
};

}  // namespace warplite::engine
