// Edit distances of rows that are in no tile: compared one by one, on all threads of searches.
// Threads: as the view's connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compute/edit_distance.h"
#include "engine/residency/common_cancellation.h"
#include "engine/text/edit_tiles.h"

namespace warplite::engine {

class EditRows {
 public:
  EditRows(const View& view, const EditColumn& column, std::span<const CodePoints> queries,
           compute::Cancellation* cancellation)
      : view_(view), column_(column), queries_(queries), cancellation_(cancellation) {}

  // Compares rows of a part, NULLs left out. `limit`: no farther hit of the query is of use;
  // `add`: takes a hit. Neither is called by two threads at once.
  using Limit = std::function<double(std::size_t query)>;
  using Add = std::function<void(std::size_t query, const Hit& hit)>;
  void compare(std::uint32_t part, std::span<const std::uint32_t> rows, const Limit& limit,
               const Add& add);

 private:
  struct Found {
    std::size_t query;
    Hit hit;
  };
  void compare_some(std::uint32_t part, const Column& texts,
                    std::span<const std::uint32_t> rows, const std::vector<double>& limits,
                    std::vector<Found>& found);
  void make_patterns();

  const View& view_;
  const EditColumn& column_;
  const std::span<const CodePoints> queries_;
  CommonCancellation cancellation_;
  std::vector<std::unique_ptr<const compute::EditPattern>> patterns_;  // once they are needed
};

}  // namespace warplite::engine
