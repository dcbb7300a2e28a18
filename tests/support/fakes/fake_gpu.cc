#include "tests/support/fakes/fake_gpu.h"

#include <cstring>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "cpu/cpu_device.h"
#include "index/clustering/model_space.h"
#include "tests/reference/reference.h"

namespace warplite::testing {
namespace {

compute::Device& host() {
  static compute::Device& device = *cpu::make_cpu_device().release();
  return device;
}

}  // namespace

class FakeGpu::Buffer : public compute::Buffer {
 public:
  Buffer(FakeGpu& device, std::size_t size, std::size_t own, const std::byte* data,
         std::shared_ptr<const compute::Buffer> host)
      : device_(device), size_(size), own_(own), data_(data), host_(std::move(host)) {
    device_.mapped += size_ - own_;
  }
  ~Buffer() override {
    device_.used -= own_;
    device_.mapped -= size_ - own_;
  }
  std::size_t size() const override { return size_; }
  const compute::Buffer* on_host(const FakeGpu& device) const {
    WARP_CHECK(&device == &device_);
    return host_.get();
  }
  const std::byte* data() const { return data_; }
  const FakeGpu& device() const { return device_; }

 private:
  FakeGpu& device_;
  std::size_t size_;
  std::size_t own_;
  const std::byte* data_;
  std::shared_ptr<const compute::Buffer> host_;
};

FakeGpu::FakeGpu(std::string name) : name_(std::move(name)) {}

compute::DeviceInfo FakeGpu::describe() const {
  return {name_, model, lost ? "lost" : "ready", !lost, memory, used};
}

bool FakeGpu::supports(ElementType type, Distance distance) const {
  return host().supports(type, distance);
}

Status FakeGpu::keep(compute::HostBytes bytes, std::size_t own,
                     std::shared_ptr<const compute::Buffer>* out) {
  const std::size_t size = bytes.size;
  const std::byte* const data = bytes.data;
  std::shared_ptr<const compute::Buffer> on_host;
  Status status = host().make_resident(std::move(bytes), &on_host);
  if (status.ok()) *out = std::make_shared<Buffer>(*this, size, own, data, std::move(on_host));
  return status;
}

Status FakeGpu::take(std::size_t bytes) {
  uploads_pass.pass();
  if (uploads >= most_uploads) lost = true;
  if (lost) return {ErrorKind::kDevice, "it is lost"};
  const std::size_t now = used += bytes;
  if (now > memory || fail_uploads > 0) {
    used -= bytes;
    --fail_uploads;
    return {ErrorKind::kNoMemory, "it is full"};
  }
  if (most_used < now) most_used = now;
  ++uploads;
  uploaded_bytes += bytes;
  return {};
}

Status FakeGpu::make_resident(compute::HostBytes bytes,
                              std::shared_ptr<const compute::Buffer>* out) {
  if (Status status = take(bytes.size); !status.ok()) return status;
  if (const auto* twin = dynamic_cast<const Buffer*>(bytes.twin.get())) {
    WARP_CHECK(twin->size() == bytes.size && &twin->device() != this);
    bytes.data = twin->data();
    ++twins;
  }
  auto copy = std::make_shared<Bytes>(bytes.size);
  if (bytes.size != 0) std::memcpy(copy->data(), bytes.data, bytes.size);
  const std::byte* data = copy->data();
  return keep({std::move(copy), data, bytes.size}, bytes.size, out);
}

Status FakeGpu::map_host(compute::HostBytes bytes, std::size_t held,
                         std::shared_ptr<const compute::Buffer>* out) {
  if (!maps) return {ErrorKind::kUnsupported, "it does not map"};
  if (fail_mappings > 0) {
    --fail_mappings;
    return {ErrorKind::kLimit, "it does not map this"};
  }
  if (held != 0) {
    if (Status status = take(held); !status.ok()) return status;
    ++partly_held;
  }
  ++mappings;
  bytes.twin = nullptr;
  return keep(std::move(bytes), held, out);
}

std::vector<compute::Block> FakeGpu::on_host(std::span<const compute::Block> given) const {
  std::vector<compute::Block> blocks(given.begin(), given.end());
  for (compute::Block& block : blocks) {
    block.vectors = on_host(block.vectors);
  }
  return blocks;
}

const compute::Buffer* FakeGpu::on_host(const compute::Buffer* buffer) const {
  return buffer == nullptr ? nullptr : static_cast<const Buffer*>(buffer)->on_host(*this);
}

void FakeGpu::count(std::size_t queries_asked) {
  ++operations;
  queries += queries_asked;
}

Status FakeGpu::refuse() {
  if (lost) return {ErrorKind::kDevice, "it is lost"};
  if (fail_searches <= 0) return {};
  --fail_searches;
  if (dies) lost = true;
  return {failure, "it failed"};
}

void FakeGpu::make_copies(const compute::Workload& work) {
  if (!makes_copies || work.budget == nullptr) return;
  std::vector<compute::MemoryBudget::Growth> growth;
  for (const compute::Block& block : work.blocks) {
    growth.push_back({block.vectors, block.vectors->size() / 2});
  }
  if (!work.budget->reserve(growth)) ++copies_refused;
}

template <typename Operation>
Status FakeGpu::run(const compute::Workload& work, const Operation& operation) {
  if (Status status = refuse(); !status.ok()) return status;
  make_copies(work);
  const std::vector<compute::Block> blocks = on_host(work.blocks);
  compute::Workload translated = work;
  translated.blocks = blocks;
  count(work.queries.rows);
  return operation(translated);
}

Status FakeGpu::nearest(const compute::Workload& work, compute::HitTable& best) {
  return run(work, [&](const compute::Workload& w) { return host().nearest(w, best); });
}

bool FakeGpu::supports_ivf(const compute::IvfShape& shape) const {
  return searches_ivf && !flat_only && host().supports_ivf(shape);
}

void FakeGpu::check_rows(const compute::IvfWork& work) {
  if (work.rows == 0) return;
  std::vector<std::int64_t> rows;
  for (const compute::IvfRun& run : work.runs) {
    for (const compute::Block& block : run.blocks) {
      rows.push_back(block.id);
      for (std::uint32_t row = 0; row < block.rows; ++row) {
        const bool live = block.live == nullptr || (block.live[row / 64] >> (row % 64) & 1) != 0;
        rows.push_back(live ? block.rowids[row] : -1);
      }
    }
  }
  const std::lock_guard lock(rows_mutex_);
  const auto [known, is_new] = rows_.try_emplace(work.rows, rows);
  WARP_CHECK(is_new || known->second == rows);
}

Status FakeGpu::ivf_nearest(const compute::IvfWork& work, compute::HitTable& best) {
  if (Status status = refuse(); !status.ok()) return status;
  check_rows(work);
  const auto translate = [this](const compute::Buffer*& buffer) { buffer = on_host(buffer); };
  compute::IvfWork translated = work;
  if (!counts) {
    translated.probed = nullptr;
    translated.left = nullptr;
  }
  translate(translated.model.centroids);
  translate(translated.model.codebooks);
  translate(translated.model.coarse);
  std::vector<compute::IvfRun> runs(work.runs.begin(), work.runs.end());
  std::vector<std::vector<compute::Block>> blocks;
  for (compute::IvfRun& run : runs) {
    translate(run.bytes);
    run.blocks = blocks.emplace_back(on_host(run.blocks));
  }
  translated.runs = runs;
  std::vector<float> model_queries;
  if (work.model_queries == nullptr) {
    model_queries.resize(work.queries.rows * work.queries.dim);
    index::to_model_space(work.queries, work.distance, {nullptr, true}, model_queries.data());
    translated.model_queries = model_queries.data();
    rotated += work.queries.rows;
  }
  count(work.queries.rows);
  ++ivf_operations;
  return host().ivf_nearest(translated, best);
}

Status FakeGpu::tally(const compute::TallyWork& work, compute::ListTallies& out) {
  if (flat_only) return Device::tally(work, out);
  if (Status status = refuse(); !status.ok()) return status;
  count(work.blocks.size());
  const auto data = [](const compute::Buffer* buffer) {
    return static_cast<const Buffer*>(buffer)->data();
  };
  std::vector<compute::Block> blocks(work.blocks.begin(), work.blocks.end());
  for (compute::Block& block : blocks) block.host = data(block.vectors);
  compute::TallyWork translated = work;
  translated.blocks = blocks;
  if (work.turn != nullptr && !work.turn->await(work.lists)) {
    return {ErrorKind::kInterrupted, "interrupted"};
  }
  compute::reference_tally(translated, reinterpret_cast<const float*>(data(work.centroids)), out);
  if (work.turn != nullptr) work.turn->pass_on(work.lists);
  ++tallies;
  return {};
}

Status FakeGpu::within(const compute::Workload& work, compute::HitLists& out) {
  return run(work, [&](const compute::Workload& w) { return host().within(w, out); });
}

template <typename Work, typename Operation>
Status FakeGpu::run_tiles(const Work& work, const Operation& operation) {
  if (Status status = refuse(); !status.ok()) return status;
  std::vector tiles(work.tiles.begin(), work.tiles.end());
  for (auto& tile : tiles) tile.bytes = on_host(tile.bytes);
  Work translated = work;
  translated.tiles = tiles;
  count(work.queries());
  return operation(translated);
}

Status FakeGpu::match(const compute::MatchWork& work, compute::HitTable& best) {
  return run_tiles(work, [&](const compute::MatchWork& w) { return host().match(w, best); });
}

Status FakeGpu::edit_nearest(const compute::EditWork& work, compute::HitTable& best) {
  return run_tiles(work, [&](const compute::EditWork& w) { return host().edit_nearest(w, best); });
}

Status FakeGpu::edit_within(const compute::EditWork& work, compute::HitLists& out) {
  return run_tiles(work, [&](const compute::EditWork& w) { return host().edit_within(w, out); });
}

Status FakeGpu::match_codes(const compute::CodeWork& work, compute::HitTable& best) {
  if (Status status = refuse(); !status.ok()) return status;
  std::vector<compute::CodeTile> tiles(work.tiles.begin(), work.tiles.end());
  std::vector<const compute::Buffer*> columns(tiles.size() * work.columns);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const compute::Buffer** const own = columns.data() + i * work.columns;
    for (std::size_t c = 0; c < work.columns; ++c) own[c] = on_host(tiles[i].columns[c]);
    tiles[i].columns = own;
  }
  compute::CodeWork translated = work;
  translated.tiles = tiles;
  count(work.queries());
  return host().match_codes(translated, best);
}

}  // namespace warplite::testing
