#include "engine/table/late_training.h"

#include <map>
#include <mutex>

#include "engine/table/view.h"

namespace warplite::engine {
namespace {

std::mutex mutex;
std::map<Stamp, LateTraining> late_columns;  // by their first vectors

}  // namespace

void remember_late(const Stamp& vectors, const LateTraining& late) {
  const std::lock_guard<std::mutex> lock(mutex);
  late_columns.insert_or_assign(vectors, late);
}

std::optional<LateTraining> late_training(const Stamp& vectors) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = late_columns.find(vectors);
  return found == late_columns.end() ? std::nullopt : std::optional(found->second);
}

bool ran_out_of_time(const View& view, std::size_t column) {
  if (!view.model(column).is_null()) return false;
  for (std::size_t i = 0; i < view.parts(); ++i) {
    const Stamp vectors = view.part(i).vectors_stamp(column);
    if (vectors.is_null()) continue;
    const std::optional<LateTraining> late = late_training(vectors);
    return late && late->seconds != 0;
  }
  return false;
}

}  // namespace warplite::engine
