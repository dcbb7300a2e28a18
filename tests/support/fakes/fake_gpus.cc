#include "tests/support/fakes/fake_gpus.h"

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "engine/residency/device_choice.h"
#include "engine/residency/residency.h"
#include "engine/residency/uploader.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

constexpr std::chrono::seconds kPatience{60};

}  // namespace

FakeGpus::FakeGpus(std::size_t count, std::string reason)
    : reason_(std::move(reason)), default_device_(engine::default_device()) {
  // Every device that a test ever used stays: the cache may name it.
  static std::vector<std::unique_ptr<FakeGpu>>& all = *new std::vector<std::unique_ptr<FakeGpu>>;
  SqlSession registers_the_devices(":memory:");
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(std::make_unique<FakeGpu>("gpu:" + std::to_string(i)));
    devices_.push_back(all.back().get());
  }
  startup_ = &compute::Startup::create([this](const std::function<void(compute::Device*)>& add) {
    start_passes.pass();
    for (FakeGpu* device : devices_) add(device);
    return reason_;
  });
  before_ = compute::Registry::instance().exchange_later(startup_);
  engine::set_default_device("auto");
  engine::Residency::instance().clear();
}

FakeGpus::~FakeGpus() {
  for (FakeGpu* device : devices_) device->uploads_pass.open();
  start_passes.open();
  startup_->wait(kPatience, nullptr);
  engine::Uploader::instance().wait_idle(kPatience);
  compute::Registry::instance().exchange_later(before_);
  engine::set_default_device(default_device_);
  engine::Residency::instance().set_device_limit(0);
  engine::Residency::instance().set_limit(0);
  engine::Residency::instance().clear();
}

std::vector<std::size_t> FakeGpus::shares(const std::function<void()>& search) {
  std::vector<std::size_t> shares;
  for (const FakeGpu* device : devices_) shares.push_back(device->queries);
  search();
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = devices_[i]->queries - shares[i];
  return shares;
}

void FakeGpus::start() {
  startup_->begin();
  startup_->wait(kPatience, nullptr);
}

}  // namespace warplite::testing
