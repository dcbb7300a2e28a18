// Reads and writes what a table with content= stores in place of its rows' values.
#include <cstring>

#include "storage/store_impl.h"
#include "storage/codec/wire.h"

namespace warplite::storage {

std::vector<std::uint64_t> Store::load_hashes(const SegmentInfo& segment) {
  BlockHeader header = impl_->hashes_header(segment);
  const Bytes block = impl_->load_block(header);
  return impl_->at([&] { return impl_->place(header); }, [&] {
    Reader reader(payload(block));
    std::vector<std::uint64_t> hashes(segment.rows);
    std::memcpy(hashes.data(), reader.take(hashes.size() * sizeof hashes[0]).data(),
                hashes.size() * sizeof hashes[0]);
    reader.finish();
    return hashes;
  });
}

}  // namespace warplite::storage
