#include "storage/file_pages.h"

#include <algorithm>

namespace warplite::storage {
namespace {

constexpr std::size_t kFileHeader = 100;
constexpr std::size_t kPageSizeAt = 16, kReservedAt = 20;
constexpr unsigned kInterior = 5, kLeaf = 13;  // pages of tables
constexpr int kDeepest = 20;                   // no tree of SQLite's is as deep

std::uint64_t big_endian(const std::byte* at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value = value << 8 | std::to_integer<std::uint64_t>(at[i]);
  return value;
}

}  // namespace

// A page of a table's tree. What lies outside of it reads as 0.
class FilePages::Page {
 public:
  Page(std::uint32_t number, std::vector<std::byte> bytes)
      : bytes_(std::move(bytes)), header_(number == 1 ? kFileHeader : 0) {}

  std::uint64_t number(std::size_t at, std::size_t width) const {
    return at + width <= bytes_.size() ? big_endian(bytes_.data() + at, width) : 0;
  }
  // Moves `at` behind the number.
  std::uint64_t varint(std::size_t& at) const {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t byte = number(at++, 1);
      value = value << 7 | (byte & 127);
      if (byte < 128) return value;
    }
    return value << 8 | number(at++, 1);
  }

  unsigned type() const { return static_cast<unsigned>(number(header_, 1)); }
  std::size_t cells() const { return number(header_ + 3, 2); }
  std::size_t cell(std::size_t i) const { return number(pointers() + 2 * i, 2); }
  std::uint32_t last_child() const { return static_cast<std::uint32_t>(number(header_ + 8, 4)); }
  std::uint32_t child(std::size_t cell) const {
    return static_cast<std::uint32_t>(number(cell, 4));
  }

 private:
  std::size_t pointers() const { return header_ + (type() == kInterior ? 12 : 8); }

  std::vector<std::byte> bytes_;
  std::size_t header_;
};

FilePages::FilePages(sqlite3* db, const std::string& schema) {
  if (sqlite3_file_control(db, schema.c_str(), SQLITE_FCNTL_FILE_POINTER, &file_) != SQLITE_OK ||
      file_ == nullptr || file_->pMethods == nullptr) {
    return;
  }
  std::byte header[kFileHeader];
  if (file_->pMethods->xRead(file_, header, kFileHeader, 0) != SQLITE_OK) return;
  const std::uint64_t size = big_endian(header + kPageSizeAt, 2);
  page_bytes_ = size == 1 ? 65536 : size;
  usable_bytes_ = page_bytes_ - big_endian(header + kReservedAt, 1);
  if (page_bytes_ < 512 || usable_bytes_ < 480) page_bytes_ = 0;
}

bool FilePages::read_at(std::uint32_t page, std::size_t offset, std::span<std::byte> out) const {
  if (page == 0) return false;
  const auto at = static_cast<sqlite3_int64>((page - 1) * std::uint64_t{page_bytes_} + offset);
  return file_->pMethods->xRead(file_, out.data(), static_cast<int>(out.size()), at) == SQLITE_OK;
}

std::optional<ValuePlace> FilePages::find(std::uint32_t root, std::int64_t id,
                                          std::size_t bytes) const {
  std::uint32_t number = root;
  for (int depth = 0; depth < kDeepest; ++depth) {
    std::vector<std::byte> read(page_bytes_);
    if (!read_at(number, 0, read)) return std::nullopt;
    const Page page(number, std::move(read));
    if (page.type() != kInterior && page.type() != kLeaf) return std::nullopt;
    const bool leaf = page.type() == kLeaf;
    number = leaf ? 0 : page.last_child();
    for (std::size_t i = 0; i < page.cells(); ++i) {
      const std::size_t cell = page.cell(i);
      std::size_t at = leaf ? cell : cell + 4;
      if (leaf) page.varint(at);  // its bytes
      const auto key = static_cast<std::int64_t>(page.varint(at));
      if (leaf && key == id) return place(page, cell, bytes);
      if (!leaf && id <= key) {
        number = page.child(cell);
        break;
      }
    }
    if (leaf) break;
  }
  return std::nullopt;
}

std::optional<ValuePlace> FilePages::place(const Page& leaf, std::size_t cell,
                                           std::size_t bytes) const {
  std::size_t at = cell;
  const std::uint64_t payload = leaf.varint(at);
  leaf.varint(at);  // the id
  const std::size_t record = at;
  const std::uint64_t header = leaf.varint(at);
  constexpr std::uint64_t kNull = 0, kFirstBlob = 12;
  if (leaf.varint(at) != kNull || leaf.varint(at) != kFirstBlob + 2 * std::uint64_t{bytes} ||
      at != record + header || payload != header + bytes) {
    return std::nullopt;
  }
  const std::size_t most = usable_bytes_ - 35, least = (usable_bytes_ - 12) * 32 / 255 - 23;
  ValuePlace found;
  found.each = usable_bytes_ - kPageLink;
  if (payload <= most) return std::nullopt;  // all of it is in the row's page
  const std::size_t fitting = least + (payload - least) % found.each;
  const std::size_t here = fitting <= most ? fitting : least;
  if (here < header) return std::nullopt;
  found.local = here - header;
  const std::size_t pages = (payload - here + found.each - 1) / found.each;
  const auto first = static_cast<std::uint32_t>(leaf.number(record + here, kPageLink));
  if (!follow(first, pages, found.pages)) return std::nullopt;
  return found;
}

bool FilePages::follow(std::uint32_t first, std::size_t count,
                       std::vector<std::uint32_t>& pages) const {
  pages.reserve(count);
  for (std::uint32_t page = first; pages.size() < count;) {
    pages.push_back(page);
    std::byte link[kPageLink];
    if (!read_at(page, 0, link)) return false;
    page = static_cast<std::uint32_t>(big_endian(link, kPageLink));
  }
  return true;
}

}  // namespace warplite::storage
