// INSERT INTO t(t) VALUES ('…'): what a warp table can be told to do.
#pragma once

#include "core/value.h"
#include "engine/collection.h"

namespace warplite::sql {

// Throws Error{kInvalid} that lists the commands, or what the command met:
// 'integrity-check' is Error{kCorrupt} with the first faults.
void run_command(engine::Collection& collection, const Cell& command);

}  // namespace warplite::sql
