// RaBitQ codes, of every kind of lists and queries.
#include <algorithm>
#include <doctest/doctest.h>
#include <vector>

#include "tests/conformance/ivf_cases.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;
using namespace warplite::testing::ivf;

TEST_CASE("ivf: RaBitQ codes of every number of planes give the reference's hits") {
  const Restore restore;
  std::uint64_t n = 7000;
  for (std::uint32_t planes = 1; planes <= kMostPlanes; ++planes) {
    for (const std::uint32_t dim : {1u, 3u, 8u, 24u, 61u, 64u, 128u, 200u, 1030u}) {
      for (const std::uint32_t groups : {0u, 1u, 4u}) {
        Case c = make_case({(dim + 3) / 4, 4, 4}, n++);
        c.shape.dim = dim;
        c.shape.planes = planes;
        c.shape.lists = groups == 0 ? c.shape.lists : turn<std::uint32_t>({5, 70, 33}, n);
        c.shape.groups = groups;
        c.nprobe = std::min(turn<std::uint32_t>({1, 4, 20, 1000}, n / 2), c.shape.lists);
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("ivf: devices that rotate queries do it as the host does") {
  const Restore restore;
  std::uint64_t n = 8700;
  for (const std::uint32_t dim : {1u, 2u, 3u, 31u, 64u, 96u, 100u, 129u, 255u, 768u, 1060u}) {
    for (int round = 0; round < 12; ++round) {
      Case c = make_case({(dim + 3) / 4, 4, 4}, n++);
      c.shape.dim = dim;
      c.shape.planes = turn<std::uint32_t>({4, 1, 5}, n);
      c.k = std::min<std::size_t>(c.k, 40);
      c.queries = turn<std::size_t>({64, 70, 131}, n);
      c.rotated = true;
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: RaBitQ codes of long lists, of many queries, with every distance and type") {
  const Restore restore;
  std::uint64_t n = 8000;
  for (Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    for (ElementType type : number_types()) {
      for (const std::uint32_t planes : {1u, 3u, 5u}) {
        Case c = make_case({9, 4, 4}, n++);
        c.shape.dim = 35;
        c.shape.planes = planes;
        c.shape.lists = 3;
        c.list_rows = {700, 300, 1};
        c.distance = distance;
        c.type = type;
        c.nprobe = 3;
        c.queries = turn<std::size_t>({1, 70}, n);
        c.refine = turn<std::size_t>({0, 3, 1}, n);
        c.vectors = true;
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("ivf: RaBitQ codes of lists that many queries share") {
  const Restore restore;
  std::uint64_t n = 9000;
  for (const std::uint32_t dim : {8u, 35u, 61u, 128u, 300u, 1060u}) {
    for (const std::uint32_t planes : {1u, 2u, 4u, 5u, 8u}) {
      Case c = make_case({(dim + 3) / 4, 4, 4}, n++);
      c.shape.dim = dim;
      c.shape.planes = planes;
      c.shape.lists = 300;
      c.shape.groups = n % 2 != 0 ? 0 : n % 4 == 0 ? 80 : 40;
      c.list_rows = {40, 0, 33, 70};
      if (n % 3 == 0) {
        c.list_rows.assign(29, 0);
        c.list_rows.push_back(900);
      }
      c.nprobe = turn<std::uint32_t>({60, 100}, n / 3);
      c.contrast = n / 2 % 2 == 0;
      c.queries = 70;
      c.runs = turn<std::size_t>({2, 1}, n / 2);
      c.filter = turn({0, 3, 0}, n);
      c.k = turn<std::size_t>({10, 1, 3}, n / 2);
      c.refine = turn<std::size_t>({0, 1, 4}, n);
      c.vectors = true;
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: RaBitQ codes of lists that share groups with others") {
  const Restore restore;
  std::uint64_t n = 9600;
  for (const std::vector<std::uint32_t>& rows :
       {std::vector<std::uint32_t>{1}, {1, 2, 0, 5, 3}, {7, 40, 25, 0, 100, 1}, {16, 48}, {33}}) {
    for (const int filter : {0, 2, 40, -1}) {
      for (const std::uint32_t planes : {1u, 4u, 6u}) {
        Case c = make_case({5, 4, 4}, n++);
        c.shape.planes = planes;
        c.shape.lists = 90;
        c.shape.groups = n % 3 == 0 ? 20 : 0;
        c.list_rows = rows;
        c.nprobe = turn<std::uint32_t>({3, 90, 30}, n);
        c.contrast = n / 3 % 2 == 0;
        c.queries = turn<std::size_t>({1, 7, 40}, n / 2);
        c.filter = filter;
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("ivf: RaBitQ codes of many dimensions in long lists") {
  const Restore restore;
  std::uint64_t n = 9800;
  for (const int filter : {0, 3, 40}) {
    for (const std::uint32_t planes : {1u, 3u}) {
      Case c = make_case({512, 4, 4}, n++);
      c.shape.planes = planes;
      c.shape.lists = 4;
      c.list_rows = {1500, 40, 2300, 5};
      c.nprobe = 3;
      c.queries = turn<std::size_t>({1, 5}, n);
      c.filter = filter;
      c.refine = 0;
      c.vectors = false;
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: RaBitQ codes of one query in giant lists") {
  const Restore restore;
  std::uint64_t n = 9500;
  for (const std::uint32_t planes : {1u, 4u}) {
    for (const std::size_t k : {1u, 100u}) {
      Case c = make_case({4, 4, 4}, n++);
      c.shape.dim = 16;
      c.shape.planes = planes;
      c.shape.lists = 3;
      c.list_rows = {20000, 9000, 100};
      c.nprobe = 3;
      c.queries = 1;
      c.runs = turn<std::size_t>({1, 2}, n);
      c.k = k;
      c.refine = 3;
      c.vectors = true;
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: RaBitQ codes of more lists than a thread block puts in order") {
  const Restore restore;
  std::uint64_t n = 9900;
  for (const std::uint32_t nprobe : {8192u, 8193u, 11'999u}) {
    for (const std::size_t queries : {1u, 9u}) {
      Case c = make_case({4, 4, 4}, n++);
      c.data = Data::kRandom;
      c.shape.planes = 4;
      c.shape.lists = 12'000;
      c.shape.groups = 50;
      c.list_rows = {1, 0, 3};
      c.nprobe = nprobe;
      c.contrast = n % 2 == 0;
      c.queries = queries;
      c.runs = c.blocks = 1;
      check_everywhere(c);
    }
  }
}
