// What control groups leave a process of the machine's memory.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "core/memory_limit.h"

namespace warplite {
namespace {

using Files = std::map<std::string, std::string>;

std::size_t limit(const std::string& groups, const Files& files) {
  return memory_limit_of_groups(groups, [&](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::string() : found->second;
  });
}

}  // namespace

TEST_CASE("the least limit of a group and of those around it counts") {
  const Files files{{"/sys/fs/cgroup/memory.max", "max\n"},
                    {"/sys/fs/cgroup/a.slice/memory.max", "2000000\n"},
                    {"/sys/fs/cgroup/a.slice/b.service/memory.max", "3000000\n"}};
  CHECK(limit("0::/a.slice/b.service\n", files) == 2000000);
  CHECK(limit("0::/a.slice\n", files) == 2000000);
  CHECK(limit("0::/\n", files) == 0);
  CHECK(limit("0::/a.slice/b.service", {{"/sys/fs/cgroup/a.slice/b.service/memory.max", "7"}}) == 7);
}

TEST_CASE("a container's own group is the root that it sees") {
  const Files files{{"/sys/fs/cgroup/memory.max", "1073741824\n"}};
  CHECK(limit("0::/\n", files) == 1073741824);
  CHECK(limit("0::/docker/0123\n", files) == 1073741824);
}

TEST_CASE("the first version of control groups has a hierarchy for memory") {
  const std::string groups = "12:cpu,cpuacct:/x\n5:hugetlb,memory:/x/y\n1:name=systemd:/z\n0::/z\n";
  const Files files{{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                    {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500\n"},
                    {"/sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "600\n"},
                    {"/sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1\n"}};
  CHECK(limit(groups, files) == 500);
  CHECK(limit("12:cpu:/x\n", files) == 0);
}

TEST_CASE("without control groups, or with files that say nothing, there is no limit") {
  CHECK(limit("", {}) == 0);
  CHECK(limit("\n\n:\nnonsense\n0::\n", {{"/sys/fs/cgroup/memory.max", "many"}}) == 0);
}

}  // namespace warplite
