// Reads blocks of many parts: on all threads those that the file has where SQLite would look for
// them, the others on this one, through SQLite. Threads: as the connection.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/table/view.h"

namespace warplite::engine {

class BlockReader {
 public:
  // Reads something of parts[i], from the file or, where that is null, through SQLite. Throws
  // Error{kCorrupt} when it is not there as it should be; is called a second time, then, if it was
  // the file.
  using Read = std::function<void(std::size_t i, const storage::BlockFile* file)>;

  void read(std::span<const Part* const> parts, const Read& read);

 private:
  const storage::BlockFile* file_of(const Part& part);

  std::vector<std::pair<storage::Store*, std::shared_ptr<const storage::BlockFile>>> files_;
  std::ptrdiff_t found_ = 0;  // how much oftener files had a block than not
};

// Reads what parts lack of a column into memory, as far as the file has it. REQUIRES: there is room
// for it.
void read_ahead(std::vector<const Part*> parts, Part::Ahead what, std::size_t column);

}  // namespace warplite::engine
