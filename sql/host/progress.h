// Reports how far long work is, on stderr, when warp_config('progress', 'on') asks for it:
// "papers.embedding: training: k-means 3 of 10, 20 %", about one line a second.
// Threads: the reporter belongs to the thread that works.
#pragma once

#include <string>

#include "engine/collection.h"

namespace warplite::sql {

// Switches reports on or off for all connections. At first they are off.
void enable_progress(bool wanted);
bool progress_enabled();
// Empty when nobody wants to know.
index::Progress progress_reporter(std::string subject);

}  // namespace warplite::sql
