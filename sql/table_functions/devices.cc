// warp_devices(): what this process can compute on, in order of preference. Devices that are not
// there yet are started, and waited for a while.
#include <chrono>

#include "compute/device.h"
#include "sql/table_functions/functions.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kName, kDescription, kState, kUsable, kMemoryTotal, kMemoryUsed, kSearches, kCount };
};

constexpr std::chrono::seconds kPatience{10};

class Devices : public Rows {
 public:
  explicit Devices(std::vector<compute::Registry::Line> lines) : lines_(std::move(lines)) {}

  bool next() override { return ++returned_ <= lines_.size(); }
  void column(sqlite3_context* context, int column) const override {
    const compute::DeviceInfo& device = lines_[returned_ - 1].info;
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
      case Output::kSearches: number(lines_[returned_ - 1].searches); break;
    }
  }

 private:
  std::vector<compute::Registry::Line> lines_;
  std::size_t returned_ = 0;
};

std::unique_ptr<Rows> run(Call& call) {
  const compute::Registry& registry = compute::Registry::instance();
  Interrupt interrupt(call.context().db());
  registry.wait_for_start(kPatience, &interrupt);
  return std::make_unique<Devices>(registry.describe());
}

}  // namespace

const TableFunction kDevices{
    .name = "warp_devices",
    .columns = "name TEXT, description TEXT, state TEXT, usable INTEGER, "
               "memory_total INTEGER, memory_used INTEGER, searches INTEGER",
    .column_count = Output::kCount,
    .parameters = {},
    .run = run,
    .estimated_rows = 4,
};

}  // namespace warplite::sql
