// Opening a plug-in: what is said when it cannot be opened, and what it brings when it can.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "compute/devices/plugin.h"
#include "core/system.h"

namespace warplite::compute {
namespace {

// The reason, and how many devices there are.
std::string open_and_count(const std::string& path, std::size_t& devices) {
  devices = 0;
  return open_plugin(path, "1.2.3", [&](Device*) { ++devices; });
}

TEST_CASE("a file that is no plug-in is named") {
  std::size_t devices = 0;
  CHECK(open_and_count("/nowhere/plugin.so", devices).find("/nowhere/plugin.so") !=
        std::string::npos);
  CHECK(devices == 0);
  CHECK(open_and_count(WARPLITE_EXTENSION, devices) ==
        std::string(WARPLITE_EXTENSION) + " is not a plug-in of warplite");
  CHECK(devices == 0);
}

TEST_CASE("a plug-in is looked for beside the library, or where the environment says") {
  ::unsetenv("WARPLITE_TEST_PLUGIN");
  const std::string beside = plugin_path("WARPLITE_TEST_PLUGIN", "plugin.so");
  CHECK(beside.ends_with("/plugin.so"));
  ::setenv("WARPLITE_TEST_PLUGIN", "/elsewhere/other.so", 1);
  CHECK(plugin_path("WARPLITE_TEST_PLUGIN", "plugin.so") == "/elsewhere/other.so");
  ::unsetenv("WARPLITE_TEST_PLUGIN");
}

TEST_CASE("a library has several names, and what was looked for is said when none is there") {
  const std::string nowhere[] = {"/nowhere/one.so", "no-such-library.so.13"};
  std::string why;
  CHECK(os::open_first_library(nowhere, why) == nullptr);
  for (const std::string& path : nowhere) CHECK(why.find(path) != std::string::npos);
  const std::string there[] = {nowhere[0], WARPLITE_EXTENSION};
  CHECK(os::open_first_library(there, why) != nullptr);
  CHECK(os::open_first_library({}, why) == nullptr);
}

TEST_CASE("an ABI names the release and the compiler") {
  CHECK(plugin_abi("1.2.3") != plugin_abi("1.2.4"));
  CHECK(plugin_abi("1.2.3").starts_with("1.2.3/"));
}

#ifdef WARPLITE_FAKE_PLUGIN_FILE
// What the fake plug-in is like, for one case.
class Mode {
 public:
  explicit Mode(const char* mode) { ::setenv("WARPLITE_FAKE_PLUGIN", mode, 1); }
  ~Mode() { ::unsetenv("WARPLITE_FAKE_PLUGIN"); }
};

TEST_CASE("a plug-in brings devices, or the reason why not") {
  const std::string path = WARPLITE_FAKE_PLUGIN_FILE;
  const auto open = [&](const char* mode, std::vector<std::string>& names) {
    const Mode guard(mode);
    return open_plugin(path, WARPLITE_FAKE_PLUGIN_VERSION,
                       [&](Device* device) {
                         names.push_back(device->describe().name);
                         delete device;
                       });
  };
  std::vector<std::string> names;
  CHECK(open("2", names) == "");
  CHECK(names == std::vector<std::string>{"gpu:0", "gpu:1"});
  names.clear();
  CHECK(open("empty", names) == "the driver is asleep");
  const RunOnWorkers before = workers();
  set_workers([](unsigned, const std::function<void(unsigned)>& body,
                 const std::function<void()>&) { body(0); });
  CHECK(open("workers", names) == "it was lent workers");
  set_workers(nullptr);
  CHECK(open("workers", names) == "it was lent none");
  set_workers(before);
  CHECK(open("silent", names) == path + " failed with code 7");
  CHECK(open("0", names) == path + " found no device");
  CHECK(open("stranger", names).starts_with(path + " was built for another warplite: it is "
                                                   "another release, expected "));
  CHECK(names.empty());
}
#endif

}  // namespace
}  // namespace warplite::compute
