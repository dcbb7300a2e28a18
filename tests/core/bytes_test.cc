// Large blocks of memory: what the process has of them, and what it gives back.
#include "core/bytes.h"

#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "core/system.h"
#include "tests/support/resident.h"

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace warplite {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

std::byte mark_of(std::size_t i) {
  return static_cast<std::byte>(i % 251 + 1);
}

Bytes filled(std::size_t size, std::size_t i, Bytes::Fill fill = Bytes::Fill::kAtOnce) {
  Bytes block(size, fill);
  std::memset(block.data(), static_cast<int>(mark_of(i)), size);
  return block;
}

bool is_filled(const Bytes& block, std::size_t i) {
  for (std::size_t at = 0; at < block.size(); ++at) {
    if (block.data()[at] != mark_of(i)) return false;
  }
  return true;
}

// Sizes of segments and of their codes: none is a multiple of a page.
constexpr std::size_t kSizes[] = {4 * kMegabyte + 64, 614'528, 3 * kMegabyte + 4096 + 64};

}  // namespace

TEST_CASE("bytes: a process has as much memory as its blocks, and little more") {
  if (resident() == 0) return;
  for (const std::size_t size : kSizes) {
    CAPTURE(size);
    const std::size_t before = resident(), count = 200 * kMegabyte / size;
    std::vector<Bytes> blocks;
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(filled(size, i));
    const std::size_t took = resident() - before;
    CHECK(took >= count * size);
    CHECK(took <= count * size + 5 * kMegabyte);  // of which slabs may have a part each
  }
}

TEST_CASE("bytes: a block that fills little by little has what was filled and a huge page") {
  if (resident() == 0) return;
  const std::size_t before = resident(), size = 100 * kMegabyte;
  Bytes block(size, Bytes::Fill::kGradual);
  for (const std::size_t part : {kMegabyte / 2, kMegabyte, 3 * kMegabyte, 50 * kMegabyte, size}) {
    CAPTURE(part);
    std::memset(block.data(), 1, part);
    const std::size_t took = resident() - before;
    CHECK(took + kMegabyte / 4 >= part);
    CHECK(took <= part + (part <= kMegabyte ? 1 : 3) * kMegabyte);
  }
}

#if defined(__linux__)
TEST_CASE("bytes: a large block that fills little by little is on huge pages where there are any") {
  constexpr std::size_t kSize = 64 * kMegabyte;
  const auto faults_of_filling = [](std::byte* memory) {
    const auto faults = [] {
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_minflt;
    };
    const long before = faults();
    std::memset(memory, 1, kSize);
    return faults() - before;
  };
  constexpr long kFew = kSize / 4096 / 4;
  std::byte* const memory = os::map_huge_pages(kSize, 0);
  REQUIRE(memory != nullptr);
  const bool any = faults_of_filling(memory) < kFew;
  os::unmap(memory, kSize);
  if (!any || resident() == 0) return;
  Bytes block(kSize, Bytes::Fill::kGradual);
  CHECK(faults_of_filling(block.data()) < kFew);
}
#endif

TEST_CASE("bytes: of brief blocks some are kept for the next ones, and others are the system's") {
  constexpr std::size_t kSize = 3 * kMegabyte + 2000, kMostKept = 64 * kMegabyte;
  const auto make = [](std::size_t size) { return filled(size, 1, Bytes::Fill::kBrief); };
  const std::byte* const first = make(kSize).data();
  // A size that is alike has the same pages, and another one others.
  const Bytes alike = make(kSize - 1000), other = make(2 * kMegabyte);
  CHECK(alike.data() == first);
  CHECK(other.data() != first);
  if (resident() == 0) return;
  const std::size_t before = resident();
  std::vector<Bytes> blocks;
  for (std::size_t i = 0; i < 100; ++i) blocks.push_back(make(kSize + i * kMegabyte / 4));
  blocks.clear();
  CHECK(resident() <= before + kMostKept + kMegabyte);
  make(2 * kMostKept);
  CHECK(resident() <= before + kMegabyte);  // as much room was made for it
}

#if defined(__linux__)
TEST_CASE("bytes: a child that was forked beside a thread with brief blocks has its own") {
  std::atomic<bool> ends{false};
  std::thread beside([&] {
    while (!ends) Bytes(2 * kMegabyte, Bytes::Fill::kBrief);
  });
  bool all = true;
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // instead of a child that waits for ever
      Bytes(2 * kMegabyte, Bytes::Fill::kBrief).data()[0] = std::byte{1};
      _exit(0);
    }
    int status = -1;
    all &= child > 0 && waitpid(child, &status, 0) == child && status == 0;
  }
  ends = true;
  beside.join();
  CHECK(all);
}
#endif

TEST_CASE("bytes: what is freed among others is the system's at once, and no other block's") {
  for (const std::size_t size : kSizes) {
    for (const bool reused : {false, true}) {
      CAPTURE(size);
      CAPTURE(reused);
      const std::size_t count = 120 * kMegabyte / size;
      std::vector<Bytes> blocks;
      for (std::size_t i = 0; i < count; ++i) blocks.push_back(filled(size, i));
      const std::size_t before = resident();
      {
        std::optional<Bytes::Reuse> reuse;
        if (reused) reuse.emplace();
        for (std::size_t i = 0; i < count; ++i) {
          if (i % 3 != 0) blocks[i] = Bytes();
        }
      }
      if (before != 0) {
        const std::size_t freed = count / 3 * 2 * size;
        CHECK(before - resident() >= freed - freed / 8);
      }
      for (std::size_t i = 0; i < count; i += 3) CHECK(is_filled(blocks[i], i));
      // Freed memory serves again.
      for (std::size_t i = 0; i < count; ++i) {
        if (i % 3 != 0) blocks[i] = filled(size, i);
      }
      for (std::size_t i = 0; i < count; ++i) CHECK(is_filled(blocks[i], i));
    }
  }
}

TEST_CASE("bytes: blocks of any size, made and freed in any order, keep what they hold") {
  std::mt19937 random(7);
  std::vector<Bytes> blocks(40);
  for (std::size_t step = 0; step < 1500; ++step) {
    const std::size_t i = random() % blocks.size();
    std::optional<Bytes::Reuse> reuse;
    if (random() % 8 == 0) reuse.emplace();
    if (blocks[i].size() == 0) {
      const std::size_t size = 500'000 + random() % (random() % 3 == 0 ? 9'000'000 : 900'000);
      blocks[i] = filled(size, i, random() % 2 == 0 ? Bytes::Fill::kBrief : Bytes::Fill::kAtOnce);
    } else {
      CHECK(is_filled(blocks[i], i));
      blocks[i] = Bytes();
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) CHECK(is_filled(blocks[i], i));
}

}  // namespace warplite
