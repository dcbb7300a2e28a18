// The nearest centroid, and the nearest codewords, of each row on every device: the same lists and the
// same bits as a search for the nearest one gives.
#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/reference.h"
#include "tests/conformance/ivf_world.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

using Random = std::mt19937_64;

struct Problem {
  std::uint32_t dim, lists;
  std::vector<float> centroids, rows;

  std::size_t count() const { return rows.size() / dim; }
  float* centroid(std::size_t i) { return centroids.data() + i * dim; }
  float* row(std::size_t i) { return rows.data() + i * dim; }
};

// Changes a problem of uniform numbers.
struct Trouble {
  const char* name;
  std::function<void(Problem&, Random&)> make;
};

void for_all(Problem& problem, const std::function<void(float&)>& change) {
  for (std::vector<float>* values : {&problem.centroids, &problem.rows}) {
    for (float& value : *values) change(value);
  }
}

void scale(float* vector, std::uint32_t dim, float factor) {
  for (std::uint32_t i = 0; i < dim; ++i) vector[i] *= factor;
}

const Trouble kTroubles[] = {
    {"none", [](Problem&, Random&) {}},
    {"every centroid twice or more",
     [](Problem& p, Random& random) {
       for (std::uint32_t i = 1; i < p.lists; ++i) {
         if (random() % 4 != 0) std::copy_n(p.centroid(random() % i), p.dim, p.centroid(i));
       }
     }},
    {"rows that are centroids, and what lies next to them",
     [](Problem& p, Random& random) {
       for (std::size_t i = 0; i < p.count(); ++i) {
         std::copy_n(p.centroid(random() % p.lists), p.dim, p.row(i));
         float& element = p.row(i)[random() % p.dim];
         if (i % 2 == 0) element = std::nextafter(element, 10.0f);
       }
     }},
    {"rows halfway between two centroids, or nearly",
     [](Problem& p, Random& random) {
       for (std::size_t i = 0; i < p.count(); ++i) {
         const float* a = p.centroid(random() % p.lists);
         const float* b = p.centroid(random() % p.lists);
         for (std::uint32_t d = 0; d < p.dim; ++d) p.row(i)[d] = a[d] / 2 + b[d] / 2;
       }
     }},
    {"few integers",
     [](Problem& p, Random&) { for_all(p, [](float& x) { x = std::round(x); }); }},
    {"all the same", [](Problem& p, Random&) { for_all(p, [](float& x) { x = 0.1f; }); }},
    {"zeros", [](Problem& p, Random&) { for_all(p, [](float& x) { x = 0; }); }},
    {"far from the origin",
     [](Problem& p, Random&) { for_all(p, [](float& x) { x = 1e5f + x; }); }},
    {"denormals", [](Problem& p, Random&) { for_all(p, [](float& x) { x *= 1e-41f; }); }},
    {"squares that underflow",
     [](Problem& p, Random&) { for_all(p, [](float& x) { x *= 1e-25f; }); }},
    {"squares that overflow",
     [](Problem& p, Random&) { for_all(p, [](float& x) { x *= 1e30f; }); }},
    {"the largest numbers",
     [](Problem& p, Random&) { for_all(p, [](float& x) { x *= 1.1e38f; }); }},
    {"some rows of another size",
     [](Problem& p, Random& random) {
       for (std::size_t i = 0; i < p.count(); ++i) {
         const float factors[] = {1, 1, 1e-20f, 1e8f, 1e13f, 1e38f};
         scale(p.row(i), p.dim, factors[random() % 6]);
       }
     }},
    {"one centroid far away", [](Problem& p, Random&) { scale(p.centroid(0), p.dim, 1e6f); }},
    {"one centroid beyond the product",
     [](Problem& p, Random&) { scale(p.centroid(p.lists - 1), p.dim, 1e30f); }},
    {"centroids of any size",
     [](Problem& p, Random& random) {
       for (std::uint32_t i = 0; i < p.lists; ++i) {
         scale(p.centroid(i), p.dim, std::ldexp(1.0f, static_cast<int>(random() % 60) - 30));
       }
     }},
};

Problem make_problem(std::uint32_t dim, std::uint32_t lists, std::size_t count,
                     const Trouble& trouble, std::uint64_t seed) {
  Random random(seed);
  Problem problem{dim, lists, std::vector<float>(std::size_t{lists} * dim),
                  std::vector<float>(count * dim)};
  std::uniform_real_distribution<double> uniform(-3, 3);
  for_all(problem, [&](float& x) { x = static_cast<float>(uniform(random)); });
  trouble.make(problem, random);
  return problem;
}

class Assignment {
 public:
  Assignment(Device& device, const Problem& problem) : found_(problem.count()) {
    const auto* bytes = reinterpret_cast<const std::byte*>(problem.centroids.data());
    device.make_resident({nullptr, bytes, problem.centroids.size() * sizeof(float)}, &centroids_)
        .raise();
    work.rows = problem.rows.data();
    work.count = problem.count();
    work.dim = problem.dim;
    work.lists = problem.lists;
    work.centroids = centroids_.get();
    work.out = found_.data();
  }

  const std::vector<Assigned>& found() const { return found_; }

  AssignWork work;

 private:
  std::vector<Assigned> found_;
  std::shared_ptr<const Buffer> centroids_;
};

// By search for the nearest one, as any device may do it.
std::vector<Assigned> expected_of(Device& device, const Problem& problem) {
  Assignment assignment(device, problem);
  device.Device::assign(assignment.work).raise();
  return assignment.found();
}

std::size_t differences(const std::vector<Assigned>& a, const std::vector<Assigned>& b) {
  REQUIRE(a.size() == b.size());
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
    n += a[i].list != b[i].list || bits(a[i].distance) != bits(b[i].distance);
  }
  return n;
}

void check(const Problem& problem, const std::string& name) {
  const auto cpu = cpu::make_cpu_device();
  const std::vector<Assigned> expected = expected_of(*cpu, problem);
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name, ": ", name, ", dim ", problem.dim, " lists ", problem.lists, " rows ",
         problem.count());
    candidate.prepare();
    Assignment assignment(*candidate.device, problem);
    const Status status = candidate.device->assign(assignment.work);
    REQUIRE_MESSAGE(status.ok(), status.message);
    CHECK(differences(assignment.found(), expected) == 0);
  }
}

}  // namespace

TEST_CASE("assign: whatever the vectors, the lists and distances of a search") {
  const Restore restore;
  std::uint64_t seed = 0;
  const std::uint32_t dims[] = {1, 2, 7, 16, 33, 128, 200};
  const std::uint32_t lists[] = {2, 5, 16, 17, 100, 530, 1100};
  for (const Trouble& trouble : kTroubles) {
    for (int i = 0; i < 4; ++i, ++seed) {
      const std::size_t count = std::size_t{7} + (seed * 37) % 150;
      check(make_problem(dims[seed % 7], lists[(seed + seed / 7) % 7], count, trouble, seed), trouble.name);
    }
  }
}

TEST_CASE("assign: any number of dimensions, lists and rows") {
  const Restore restore;
  struct Size {
    std::uint32_t dim, lists;
    std::size_t count;
  };
  const Size sizes[] = {
      {1, 1, 1},     {3, 1, 50},     {3, 15, 50},    {3, 16, 6},   {3, 16, 7},   {5, 5000, 300},
      {64, 4999, 40}, {511, 70, 30}, {512, 70, 31},  {513, 70, 29}, {768, 257, 100},
      {1024, 96, 90}, {1535, 33, 64}, {1536, 300, 33}, {8, 512, 2000}, {8, 513, 2001},
      {65, 31, 5000}, {65537, 17, 9}};
  std::uint64_t seed = 0;
  for (const Size& size : sizes) {
    const Trouble& trouble = kTroubles[seed % 4];
    check(make_problem(size.dim, size.lists, size.count, trouble, ++seed), trouble.name);
  }
}

TEST_CASE("assign: no rows are no work") {
  const Restore restore;
  for (const Candidate& candidate : conformance_devices()) {
    candidate.prepare();
    const Problem problem = make_problem(4, 20, 0, kTroubles[0], 1);
    Assignment assignment(*candidate.device, problem);
    CHECK(candidate.device->assign(assignment.work).ok());
  }
}

TEST_CASE("assign: a cancelled one ends soon and says so") {
  const Restore restore;
  // Rows that are proved one after another, few that take long, and such that nothing is proved of.
  const std::vector<Problem> problems = {
      make_problem(128, 3000, 20000, kTroubles[0], 1),
      make_problem(1536, 60000, 12, kTroubles[0], 2),
      make_problem(128, 3000, 20000, kTroubles[5], 3)};
  for (const Problem& problem : problems) {
    for (const Candidate& candidate : conformance_devices()) {
      INFO(candidate.name);
      candidate.prepare();
      Assignment assignment(*candidate.device, problem);
      CountingCancellation cancellation(candidate.asks);
      assignment.work.cancellation = &cancellation;
      const auto begin = std::chrono::steady_clock::now();
      const Status status = candidate.device->assign(assignment.work);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      CHECK(status.kind == ErrorKind::kInterrupted);
      CHECK(status.message == "interrupted");
      CHECK(time.count() < 1.0);
    }
  }
}

TEST_CASE("ivf: codes of vectors are the reference's") {
  const Restore restore;
  std::uint64_t n = 0;
  for (std::uint32_t m : {1u, 2u, 3u, 8u, 33u}) {
    for (std::uint32_t sub_dim : {1u, 2u, 4u, 7u, 16u}) {
      for (std::uint32_t codewords : {16u, 256u}) {
        Random random(++n);
        const bool huge = n % 7 == 0, ties = n % 3 == 0;
        const auto fill = [&](std::vector<float>& values) {
          for (float& value : values) {
            value = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
            if (ties) value = std::round(value * 2);
            if (huge && random() % 4 == 0) value *= 3e38f;
          }
        };
        PqAssignWork work;
        work.count = turn<std::size_t>({1, 0, 3, 4, 5, 130, 3000}, n);
        work.m = m;
        work.dim = m * sub_dim;
        work.codewords = codewords;
        std::vector<float> rows(work.count * work.dim), codebooks(codewords * work.dim);
        fill(rows);
        fill(codebooks);
        std::vector<std::uint8_t> expected(work.count * m);
        work.rows = rows.data();
        work.codebooks = codebooks.data();
        work.out = expected.data();
        reference_pq_assign(work);
        for (const Candidate& candidate : conformance_devices()) {
          INFO(candidate.name, " m ", m, " sub_dim ", sub_dim, " codewords ", codewords, " rows ",
               work.count);
          candidate.prepare();
          std::vector<std::uint8_t> found(work.count * m, 0xcd);
          work.out = found.data();
          const Status status = candidate.device->pq_assign(work);
          REQUIRE_MESSAGE(status.ok(), status.message);
          CHECK(found == expected);
        }
      }
    }
  }
}

TEST_CASE("ivf: lists of vectors are those of the nearest centroids") {
  const Restore restore;
  std::uint64_t n = 0;
  for (std::uint32_t lists : {1u, 3u, 255u, 256u, 700u, 2500u}) {
    for (std::uint32_t dim : {1u, 3u, 16u, 100u}) {
      Random random(++n);
      const bool ties = n % 2 == 0, huge = n % 5 == 0;
      const std::size_t count = turn<std::size_t>({1, 4, 5, 70, 300}, n);
      std::vector<float> centroids(lists * dim), rows(count * dim);
      for (std::vector<float>* values : {&centroids, &rows}) {
        for (float& value : *values) {
          value = static_cast<float>(std::uniform_real_distribution<double>(-3, 3)(random));
          if (ties) value = std::round(value);
          if (huge && random() % 50 == 0) value *= 1e18f;
        }
      }
      std::copy_n(centroids.begin(), dim, rows.begin());
      const auto row = [dim](const std::vector<float>& values, std::size_t i) {
        return reinterpret_cast<const std::byte*>(&values[i * dim]);
      };
      for (const Candidate& candidate : conformance_devices()) {
        INFO(candidate.name, " lists ", lists, " dim ", dim, " rows ", count);
        candidate.prepare();
        ivf::Resident resident{ivf::bytes_of(centroids), nullptr};
        resident.load(*candidate.device);
        std::vector<Assigned> found(count);
        AssignWork work;
        work.rows = rows.data();
        work.count = count;
        work.dim = dim;
        work.lists = lists;
        work.centroids = resident.buffer.get();
        work.out = found.data();
        const Status status = candidate.device->assign(work);
        REQUIRE_MESSAGE(status.ok(), status.message);
        for (std::size_t i = 0; i < count; ++i) {
          Assigned nearest{0, std::numeric_limits<double>::infinity()};
          for (std::uint32_t list = 0; list < lists; ++list) {
            const double distance =
                canonical_distance(Distance::kL2, ElementType::kFloat32, dim, row(rows, i),
                                   row(centroids, list));
            if (distance < nearest.distance) nearest = {list, distance};
          }
          CHECK(found[i].list == nearest.list);
          CHECK(found[i].distance == nearest.distance);
        }
      }
    }
  }
}
