// What a thread has to do itself is done once, beside a search that others share.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "compute/device.h"
#include "compute/host/meanwhile.h"
#include "core/error.h"
#include "cpu/cpu_device.h"
#include "cpu/runtime/item_loop.h"

using namespace warplite;
using namespace warplite::compute;

namespace {

// A search on the CPU of as many rows as several threads share.
struct Search {
  static constexpr std::uint32_t kRows = 60000, kDim = 64;

  Search() : rows(std::size_t{kRows} * kDim), query(kDim, 1.0f) {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 1009);
    const std::size_t bytes = rows.size() * sizeof(float);
    auto* const at = reinterpret_cast<const std::byte*>(rows.data());
    device->make_resident({std::shared_ptr<const void>(), at, bytes}, &buffer).raise();
    block.vectors = buffer.get();
    block.rows = block.live_rows = kRows;
  }
  Status run(HitTable& best) {
    Workload work;
    work.queries = {reinterpret_cast<const std::byte*>(query.data()), 1, kDim, ElementType::kFloat32};
    work.blocks = {&block, 1};
    return device->nearest(work, best);
  }

  std::unique_ptr<Device> device = cpu::make_cpu_device();
  std::vector<float> rows, query;
  std::shared_ptr<const Buffer> buffer;
  Block block;
};

}  // namespace

TEST_CASE("meanwhile: a search begins with it, on this thread and once") {
  Search search;
  HitTable alone(1, 5), beside(1, 5), again(1, 5);
  search.run(alone).raise();
  int done = 0;
  std::thread::id thread;
  Meanwhile work([&] {
    ++done;
    thread = std::this_thread::get_id();
    CHECK_FALSE(Meanwhile::is_pending());
  });
  CHECK(Meanwhile::is_pending());
  search.run(beside).raise();
  CHECK(done == 1);
  CHECK(thread == std::this_thread::get_id());
  search.run(again).raise();
  work.finish();
  CHECK(done == 1);
  for (std::size_t i = 0; i < 5; ++i) CHECK(beside.sorted(0)[i].row == alone.sorted(0)[i].row);
}

TEST_CASE("meanwhile: searches one within the other") {
  Search search;
  HitTable alone(1, 5), first(1, 5), second(1, 5);
  search.run(alone).raise();
  std::vector<int> done;
  Meanwhile others([&] {
    Meanwhile innermost([&] { done.push_back(0); });
    search.run(second).raise();
    innermost.finish();
    done.push_back(1);
  });
  search.run(first).raise();
  others.finish();
  CHECK(done == std::vector<int>{0, 1});
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(first.sorted(0)[i].row == alone.sorted(0)[i].row);
    CHECK(second.sorted(0)[i].row == alone.sorted(0)[i].row);
  }
}

TEST_CASE("meanwhile: another thread takes what this one would have done") {
  set_thread_count(2);
  std::atomic<bool> taken{false};
  {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    Meanwhile work([&] {
      while (!taken && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
      CHECK(taken);
    });
    cpu::ItemLoop loop(nullptr);
    const unsigned used = loop.begin_with_meanwhile(1);
    CHECK(used == 2);
    loop.run(used, 1, [&](unsigned, std::size_t) { taken = true; });
    CHECK(loop.begin_with_meanwhile(1) == 1);
  }
  {
    set_thread_count(1);
    Meanwhile work([] {});
    CHECK(cpu::ItemLoop(nullptr).begin_with_meanwhile(1) == 1);
  }
  set_thread_count(0);
}

TEST_CASE("meanwhile: what nothing has begun with is done in the end") {
  int done = 0;
  {
    Meanwhile work([&] { ++done; });
    {
      Meanwhile inner([] {});
      CHECK(Meanwhile::is_pending());
    }
    std::thread([] { CHECK_FALSE(Meanwhile::is_pending()); }).join();
    CHECK(done == 0);
    work.finish();
    CHECK_FALSE(Meanwhile::is_pending());
  }
  CHECK(done == 1);
}

TEST_CASE("meanwhile: what it throws ends the search, and is thrown again by who waits for it") {
  Search search;
  HitTable best(1, 5);
  Meanwhile work([] { throw Error(ErrorKind::kInvalid, "no such word"); });
  const Status status = search.run(best);
  CHECK(status.kind == ErrorKind::kInvalid);
  CHECK(work.failed());
  CHECK_THROWS_WITH_AS(work.finish(), "no such word", Error);
}
