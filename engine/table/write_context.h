// A WriteContext is what a flush, a rewrite or the coding of segments starts from.
// Threads: as the connection.
#pragma once

#include <memory>
#include <vector>

#include "compute/ops.h"
#include "engine/table/snapshot.h"
#include "engine/table/table_options.h"
#include "engine/table/view.h"

namespace warplite::engine {

struct WriteContext {
  storage::Store& store;
  const TableOptions& options;
  std::shared_ptr<const Snapshot> base;              // the current state of the tables
  std::vector<std::shared_ptr<const View>> readers;  // views in use, which stay readable
  compute::Cancellation* cancellation = nullptr;
};

}  // namespace warplite::engine
