// Rows of an assignment on several devices: which of them get how many, and that it is the same as
// on one. GPUs are fakes.
#include "index/clustering/nearest_list.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

#include "index/clustering/kmeans.h"
#include "tests/support/fakes/fake_gpu.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::index;
using namespace warplite::testing;

namespace {

constexpr std::uint32_t kElements = 2, kLists = 5;

struct Gpus {
  explicit Gpus(std::size_t count) {
    use_worker_threads();
    for (std::size_t i = 0; i < count; ++i) {
      owned.push_back(std::make_unique<FakeGpu>("gpu:" + std::to_string(i)));
      all.push_back(owned.back().get());
    }
  }
  FakeGpu& operator[](std::size_t i) { return *owned[i]; }

  std::vector<std::unique_ptr<FakeGpu>> owned;
  compute::Devices all;
};

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random() % 1000) / 7;
  return numbers;
}

struct Rows {
  explicit Rows(std::size_t rows) : count(rows), values(numbers(rows * kElements, 1)) {}

  std::vector<std::uint32_t> lists(const compute::Devices& devices,
                                   compute::Cancellation* cancellation = nullptr) const {
    std::vector<Nearest> nearest(count);
    NearestList(devices, centroids.data(), kLists, kElements)
        .find(values.data(), count, cancellation, nearest.data());
    std::vector<std::uint32_t> lists;
    for (const Nearest& one : nearest) lists.push_back(one.list);
    return lists;
  }

  const std::size_t count;
  const std::vector<float> values, centroids = numbers(kLists * kElements, 2);
};

}  // namespace

TEST_CASE("rows of a large assignment are divided among devices, those of a small one are not") {
  const auto cpu = cpu::make_cpu_device();
  Gpus gpus(4);
  const Rows many(200'000), few(60'000);
  CHECK(many.lists(gpus.all) == many.lists(*cpu));
  for (int i = 0; i < 4; ++i) CHECK(gpus[i].queries.exchange(0) == 50'000);
  CHECK(few.lists(gpus.all) == few.lists(*cpu));
  CHECK(gpus[0].queries.exchange(0) == 60'000);
  for (int i = 1; i < 4; ++i) CHECK(gpus[i].queries == 0);
  gpus[0].worthwhile = many.values.size() * sizeof(float) / 2;
  CHECK(many.lists(gpus.all) == many.lists(*cpu));
  CHECK(gpus[0].queries == 100'000);
  CHECK(gpus[1].queries == 100'000);
  for (int i = 0; i < 4; ++i) CHECK(gpus[i].used == 0);
}

TEST_CASE("who asks several devices learns which one failed, and is interrupted") {
  Gpus gpus(3);
  const Rows rows(100'000);
  const auto failed = [&] {
    try {
      rows.lists(gpus.all);
    } catch (const compute::DeviceError& error) {
      CHECK(error.kind() == ErrorKind::kDevice);
      return error.device;
    }
    return static_cast<compute::Device*>(nullptr);
  };
  gpus[2].failure = ErrorKind::kDevice;
  gpus[2].fail_searches = 1;
  CHECK(failed() == &gpus[2]);
  CHECK(failed() == nullptr);
  gpus[1].lost = true;
  CHECK(failed() == &gpus[1]);
  gpus[1].lost = false;
  struct Impatient : compute::Cancellation {
    bool requested() override { return true; }
  } impatient;
  try {
    rows.lists(gpus.all, &impatient);
    FAIL("it was not interrupted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInterrupted);
  }
}

TEST_CASE("groups of clusters are found on all devices, and are those that one finds") {
  const auto cpu = cpu::make_cpu_device();
  Gpus gpus(3);
  const std::vector<float> rows = numbers(40'000, 3);
  const SampleView sample{rows.data(), rows.size() / kElements, kElements};
  const Progress silent;
  const auto found = [&](const compute::Devices& devices) {
    return kmeans(TrainingTask(devices, nullptr, silent), sample, 300);
  };
  CHECK(found(gpus.all) == found(*cpu));
  for (int i = 0; i < 3; ++i) CHECK(gpus[i].queries > sample.rows);
}
