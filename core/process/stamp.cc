#include "core/process/stamp.h"

#include <cerrno>
#include <cstring>

#include <sys/random.h>
#include <unistd.h>

#include "core/error.h"

namespace warplite {
namespace {

void fill_random(void* out, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(out);
  while (size > 0) {
    const ssize_t n = getrandom(bytes, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(ErrorKind::kDevice, "the system gives no random bytes");
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
}

}  // namespace

Stamp new_stamp() {
  Stamp stamp;
  do {
    fill_random(&stamp, sizeof stamp);
  } while (stamp.is_null());
  return stamp;
}

}  // namespace warplite
