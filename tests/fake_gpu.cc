#include "tests/fake_gpu.h"

#include <cstring>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "cpu/cpu_device.h"

namespace warplite::testing {
namespace {

compute::Device& host() {
  static compute::Device& device = *cpu::make_cpu_device().release();
  return device;
}

}  // namespace

class FakeGpu::Buffer : public compute::Buffer {
 public:
  Buffer(FakeGpu& device, std::size_t size, std::size_t own,
         std::shared_ptr<const compute::Buffer> host)
      : device_(device), size_(size), own_(own), host_(std::move(host)) {}
  ~Buffer() override { device_.used -= own_; }
  std::size_t size() const override { return size_; }
  const compute::Buffer* on_host(const FakeGpu& device) const {
    WARP_CHECK(&device == &device_);
    return host_.get();
  }

 private:
  FakeGpu& device_;
  std::size_t size_;
  std::size_t own_;
  std::shared_ptr<const compute::Buffer> host_;
};

FakeGpu::FakeGpu(std::string name) : name_(std::move(name)) {}

compute::DeviceInfo FakeGpu::describe() const {
  return {name_, "fake", lost ? "lost" : "ready", !lost, memory, used};
}

bool FakeGpu::supports(ElementType type, Distance distance) const {
  return host().supports(type, distance);
}

Status FakeGpu::keep(compute::HostBytes bytes, std::size_t own,
                     std::shared_ptr<const compute::Buffer>* out) {
  const std::size_t size = bytes.size;
  std::shared_ptr<const compute::Buffer> on_host;
  Status status = host().make_resident(std::move(bytes), &on_host);
  if (status.ok()) *out = std::make_shared<Buffer>(*this, size, own, std::move(on_host));
  return status;
}

Status FakeGpu::make_resident(compute::HostBytes bytes,
                              std::shared_ptr<const compute::Buffer>* out) {
  uploads_pass.pass();
  if (lost) return {ErrorKind::kDevice, "it is lost"};
  const std::size_t now = used += bytes.size;
  if (now > memory || fail_uploads > 0) {
    used -= bytes.size;
    --fail_uploads;
    return {ErrorKind::kNoMemory, "it is full"};
  }
  if (most_used < now) most_used = now;
  ++uploads;
  uploaded_bytes += bytes.size;
  auto copy = std::make_shared<Bytes>(bytes.size);
  if (bytes.size != 0) std::memcpy(copy->data(), bytes.data, bytes.size);
  const std::byte* data = copy->data();
  return keep({std::move(copy), data, bytes.size}, bytes.size, out);
}

Status FakeGpu::map_host(compute::HostBytes bytes, std::shared_ptr<const compute::Buffer>* out) {
  if (!maps) return {ErrorKind::kUnsupported, "it does not map"};
  ++mappings;
  return keep(std::move(bytes), 0, out);
}

std::vector<compute::Block> FakeGpu::on_host(std::span<const compute::Block> given) const {
  std::vector<compute::Block> blocks(given.begin(), given.end());
  for (compute::Block& block : blocks) {
    if (block.vectors == nullptr) continue;
    block.vectors = static_cast<const Buffer*>(block.vectors)->on_host(*this);
  }
  return blocks;
}

Status FakeGpu::refuse() {
  if (lost) return {ErrorKind::kDevice, "it is lost"};
  if (fail_searches <= 0) return {};
  --fail_searches;
  if (dies) lost = true;
  return {failure, "it failed"};
}

template <typename Operation>
Status FakeGpu::run(const compute::Workload& work, const Operation& operation) {
  if (Status status = refuse(); !status.ok()) return status;
  const std::vector<compute::Block> blocks = on_host(work.blocks);
  compute::Workload translated = work;
  translated.blocks = blocks;
  ++operations;
  queries += work.queries.rows;
  return operation(translated);
}

Status FakeGpu::nearest(const compute::Workload& work, compute::HitTable& best) {
  return run(work, [&](const compute::Workload& w) { return host().nearest(w, best); });
}

bool FakeGpu::supports_ivf(const compute::IvfShape& shape) const {
  return searches_ivf && host().supports_ivf(shape);
}

Status FakeGpu::ivf_nearest(const compute::IvfWork& work, compute::HitTable& best) {
  if (Status status = refuse(); !status.ok()) return status;
  const auto translate = [this](const compute::Buffer*& buffer) {
    if (buffer != nullptr) buffer = static_cast<const Buffer*>(buffer)->on_host(*this);
  };
  compute::IvfWork translated = work;
  translate(translated.model.centroids);
  translate(translated.model.codebooks);
  std::vector<compute::IvfRun> runs(work.runs.begin(), work.runs.end());
  std::vector<std::vector<compute::Block>> blocks;
  for (compute::IvfRun& run : runs) {
    translate(run.bytes);
    run.blocks = blocks.emplace_back(on_host(run.blocks));
  }
  translated.runs = runs;
  ++operations;
  ++ivf_operations;
  queries += work.queries.rows;
  return host().ivf_nearest(translated, best);
}

Status FakeGpu::within(const compute::Workload& work, compute::HitLists& out) {
  return run(work, [&](const compute::Workload& w) { return host().within(w, out); });
}

}  // namespace warplite::testing
