// Everything that a device needs to search a column of a view by codes; as device_set.h has it for
// searches of all rows.
// Threads, ownership: as held_sets.h has it; a set is used while its view lives.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/process/last_few.h"
#include "engine/filter/filter.h"
#include "engine/ivf/code_losses.h"
#include "engine/ivf/runs.h"
#include "engine/residency/handing_over.h"
#include "engine/residency/held_sets.h"
#include "engine/residency/uploader.h"

namespace warplite::engine {

// Model, runs and vectors in host memory. What holds no part that is wanted is left out.
struct IvfBlocks {
  std::shared_ptr<const CodedParts> coded;
  std::vector<bool> wanted;  // parallel to coded->parts
  LoadedModel model;
  std::vector<LoadedRun> runs;         // parallel to coded->runs; neither bytes nor buffer: left out
  std::vector<compute::Block> blocks;  // parallel to coded->parts; lack `live` and buffers
  std::vector<Part::Vectors> vectors;  // parallel to coded->parts, or empty; no resident: left out

  compute::Device* handed_to = nullptr;  // has the runs, of which the host holds none; null: nobody

  // All that a device is to hold. REQUIRES: nothing is handed over.
  std::vector<Uploader::Item> items(compute::Device& device) const;
  // What a device is to hold of each run. Where it has no room for all of them, it reads the first
  // ones in place, but for what is hot, as few as that takes: those are large, and stay as they are
  // when rows are added. Vectors take the room that is left.
  std::vector<Extent> extents(compute::Device& device) const;
  // The part of the rows that is in the list of any of them, on average: 1 / lists, where lists are
  // alike, and 1 where one has all.
  double crowding() const;
};

// `wanted`: by coded part. `onto`: a device that is handed one run after the other, as there is no
// room for all in host memory; null: the host loads them all. Throws Error{kCorrupt}, and what the
// device says.
std::shared_ptr<const IvfBlocks> load_ivf_blocks(const View& view, std::size_t column,
                                                 const index::Trained& index,
                                                 std::shared_ptr<const CodedParts> coded,
                                                 const std::vector<bool>& wanted,
                                                 bool with_vectors, compute::Device* onto);

class IvfSet : public HeldSet {
 public:
  // Has the device hold all of it. Null, and an error, when it cannot. Throws Error{kInterrupted}.
  static std::shared_ptr<IvfSet> create(compute::Device& device,
                                        std::shared_ptr<const IvfBlocks> blocks,
                                        compute::Cancellation* cancellation, Status& status);

  // The same for another device. REQUIRES: !is_handed_over()
  std::shared_ptr<IvfSet> on(compute::Device& other, compute::Cancellation* cancellation,
                             Status& status) const {
    return create(other, blocks_, cancellation, status);
  }

  bool has_vectors() const { return !blocks_->vectors.empty(); }
  // Says whether it holds these parts and no others, so that nothing is found twice where devices
  // share them.
  bool holds(const std::vector<bool>& parts) const { return blocks_->wanted == parts; }
  bool holds_all() const { return holds_all_; }
  bool is_handed_over() const { return blocks_->handed_to != nullptr; }
  double crowding() const { return blocks_->crowding(); }
  const index::InvertedModel& model() const { return *blocks_->model.model; }
  // Adds the nearest of the selected rows that are wanted. `work` lacks model and runs.
  Status search(const Selection& rows, compute::IvfWork work, compute::HitTable& best) const;
  // Calls visit(query, hit without a distance) with all of the selected rows that are wanted in the
  // lists that each query probes. REQUIRES: the model has no codes.
  using Visit = std::function<void(std::size_t, const Hit&)>;
  Status rows_of_lists(const Selection& rows, const compute::IvfWork& work,
                       const Visit& visit) const;

 private:
  Status lists_of(const compute::IvfWork& work, compute::HitTable& lists) const;
  Status grouped_lists_of(const compute::Workload& all, compute::HitTable& lists) const;
  void visit_list(const Selection& rows, std::size_t run, std::uint32_t list, std::size_t query,
                  compute::ProbedList& seen, const Visit& visit) const;
  IvfSet(compute::Device& device, std::shared_ptr<const IvfBlocks> blocks);
  Status fill(compute::Cancellation* cancellation);
  // What a device is told of the selected rows. It is kept for the next search of the same.
  struct Told {
    std::uint64_t key;     // Selection::number()
    std::uint64_t number;  // compute::IvfWork::rows
    std::vector<std::uint64_t> none;
    std::vector<compute::Block> blocks;
    std::vector<compute::IvfRun> runs;
  };
  std::shared_ptr<const Told> told_of(const Selection& rows) const;
  void cut_down(const Selection& rows, Told& out) const;
  Status place(const CacheKey& key, const std::shared_ptr<const ResidentVectors>& bytes,
               const compute::Buffer*& out, Extent extent = Extent::kAll);
  void hold(const CacheKey& key, std::shared_ptr<const compute::Buffer> buffer,
            const compute::Buffer*& out);

  std::shared_ptr<const IvfBlocks> blocks_;
  const bool holds_all_;
  compute::IvfModelBuffers model_;
  std::vector<const compute::Buffer*> runs_;     // parallel to blocks_->runs; null: left out
  std::vector<const compute::Buffer*> vectors_;  // parallel to coded parts; null: left out
  mutable LastFew<Told> told_;
};

// What else is known of coded segments. It belongs to them, as views share them.
class IvfMemo {
 public:
  // Found by the first call. REQUIRES: view.model(column) is not null.
  std::shared_ptr<const CodedParts> coded(const View& view, std::size_t column);
  // The same, without a look-up by name while somebody else holds it.
  std::shared_ptr<const index::InvertedModel> model(const View& view, std::size_t column,
                                                    const index::Trained& index);
  // IvfBlocks::crowding(), once the lists were loaded; until then 0.
  double& crowding(std::size_t number) { return column(number).crowding; }
  CodeLosses& losses(std::size_t number) { return column(number).losses; }
  // Of devices that are not handed a column's codes for now.
  Refusals& refusals(std::size_t number) { return column(number).refusals; }

 private:
  struct Column {
    std::shared_ptr<const CodedParts> coded;
    std::weak_ptr<const index::InvertedModel> model;
    double crowding = 0;
    CodeLosses losses;
    Refusals refusals;
  };
  Column& column(std::size_t number);

  std::vector<Column> columns_;
};

}  // namespace warplite::engine
