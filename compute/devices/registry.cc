#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <utility>

#include "compute/device.h"
#include "compute/devices/guarded.h"
#include "compute/devices/startup.h"
#include "core/system.h"

namespace warplite::compute {
namespace {

std::atomic<unsigned> configured_threads{0};

bool is_kind(std::string_view device, std::string_view kind) {
  return device.size() > kind.size() && device.starts_with(kind) && device[kind.size()] == ':';
}

bool matches(std::string_view device, std::string_view wanted) {
  if (wanted.empty() || wanted == "auto") return true;
  return device == wanted || is_kind(device, wanted);
}

// "3" of "gpu:3" is a number.
bool has_number(std::string_view device) {
  const std::string_view number = device.substr(device.find(':') + 1);
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos;
}

}  // namespace

bool Device::supports_ivf(const IvfShape&) const { return false; }

Status Device::ivf_nearest(const IvfWork&, HitTable&) {
  return {ErrorKind::kUnsupported, describe().name + " does not search inverted files"};
}

Status Device::assign(const AssignWork& work) {
  return guarded([&] {
    Block block;
    block.vectors = work.centroids;
    block.rows = block.live_rows = work.lists;
    Workload search;
    search.blocks = {&block, 1};
    search.cancellation = work.cancellation;
    search.queries = {reinterpret_cast<const std::byte*>(work.rows), work.count, work.dim,
                      ElementType::kFloat32};
    HitTable best(work.count, 1);
    nearest(search, best).raise();
    for (std::size_t i = 0; i < work.count; ++i) {
      const std::span<const Hit> hits = best.sorted(i);
      // No list is near to a row whose distances are no numbers.
      work.out[i] = hits.empty() ? Assigned{0, std::numeric_limits<double>::quiet_NaN()}
                                 : Assigned{hits[0].row, hits[0].distance};
    }
  });
}

Status Device::tally(const TallyWork&, ListTallies&) {
  return {ErrorKind::kUnsupported, describe().name + " does not add up rows of lists"};
}

Status Device::pq_assign(const PqAssignWork& work) {
  return guarded([&] { reference_pq_assign(work); });
}

Status Device::match(const MatchWork&, HitTable&) {
  return {ErrorKind::kUnsupported, describe().name + " does not count matches"};
}

Status Device::match_codes(const CodeWork&, HitTable&) {
  return {ErrorKind::kUnsupported, describe().name + " does not count matches of columns"};
}

Status Device::edit_nearest(const EditWork&, HitTable&) {
  return {ErrorKind::kUnsupported, describe().name + " does not compute edit distances"};
}

Status Device::edit_within(const EditWork&, HitLists&) {
  return {ErrorKind::kUnsupported, describe().name + " does not compute edit distances"};
}

Status Device::sparse_nearest(const SparseWork&, HitTable&) {
  return {ErrorKind::kUnsupported, describe().name + " does not search sparse vectors"};
}

Status Device::sparse_within(const SparseWork&, HitLists&) {
  return {ErrorKind::kUnsupported, describe().name + " does not search sparse vectors"};
}

Status Device::map_host(HostBytes, std::size_t, std::shared_ptr<const Buffer>*) {
  return {ErrorKind::kUnsupported, describe().name + " does not read host memory in place"};
}

struct Registry::Listed {
  Device* device;
  std::string name;
};

Registry& Registry::instance() {
  // Never destroyed: threads of our own and of the drivers may run until the process is gone.
  static Registry& registry = *new Registry;
  return registry;
}

void Registry::add(std::unique_ptr<Device> device) {
  std::string name = device->describe().name;
  devices_.push_back({std::move(device), std::move(name)});
}

void Registry::add_later(std::string name, Open open) {
  late_name_ = std::move(name);
  late_ = &Startup::create(std::move(open));
}

Startup* Registry::exchange_later(Startup* startup) { return late_.exchange(startup); }

void Registry::begin_start() const {
  if (Startup* late = late_) late->begin();
}

bool Registry::wait_for_start(std::chrono::milliseconds patience,
                              Cancellation* cancellation) const {
  Startup* late = late_;
  if (late == nullptr) return true;
  late->begin();
  return late->wait(patience, cancellation);
}

std::vector<Registry::Listed> Registry::list() const {
  std::vector<Listed> all;
  if (const Startup* late = late_) {
    for (const Startup::Found& found : late->devices()) all.push_back({found.device, found.name});
  }
  for (const Owned& owned : devices_) all.push_back({owned.device.get(), owned.name});
  return all;
}

std::vector<Device*> Registry::devices() const {
  std::vector<Device*> all;
  for (const Listed& listed : list()) all.push_back(listed.device);
  return all;
}

std::vector<Registry::Line> Registry::describe() const {
  std::vector<Line> lines;
  if (const Startup* late = late_; late != nullptr && late->devices().empty()) {
    DeviceInfo info;
    info.name = late_name_;
    info.state = late->state();
    lines.push_back({std::move(info), 0});
  }
  for (const Device* device : devices()) lines.push_back({device->describe(), device->searches()});
  return lines;
}

std::vector<Device*> Registry::accelerators() const {
  std::vector<Device*> found;
  const Startup* late = late_;
  if (late == nullptr) return found;
  for (const Startup::Found& one : late->devices()) {
    if (one.device->usable()) found.push_back(one.device);
  }
  return found;
}

bool Registry::may_appear(std::string_view name) const {
  return late_ != nullptr &&
         (name == late_name_ || (is_kind(name, late_name_) && has_number(name)));
}

bool Registry::knows(std::string_view name) const {
  if (name.empty() || name == "auto" || may_appear(name)) return true;
  const std::vector<Listed> all = list();
  return std::any_of(all.begin(), all.end(),
                     [&](const Listed& listed) { return matches(listed.name, name); });
}

std::vector<Device*> Registry::usable(std::string_view name) const {
  std::vector<Device*> found;
  for (const Listed& listed : list()) {
    if (matches(listed.name, name) && listed.device->usable()) found.push_back(listed.device);
  }
  return found;
}

Device& Registry::choose(std::string_view name) const {
  const std::vector<Device*> found = usable(name);
  if (!found.empty()) return *found.front();
  std::string known;
  for (const Line& line : describe()) {
    known += (known.empty() ? "" : ", ") + line.info.name + " (" + line.info.state + ")";
  }
  throw Error(ErrorKind::kUnsupported, "no usable device \"" + std::string(name) +
                                           "\"; this process has: " +
                                           (known.empty() ? "none" : known));
}

void set_thread_count(unsigned threads) { configured_threads = threads; }

unsigned thread_count() {
  static const unsigned kCores = os::usable_cores();  // the answer takes system calls
  const unsigned threads = configured_threads;
  return threads != 0 ? threads : kCores;
}

}  // namespace warplite::compute
