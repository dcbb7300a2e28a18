#include "core/process/stamp.h"

#include <span>

#include "core/system.h"

namespace warplite {

Stamp new_stamp() {
  Stamp stamp;
  do {
    os::fill_random(std::as_writable_bytes(std::span(&stamp, 1)));
  } while (stamp.is_null());
  return stamp;
}

}  // namespace warplite
