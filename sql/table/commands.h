// INSERT INTO t(t) VALUES ('…'): what a warp table can be told to do.
#pragma once

#include <string_view>

#include "compute/ops.h"
#include "core/value.h"
#include "engine/collection.h"

namespace warplite::sql {

// Throws Error{kInvalid} that lists the commands, or what the command met:
// 'integrity-check' is Error{kCorrupt} with the first faults, long work Error{kInterrupted}.
void run_command(engine::Collection& collection, const Cell& command,
                 compute::Cancellation& cancellation);

bool is_command(const Cell& command, std::string_view name);

// The command that brings a model with it, and therefore is none of those.
inline constexpr std::string_view kUseModel = "use-model";

// Returns the reporter of long work on a table, for whoever asked for that work: see progress.h.
index::Progress work_reporter(const engine::Collection& collection);

}  // namespace warplite::sql
