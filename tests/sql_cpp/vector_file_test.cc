// Files of vectors, whole, cut short and damaged.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/sql_session.h"

namespace warplite {
namespace {

using testing::check_error;
using testing::contains;
using testing::SqlResult;
using testing::SqlSession;
using Rows = std::vector<std::string>;

struct VectorBytes {
  const char* extension;
  std::string bytes;
  Rows rows;  // of SELECT rowid, vec_to_json(vector)
};

template <typename T>
std::string raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

std::string npy(std::string header, const std::string& data) {
  header.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

std::vector<VectorBytes> vector_files() {
  using std::int32_t;
  const Rows floats{"0|[1.000000,-2.500000]", "1|[3.000000,4.000000]"};
  const std::string two = raw<int32_t>({2});
  const std::string four = raw<float>({1, -2.5f, 3, 4});
  return {
      {"fvecs", two + raw<float>({1, -2.5f}) + two + raw<float>({3, 4}), floats},
      {"bvecs", two + "\x01\xff" + two + std::string("\x00\x7f", 2),
       {"0|[1.000000,255.000000]", "1|[0.000000,127.000000]"}},
      {"ivecs", raw<int32_t>({2, 5, -16777216}), {"0|[5.000000,-16777216.000000]"}},
      {"fbin", raw<int32_t>({2, 2}) + four, floats},
      {"u8bin", raw<int32_t>({2, 1}) + "\xfe\x02", {"0|[254.000000]", "1|[2.000000]"}},
      {"i8bin", raw<int32_t>({1, 2}) + "\xfe\x02", {"0|[-2,2]"}},
      {"npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", four), floats},
      {"NPY", npy("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }", "\xfe\x02"),
       {"0|[-2,2]"}},
      {"npy", npy("{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"|u1\"}", "\xfe\x02"),
       {"0|[254.000000,2.000000]"}},
      {"npy",
       npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1), }",
           std::string("\x00\x3c\x00\xc0", 4)),
       {"0|[1.000000]", "1|[-2.000000]"}},
      {"npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", ""), {}},
      {"fvecs", "", {}},
  };
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& extension)
      : path_((std::filesystem::temp_directory_path() / "warplite_vectors.").string() + extension) {
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }

  SqlResult read(const SqlSession& session, const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return session.run("SELECT rowid, vec_to_json(vector) FROM warp_vectors_file('" + path_ + "')");
  }

 private:
  std::string path_;
};

TEST_CASE("vector files are read exactly, and never beyond their end") {
  const SqlSession session(":memory:");
  for (const VectorBytes& file : vector_files()) {
    const TemporaryFile temporary(file.extension);
    const SqlResult whole = temporary.read(session, file.bytes);
    INFO(whole.message);
    CHECK(whole.ok());
    CHECK(whole.rows == file.rows);
    const bool records = std::string(file.extension).ends_with("vecs");
    for (std::size_t size = 0; size < file.bytes.size(); ++size) {
      const SqlResult cut = temporary.read(session, file.bytes.substr(0, size));
      // A file of records may end between two of them.
      const bool between = records && size % (file.bytes.size() / file.rows.size()) == 0;
      CHECK(cut.ok() == between);
      if (!cut.ok()) CHECK(contains(cut.message, "warplite_vectors."));
    }
    if (!file.rows.empty()) CHECK(!temporary.read(session, file.bytes + "x").ok());
  }
}

TEST_CASE("damaged vector files are errors that say where") {
  const SqlSession session(":memory:");
  const auto refused = [&](const char* extension, const std::string& bytes,
                           const std::string& why) {
    const SqlResult result = TemporaryFile(extension).read(session, bytes);
    INFO(result.message);
    CHECK(!result.ok());
    CHECK(contains(result.message, why));
  };
  const auto refused_header = [&](const char* header, const std::string& why) {
    refused("npy", npy(header, "1234"), why);
  };
  using std::int32_t;
  refused("fvecs", raw<int32_t>({1, 0, 2, 0, 0}), "record 1: expected dimension 1");
  refused("fvecs", raw<int32_t>({-1, 0}), "record 0: the dimension is -1");
  refused("fvecs", raw<int32_t>({0, 0}), "record 0: the dimension is 0");
  refused("fvecs", raw<int32_t>({0x7fffffff, 0}), "record 0: expected 8589934588 bytes");
  refused("ivecs", raw<int32_t>({1, 16777217}), "16777217 has no exact float32 value");
  refused("ivecs", raw<int32_t>({1, 0x7fffffff}), "2147483647 has no exact float32 value");
  refused("fbin", raw<int32_t>({0x7fffffff, 0x7fffffff, 0}), "expected 2147483647 vectors");
  refused("fbin", raw<int32_t>({-1, 4}), "-1 vectors");
  refused("fbin", raw<int32_t>({1, 0}), "dimension 0");
  refused_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "Fortran");
  refused_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", "<f8");
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1), }", "got 3");
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "got 0");
  refused_header("{'descr': '<f4', 'shape': (1, 1), }", "fortran_order");
  refused_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "descr");
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 4), }",
                 "expected 18446744073709551615 vectors");
  refused("npy", "not numpy at all", "no .npy file");
  check_error(session, "SELECT * FROM warp_vectors_file('/tmp')", {"/tmp", "ends in .fvecs"});
  check_error(session, "SELECT * FROM warp_vectors_file('/nowhere/x.fvecs')", {"/nowhere/x.fvecs"});
}

TEST_CASE("vectors are read from regular files alone, and no header is believed") {
  namespace fs = std::filesystem;
  const SqlSession session(":memory:");
  const fs::path folder = fs::path("/tmp") / ("warplite_odd_files_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const auto refused = [&](const char* name, const std::string& why) {
    check_error(session, "SELECT * FROM warp_vectors_file('" + (folder / name).string() + "')", {why});
  };
  // Bytes, and then a hole that makes the file `size` bytes long.
  const auto write = [&](const char* name, const std::string& bytes, std::uint64_t size) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    fs::resize_file(folder / name, size);
  };
  using std::int32_t;
  REQUIRE(::mkfifo((folder / "fifo.fvecs").c_str(), 0600) == 0);
  refused("fifo.fvecs", "is no regular file");
  fs::create_symlink("/dev/zero", folder / "zero.fvecs");
  refused("zero.fvecs", "is no regular file");
  fs::create_directory(folder / "folder.npy");
  refused("folder.npy", "is no regular file");
  constexpr std::uint64_t kClaimed = 4ull * 0x7fffffff;
  write("hole.fvecs", raw<int32_t>({0x7fffffff}), kClaimed + 4);
  refused("hole.fvecs", "the dimension is 2147483647, where 65536 is the most");
  write("hole.fbin", raw<int32_t>({1, 0x7fffffff}), kClaimed + 8);
  refused("hole.fbin", "the dimension is 2147483647");
  write("hole.npy", std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12), kClaimed);
  refused("hole.npy", "the header has 2147483647 bytes");
  write("rows.fbin", raw<int32_t>({0, 4, 1, 1, 1, 1}), 24);
  refused("rows.fbin", "expected 0 vectors of dimension 4 after the header, got 16 bytes");
  write("none.fbin", raw<int32_t>({0, 4}), 8);
  CHECK(session.must_run("SELECT count(*) FROM warp_vectors_file('" + (folder / "none.fbin").string() + "')")[0] == "0");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace warplite
