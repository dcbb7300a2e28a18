// What devices do with memory, threads and the caller's settings: buffers, interruption, targets.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "compute/device.h"
#include "compute/reference.h"
#include "core/bytes.h"
#include "core/system.h"
#include "cpu/cpu_device.h"
#include "cpu/runtime/targets.h"
#include "tests/conformance/ivf_world.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

// Bytes that look like floats from −1 to 1, made faster than by a generator of the library.
std::shared_ptr<Bytes> floats(std::size_t count, std::uint64_t state = 88172645463325252u) {
  auto bytes = std::make_shared<Bytes>(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const float value = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
    std::memcpy(bytes->data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

// GPUs alone: a case that says nothing of the CPU, or would take long there.
std::vector<Candidate> gpus() {
  std::vector<Candidate> found;
  for (const Candidate& candidate : conformance_devices()) {
    if (candidate.asks == 0) found.push_back(candidate);
  }
  return found;
}

Workload work_of(std::span<const Block> blocks, const std::byte* queries, std::size_t count,
                 std::uint32_t dim) {
  Workload work;
  work.queries = {queries, count, dim, ElementType::kFloat32};
  work.blocks = blocks;
  return work;
}

Block block_of(const std::shared_ptr<const Buffer>& buffer, std::uint32_t rows) {
  return {buffer.get(), nullptr, rows, 1, {}, nullptr, rows};
}

}  // namespace

TEST_CASE("devices: what cannot be pinned is refused, and the device goes on") {
  constexpr std::uint32_t kRows = 1000, kDim = 64;
  const auto bytes = floats(kRows * kDim);
  std::vector<std::shared_ptr<const Buffer>> others;  // of each GPU
  for (const Candidate& candidate : gpus()) {
    Device& device = *candidate.device;
    std::shared_ptr<const Buffer> first, again, part, odd, copy;
    REQUIRE(device.map_host({bytes, bytes->data(), bytes->size()}, 0, &first).ok());
    REQUIRE(device.map_host({bytes, bytes->data(), bytes->size()}, 0, &again).ok());
    CHECK(device.map_host({bytes, bytes->data() + 64, bytes->size() - 64}, 0, &part).kind ==
          ErrorKind::kLimit);
    CHECK(device.map_host({bytes, bytes->data() + 4, bytes->size() - 4}, 0, &odd).kind ==
          ErrorKind::kLimit);
    CHECK(device.usable());
    // What another GPU reads of these bytes may be more or less.
    REQUIRE(device.map_host({bytes, bytes->data(), bytes->size()}, bytes->size() / 2, &part).ok());
    others.push_back(part);
    first = nullptr;  // others need the pin
    others.push_back(again);
    REQUIRE(device.make_resident({bytes, bytes->data(), bytes->size()}, &copy).ok());
    for (const auto& buffer : {again, copy}) {
      const Block block = block_of(buffer, kRows);
      HitTable best(7, 5);
      const Status status = device.nearest(work_of({&block, 1}, bytes->data(), 7, kDim), best);
      REQUIRE_MESSAGE(status.ok(), status.message);
      for (std::size_t q = 0; q < 7; ++q) CHECK(best.sorted(q)[0].row == q);
    }
  }
}

TEST_CASE("devices: rows that are read over the bus come some at a time") {
  constexpr std::uint32_t kRows = 300000, kDim = 1024;  // 1.2 GB
  if (gpus().empty()) return;
  const auto bytes = floats(std::size_t{kRows} * kDim);
  for (const Candidate& candidate : gpus()) {
    Device& device = *candidate.device;
    std::shared_ptr<const Buffer> mapped, copy;
    REQUIRE(device.map_host({bytes, bytes->data(), bytes->size()}, 0, &mapped).ok());
    REQUIRE(device.make_resident({bytes, bytes->data(), bytes->size()}, &copy).ok());
    std::vector<std::vector<Hit>> found;
    for (const auto& buffer : {mapped, copy}) {
      const Block block = block_of(buffer, kRows);
      HitTable best(2, 10);
      CountingCancellation cancellation(1000);
      Workload work = work_of({&block, 1}, bytes->data() + 4000, 2, kDim);
      work.cancellation = &cancellation;
      REQUIRE(device.nearest(work, best).ok());
      CHECK(cancellation.asked() >= (buffer == mapped ? 3 : 1));
      for (std::size_t q = 0; q < 2; ++q) found.push_back(best.list(q));
    }
    for (std::size_t i = 0; i < 10; ++i) {
      for (std::size_t q = 0; q < 2; ++q) {
        CHECK(found[q][i].row == found[q + 2][i].row);
        CHECK(found[q][i].distance == found[q + 2][i].distance);
      }
    }
  }
}

TEST_CASE("devices: batches of rows that there is no room for, more than are copied at a time") {
  constexpr std::uint32_t kBlocks = 4, kRows = 80000, kDim = 1024;  // 1.3 GB
  if (gpus().empty()) return;
  std::vector<std::shared_ptr<Bytes>> bytes;
  for (std::uint32_t i = 0; i < kBlocks; ++i) bytes.push_back(floats(std::size_t{kRows} * kDim, i + 1));
  const std::byte* const queries = bytes[2]->data() + 4000;
  for (const Candidate& candidate : gpus()) {
    std::vector<HitTable> found;
    for (const bool here : {true, false}) {
      std::vector<std::shared_ptr<const Buffer>> buffers(kBlocks);
      std::vector<Block> blocks;
      for (std::uint32_t i = 0; i < kBlocks; ++i) {
        const HostBytes rows{bytes[i], bytes[i]->data(), bytes[i]->size()};
        REQUIRE((here ? candidate.device->make_resident(rows, &buffers[i])
                      : candidate.device->map_host(rows, 0, &buffers[i])).ok());
        blocks.push_back(block_of(buffers[i], kRows));
        blocks.back().id = i;
        blocks.back().rowids = {static_cast<RowId>(i) * kRows, nullptr};
      }
      Workload work = work_of(blocks, queries, 70, kDim);
      if (!here) work.budget = &NoRoom::instance();
      found.emplace_back(70, 20);
      REQUIRE(candidate.device->nearest(work, found.back()).ok());
    }
    for (std::size_t q = 0; q < 70; ++q) expect_hits(found[0].sorted(q), found[1].sorted(q), q);
  }
}

TEST_CASE("devices: what is held in part counts so much, and is given back") {
  constexpr std::size_t kHeld = std::size_t{1} << 20;
  const auto bytes = floats(kHeld);
  for (const Candidate& candidate : gpus()) {
    Device& device = *candidate.device;
    const std::size_t before = device.describe().memory_used;
    for (int times = 0; times < 2; ++times) {
      std::shared_ptr<const Buffer> part;
      REQUIRE(device.map_host({bytes, bytes->data(), bytes->size()}, kHeld, &part).ok());
      CHECK(part->size() == bytes->size());
      CHECK(device.describe().memory_used == before + kHeld);
      part = nullptr;
      CHECK(device.describe().memory_used == before);
    }
  }
}

TEST_CASE("devices: runs of which the host keeps the records, or all, give the reference's hits") {
  std::uint64_t seed = 0;
  for (const std::uint32_t planes : {2u, 4u, 8u}) {
    for (const std::size_t queries : {1u, 5u, 70u}) {
      if (gpus().empty()) return;
      ivf::Case c;
      c.shape = {.dim = 96, .lists = 40, .m = 24, .bits = 4, .planes = planes};
      c.list_rows = {300, 0, 1500, 33};
      c.runs = c.blocks = 2;
      c.queries = queries;
      c.nprobe = 20;
      c.filter = queries == 5 ? 5 : 0;
      c.refine = planes == 4 ? 4 : 0;
      c.seed = ++seed;
      for (const ivf::Held held : {ivf::Held::kBeforeRecords, ivf::Held::kNothing}) {
        c.held = held;
        ivf::World world(c);
        for (const Candidate& candidate : gpus()) {
          INFO(candidate.name, ": ", ivf::describe(c));
          world.check(candidate);
        }
      }
    }
  }
}

TEST_CASE("devices: millions of rows within a radius") {
  constexpr std::uint32_t kRows = 2500000;
  if (gpus().empty()) return;
  const auto bytes = floats(kRows);
  for (const Candidate& candidate : gpus()) {
    std::shared_ptr<const Buffer> buffer;
    REQUIRE(candidate.device->make_resident({bytes, bytes->data(), bytes->size()}, &buffer).ok());
    const Block block = block_of(buffer, kRows);
    HitLists lists(1);
    REQUIRE(candidate.device->within(work_of({&block, 1}, bytes->data(), 1, 1), lists).ok());
    std::sort(lists[0].begin(), lists[0].end(),
              [](const Hit& a, const Hit& b) { return a.row < b.row; });
    REQUIRE(lists[0].size() == kRows);
    std::uint32_t wrong = 0;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      const double distance = canonical_distance(Distance::kL2, ElementType::kFloat32, 1,
                                                 bytes->data(), bytes->data() + row * 4);
      wrong += lists[0][row].row != row || lists[0][row].distance != distance;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("devices: whoever waits for the searches of others can be interrupted") {
  constexpr std::uint32_t kRows = 200000, kDim = 256;
  if (gpus().empty()) return;
  const auto bytes = floats(std::size_t{kRows} * kDim);
  for (const Candidate& candidate : gpus()) {
    std::shared_ptr<const Buffer> buffer;
    REQUIRE(candidate.device->make_resident({bytes, bytes->data(), bytes->size()}, &buffer).ok());
    const Block block = block_of(buffer, kRows);
    struct Flag : Cancellation {
      std::atomic<bool> set{false}, asked{false};
      bool requested() override {
        asked = true;
        return set;
      }
    } stop;
    std::vector<std::thread> others;
    for (int i = 0; i < 6; ++i) {
      others.emplace_back([&] {
        Workload work = work_of({&block, 1}, bytes->data(), 100000, kDim);
        work.range.high = 0;
        work.cancellation = &stop;
        HitLists lists(work.queries.rows);
        static_cast<void>(candidate.device->within(work, lists));
      });
    }
    while (!stop.asked) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CountingCancellation cancellation(2);
    Workload work = work_of({&block, 1}, bytes->data(), 1, kDim);
    work.range.high = 0;
    work.cancellation = &cancellation;
    HitLists lists(1);
    const auto begin = std::chrono::steady_clock::now();
    const Status status = candidate.device->within(work, lists);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    CHECK(status.kind == ErrorKind::kInterrupted);
    CHECK(time.count() < 0.05);
    stop.set = true;
    for (std::thread& other : others) other.join();
  }
}

TEST_CASE("devices: the caller's current GPU stays so") {
  if (gpus().empty()) return;
  std::string why;
  void* const driver = os::open_library("libcuda.so.1", why);
  REQUIRE_MESSAGE(driver != nullptr, why);
  using Get = int (*)(void**);
  const auto current = reinterpret_cast<Get>(os::symbol(driver, "cuCtxGetCurrent"));
  REQUIRE((current != nullptr));
  std::thread([&] {  // which has used none
    constexpr std::uint32_t kRows = 1000, kDim = 16;
    const auto bytes = floats(kRows * kDim);
    const auto none = [&] {
      void* context = nullptr;
      return current(&context) == 0 && context == nullptr;
    };
    for (const Candidate& candidate : gpus()) {
      CHECK(none());
      std::shared_ptr<const Buffer> buffer;
      REQUIRE(candidate.device->make_resident({bytes, bytes->data(), bytes->size()}, &buffer).ok());
      CHECK(none());
      const Block block = block_of(buffer, kRows);
      HitTable best(7, 5);
      REQUIRE(candidate.device->nearest(work_of({&block, 1}, bytes->data(), 7, kDim), best).ok());
      CHECK(none());
      buffer.reset();
      CHECK(none());
    }
  }).join();
}

TEST_CASE("devices: a cancelled search ends soon and says so") {
  const Restore restore;
  constexpr std::uint32_t kRows = 20000, kDim = 256;
  const auto bytes = floats(kRows * kDim);
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name);
    candidate.prepare();
    std::shared_ptr<const Buffer> buffer;
    REQUIRE(candidate.device->make_resident({bytes, bytes->data(), bytes->size()}, &buffer).ok());
    const Block block{buffer.get(), nullptr, kRows, 1, {}, nullptr, kRows};
    for (Distance distance : {Distance::kL2, Distance::kL1}) {
      CountingCancellation cancellation(candidate.asks);
      Workload work;
      work.distance = distance;
      work.queries = {bytes->data(), 10000, kDim, ElementType::kFloat32};
      work.blocks = {&block, 1};
      work.cancellation = &cancellation;
      HitTable best(work.queries.rows, 10);
      expect_interrupted([&] { return candidate.device->nearest(work, best); });
      CHECK(cancellation.asked() >= candidate.asks + 1);
      // A GPU goes on until it is told, and who waits for it asks meanwhile.
      if (!candidate.device->own_memory()) CHECK(cancellation.asked() == candidate.asks + 1);
    }
  }
}

TEST_CASE("devices: each SIMD target can be forced, and unknown ones are refused") {
  const Restore restore;
  REQUIRE(!cpu::simd_targets().empty());
  const std::unique_ptr<Device> device = cpu::make_cpu_device();
  for (const std::string& target : cpu::simd_targets()) {
    cpu::force_simd_target(target);
    CHECK(cpu::simd_target() == target);
    CHECK(device->describe().description.starts_with(target + ","));
  }
  CHECK_THROWS_AS(cpu::force_simd_target("MMX"), Error);
}

TEST_CASE("devices: buffers are counted while they live and share the host's bytes") {
  const std::unique_ptr<Device> device = cpu::make_cpu_device();
  auto bytes = std::make_shared<std::vector<std::byte>>(1000);
  std::shared_ptr<const Buffer> buffer;
  REQUIRE(device->make_resident({bytes, bytes->data(), bytes->size()}, &buffer).ok());
  CHECK(buffer->size() == 1000);
  CHECK(device->describe().memory_used == 1000);
  CHECK(bytes.use_count() == 2);
  buffer.reset();
  CHECK(device->describe().memory_used == 0);
  CHECK(bytes.use_count() == 1);
}
