#include "storage/file_pages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ranges>

#include "core/process/interruption.h"
#include "core/system.h"

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
  std::int64_t key(std::size_t i) const {
    std::size_t at = cell(i);
    if (type() == kInterior) {
      at += 4;  // its child
    } else {
      varint(at);  // its bytes
    }
    return static_cast<std::int64_t>(varint(at));
  }
  // Returns the first cell whose key is not less, or cells().
  std::size_t lower_bound(std::int64_t id) const {
    const auto all = std::views::iota(std::size_t{0}, cells());
    return static_cast<std::size_t>(
        std::ranges::partition_point(all, [&](std::size_t i) { return key(i) < id; }) -
        all.begin());
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::size_t pointers() const { return header_ + (type() == kInterior ? 12 : 8); }

  std::vector<std::byte> bytes_;
  std::size_t header_;
};

struct FilePages::Blob {
  Page page;
  std::size_t bytes;
  std::size_t at, local;  // where the page has its first bytes, and how many
  std::uint32_t next;     // the page that has the next; 0: there are no others
};

FilePages::FilePages(sqlite3* db, const std::string& schema, For readers) {
  if (sqlite3_file_control(db, schema.c_str(), SQLITE_FCNTL_FILE_POINTER, &file_) != SQLITE_OK ||
      file_ == nullptr || file_->pMethods == nullptr) {
    return;
  }
  std::byte header[kFileHeader];
  if (file_->pMethods->xRead(file_, header, kFileHeader, 0) != SQLITE_OK ||
      file_->pMethods->xFileSize(file_, &file_bytes_) != SQLITE_OK) {
    return;
  }
  if (readers == For::kAnyThread) {
    const char* const path = sqlite3_db_filename(db, schema.c_str());
    descriptor_ = path == nullptr ? -1 : os::find_open_file(path);
    if (descriptor_ < 0) return;
  }
  const std::uint64_t size = big_endian(header + kPageSizeAt, 2);
  page_bytes_ = size == 1 ? 65536 : size;
  usable_bytes_ = page_bytes_ - big_endian(header + kReservedAt, 1);
  if (page_bytes_ < 512 || usable_bytes_ < 480) page_bytes_ = 0;
}

bool FilePages::read_at(std::uint32_t page, std::size_t offset, std::span<std::byte> out) const {
  if (page == 0) return false;
  const std::uint64_t at = (page - 1) * std::uint64_t{page_bytes_} + offset;
  if (descriptor_ >= 0) return os::read_pieces(descriptor_, at, {&out, 1}) == out.size();
  return file_->pMethods->xRead(file_, out.data(), static_cast<int>(out.size()),
                                static_cast<sqlite3_int64>(at)) == SQLITE_OK;
}

std::optional<FilePages::Blob> FilePages::look_up(std::uint32_t root, std::int64_t id) const {
  std::uint32_t number = root;
  for (int depth = 0; depth < kDeepest; ++depth) {
    std::vector<std::byte> read(page_bytes_);
    if (!read_at(number, 0, read)) return std::nullopt;
    Page page(number, std::move(read));
    if (page.type() != kInterior && page.type() != kLeaf) return std::nullopt;
    const std::size_t i = page.lower_bound(id);
    if (page.type() == kLeaf) {
      if (i == page.cells() || page.key(i) != id) return std::nullopt;
      const std::size_t cell = page.cell(i);
      return blob_in(std::move(page), cell);
    }
    number = i == page.cells() ? page.last_child() : page.child(page.cell(i));
  }
  return std::nullopt;
}

std::optional<FilePages::Blob> FilePages::blob_in(Page leaf, std::size_t cell) const {
  std::size_t at = cell;
  const std::uint64_t payload = leaf.varint(at);
  leaf.varint(at);  // the id
  const std::size_t record = at;
  const std::uint64_t header = leaf.varint(at);
  constexpr std::uint64_t kNull = 0, kFirstBlob = 12;
  const std::uint64_t most_bytes =
      std::min(std::uint64_t{1} << 31, static_cast<std::uint64_t>(file_bytes_));
  if (leaf.varint(at) != kNull) return std::nullopt;
  const std::uint64_t type = leaf.varint(at);
  if (type < kFirstBlob || type % 2 != 0 || at != record + header || payload > most_bytes ||
      payload != header + (type - kFirstBlob) / 2) {
    return std::nullopt;
  }
  const std::size_t most = usable_bytes_ - 35, least = (usable_bytes_ - 12) * 32 / 255 - 23;
  std::size_t here = payload;
  if (payload > most) {
    const std::size_t fitting = least + (payload - least) % (usable_bytes_ - kPageLink);
    here = fitting <= most ? fitting : least;
  }
  if (here < header || record + here > page_bytes_) return std::nullopt;
  const auto next =
      here == payload ? 0 : static_cast<std::uint32_t>(leaf.number(record + here, kPageLink));
  return Blob{std::move(leaf), payload - header, at, here - header, next};
}

std::optional<ValuePlace> FilePages::find(std::uint32_t root, std::int64_t id,
                                          std::size_t bytes) const {
  const std::optional<Blob> blob = look_up(root, id);
  if (!blob || blob->bytes != bytes || blob->next == 0) return std::nullopt;
  ValuePlace found{blob->local, usable_bytes_ - kPageLink, {}};
  const std::size_t pages = (bytes - blob->local + found.each - 1) / found.each;
  if (!follow(blob->next, pages, found.pages)) return std::nullopt;
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

std::optional<Bytes> FilePages::value(std::uint32_t root, std::int64_t id) const {
  const std::optional<Blob> blob = look_up(root, id);
  if (!blob) return std::nullopt;
  Bytes value(blob->bytes);
  std::ranges::copy(blob->page.bytes().subspan(blob->at, blob->local), value.data());
  if (!copy_pages(blob->next, std::span(value.data(), value.size()).subspan(blob->local))) {
    return std::nullopt;
  }
  return value;
}

// Most pages of a list lie one after another: so many are read at once as if they did, and those
// that do not are read again.
bool FilePages::copy_pages(std::uint32_t page, std::span<std::byte> out) const {
  constexpr std::size_t kMostAtOnce = os::kMostPieces / 2, kMostBytes = std::size_t{1} << 20;
  const std::size_t each = usable_bytes_ - kPageLink;
  // What lies between the pages' contents is their links alone.
  const bool adjoining = usable_bytes_ == page_bytes_;
  const std::size_t most =
      adjoining ? std::clamp<std::size_t>(kMostBytes / page_bytes_, 1, kMostAtOnce) : 1;
  for (std::size_t count = most; !out.empty();) {
    poll_interruption();
    count = std::min(count, (out.size() + each - 1) / each);
    const std::size_t copied = copy_some(page, count, out);
    if (copied == 0) return false;
    out = out.subspan(std::min(out.size(), copied * each));
    count = copied == count ? std::min(most, 2 * count) : copied;
  }
  return true;
}

// Reads `count` pages from `page` on. Returns how many of them follow each other in the list, too;
// `page` is the next one then.
std::size_t FilePages::copy_some(std::uint32_t& page, std::size_t count,
                                 std::span<std::byte> out) const {
  if (page == 0) return 0;
  const std::size_t each = usable_bytes_ - kPageLink;
  std::array<std::array<std::byte, kPageLink>, os::kMostPieces / 2> links;
  std::array<std::span<std::byte>, os::kMostPieces> pieces;
  std::size_t left = out.size();
  for (std::size_t i = 0; i < count; ++i) {
    pieces[2 * i] = links[i];
    pieces[2 * i + 1] = out.subspan(i * each, std::min(each, left));
    left -= pieces[2 * i + 1].size();
  }
  const std::uint64_t at = (page - 1) * std::uint64_t{page_bytes_};
  const std::size_t read = os::read_pieces(descriptor_, at, std::span(pieces).first(2 * count));
  std::size_t n = 0;
  for (bool next = true; next && n < count; ++n) {
    if (read < n * page_bytes_ + kPageLink + pieces[2 * n + 1].size()) break;
    const auto link = static_cast<std::uint32_t>(big_endian(links[n].data(), kPageLink));
    next = link == page + 1;
    page = link;
  }
  return n;
}

}  // namespace warplite::storage
