// warp_devices(): what this process can compute on, in order of preference.
#include "compute/device.h"
#include "sql/table_functions/functions.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kName, kDescription, kState, kUsable, kMemoryTotal, kMemoryUsed, kCount };
};

class Devices : public Rows {
 public:
  explicit Devices(std::vector<compute::DeviceInfo> devices) : devices_(std::move(devices)) {}

  bool next() override { return ++returned_ <= devices_.size(); }
  void column(sqlite3_context* context, int column) const override {
    const compute::DeviceInfo& device = devices_[returned_ - 1];
    const auto number = [&](std::size_t n) {
      sqlite3_result_int64(context, static_cast<sqlite3_int64>(n));
    };
    switch (column) {
      case Output::kName: result_cell(context, Cell::text(device.name)); break;
      case Output::kDescription: result_cell(context, Cell::text(device.description)); break;
      case Output::kState: result_cell(context, Cell::text(device.state)); break;
      case Output::kUsable: number(device.usable ? 1 : 0); break;
      case Output::kMemoryTotal: number(device.memory_total); break;
      case Output::kMemoryUsed: number(device.memory_used); break;
    }
  }

 private:
  std::vector<compute::DeviceInfo> devices_;
  std::size_t returned_ = 0;
};

std::unique_ptr<Rows> run(Call&) {
  std::vector<compute::DeviceInfo> devices;
  for (const compute::Device* device : compute::Registry::instance().devices()) {
    devices.push_back(device->describe());
  }
  return std::make_unique<Devices>(std::move(devices));
}

}  // namespace

const TableFunction kDevices{
    .name = "warp_devices",
    .columns = "name TEXT, description TEXT, state TEXT, usable INTEGER, "
               "memory_total INTEGER, memory_used INTEGER",
    .column_count = Output::kCount,
    .parameters = {},
    .run = run,
    .estimated_rows = 4,
};

}  // namespace warplite::sql
