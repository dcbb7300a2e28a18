#include "engine/table/block_reader.h"

#include <algorithm>
#include <atomic>

#include "compute/host/parallel.h"

namespace warplite::engine {

const storage::BlockFile* BlockReader::file_of(const Part& part) {
  storage::Store* const store = part.store();
  if (store == nullptr) return nullptr;
  const auto known = std::ranges::find(files_, store, [](const auto& one) { return one.first; });
  if (known != files_.end()) return known->second.get();
  files_.emplace_back(store, store->block_file());
  return files_.back().second.get();
}

void BlockReader::read(std::span<const Part* const> parts, const Read& read) {
  constexpr std::ptrdiff_t kPatience = 16;  // the whole table may be in the write-ahead log
  const std::size_t n = parts.size();
  std::vector<const storage::BlockFile*> files(n, nullptr);
  for (std::size_t i = 0; n > 1 && i < n; ++i) files[i] = file_of(*parts[i]);
  std::atomic<std::ptrdiff_t> found{found_};
  const auto has = [&](std::size_t i) {
    if (files[i] == nullptr || found <= -kPatience) return false;
    try {
      read(i, files[i]);
      ++found;
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      --found;
      return false;
    }
  };
  compute::in_parallel(n, 1, n, [&](std::size_t i, std::size_t) {
    if (!has(i)) files[i] = nullptr;
  });
  found_ = found;
  for (std::size_t i = 0; i < n; ++i) {
    if (files[i] == nullptr) read(i, nullptr);
  }
}

void read_ahead(std::vector<const Part*> parts, Part::Ahead what, std::size_t column) {
  std::erase_if(parts, [&](const Part* part) { return !part->lacks(what, column); });
  if (parts.size() < 2) return;
  BlockReader().read(parts, [&](std::size_t i, const storage::BlockFile* file) {
    if (file != nullptr) parts[i]->read_ahead(what, column, *file);
  });
}

}  // namespace warplite::engine
