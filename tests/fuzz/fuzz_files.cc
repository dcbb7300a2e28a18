// Bytes as a file of vectors, in every format: vectors that are no larger than the file makes them, or an error
// in UTF-8.
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_database.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using warplite::fuzzing::answer;
using warplite::fuzzing::database;
using warplite::fuzzing::require;

constexpr std::array<const char*, 7> kSuffixes = {".fvecs", ".bvecs", ".ivecs", ".npy",
                                                  ".fbin",  ".u8bin", ".i8bin"};

// A folder of its own, which goes with the process.
class Folder {
 public:
  Folder() { require(mkdtemp(path_.data()) != nullptr, "cannot make a folder"); }
  ~Folder() {
    for (const char* suffix : kSuffixes) std::remove((path_ + "/file" + suffix).c_str());
    std::remove(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/warplite_fuzz_XXXXXX";
};

const std::string& folder() {
  static const Folder made;
  return made.path();
}

std::string int32(std::uint32_t value) {
  return {static_cast<char>(value), static_cast<char>(value >> 8), static_cast<char>(value >> 16),
          static_cast<char>(value >> 24)};
}

std::string npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) +
         static_cast<char>(header.size() >> 8) + header + data;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const char* suffix : kSuffixes) {
    const std::string path = folder() + "/file" + suffix;
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    const std::string most = std::to_string(size * 4);
    const std::string fits = answer(
        database(), "SELECT ifnull(sum(length(vector)), 0) <= " + most + " FROM warp_vectors_file('" + path + "')");
    require(fits == "1" || fits.starts_with("error: "), path + ": " + fits);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string sixteen(16, '\x01');
  return {int32(2) + sixteen.substr(0, 8) + int32(2) + sixteen.substr(0, 8),
          int32(8) + sixteen.substr(0, 8),
          int32(2) + int32(2) + sixteen,
          int32(0) + int32(4),
          int32(0) + int32(4) + sixteen,
          int32(0x7fffffff) + int32(0x7fffffff),
          int32(0x7fffffff) + sixteen,
          npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", sixteen),
          npy("{'descr': '<f2', 'fortran_order': False, 'shape': (8,)}", sixteen),
          npy("{'descr': '|u1', 'fortran_order': True, 'shape': (4, 4)}", sixteen),
          npy("{'descr': '\xff\xfe', 'fortran_order': False, 'shape': (0, 0)}", ""),
          npy("{'descr': '|i1', 'fortran_order': False, 'shape': (18446744073709551615, 2147483647)}", sixteen),
          ""};
}
