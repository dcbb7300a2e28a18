// Exact searches of columns for which host memory has no room and GPUs have: compared with brute force over what was
// inserted, and with where the vectors are. GPUs are fakes.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "compute/reference.h"
#include "engine/residency/residency.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

using testing::FakeGpu;
using testing::FakeGpus;

constexpr std::uint32_t kElements = 64;  // of a vector
constexpr std::int64_t kNumbers = 40;    // that rows have, to be filtered by

struct Type {
  ElementType type;
  Distance distance;
  std::vector<std::uint32_t> elements;  // as bits, to choose from
  std::size_t width;                    // bytes of an element; of bits, a byte of them
};
const std::array<Type, 5> kTypes = {{
    {ElementType::kFloat32, Distance::kL2, {0, 0x3F800000, 0x40000000, 0xBF800000, 0x3E99999A}, 4},
    {ElementType::kFloat16, Distance::kCosine, {0, 0x3C00, 0x4000, 0xBC00, 0x34CD}, 2},
    {ElementType::kBFloat16, Distance::kInnerProduct, {0, 0x3F80, 0x4000, 0xBF80, 0x3E99}, 2},
    {ElementType::kInt8, Distance::kL1, {0, 1, 2, 0xFF, 0x80, 0x7F}, 1},
    {ElementType::kBit, Distance::kHamming, {0, 1, 0x0F, 0xF0, 0xFF, 0x81}, 1},
}};

TableOptions options_of_all_types() {
  TableOptions options;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    options.layout.vectors.push_back({kTypes[i].type, kElements});
    options.vectors.push_back({"v" + std::to_string(i), kTypes[i].distance, {}});
  }
  options.layout.plains = {PlainType::kInteger};
  options.plain_names = {"n"};
  options.rowid_name = "id";
  options.layout.segment_rows = 64;
  options.tail_rows = 32;
  return options;
}

struct Ask {
  std::size_t k = 10;
  std::size_t queries = 3;
  std::int64_t below = kNumbers;  // n
  std::optional<double> within = std::nullopt;
};

// (query, distance, rowid), in order.
using Answer = std::vector<std::tuple<std::size_t, double, RowId>>;

// A table in a file, and what was written to it.
class Table {
 public:
  explicit Table(unsigned seed) : random_(seed), session_(file_.path(), options_of_all_types(), true) {
    insert(20 * 64);
  }

  std::string vector(std::size_t column) {
    const Type& type = kTypes[column];
    std::string bytes;
    const std::size_t count = type.type == ElementType::kBit ? kElements / 8 : kElements;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t element = type.elements[random_() % type.elements.size()];
      bytes.append(reinterpret_cast<const char*>(&element), type.width);
    }
    return bytes;
  }

  void insert(int count) {
    session_.begin();
    for (int i = 0; i < count; ++i) {
      TestRow row;
      for (std::size_t c = 0; c < kTypes.size(); ++c) {
        row.vectors.push_back(random_() % 9 == 0 ? std::nullopt : std::optional(vector(c)));
      }
      row.plains.push_back(std::to_string(static_cast<std::int64_t>(random_()) % kNumbers));
      const BorrowedRow borrowed(options_of_all_types().layout, row, std::nullopt);
      rows_[*session_.table().insert(borrowed.get(), OnConflict::kAbort)] = row;
    }
    session_.commit();
  }
  // `pending`: not committed.
  void erase(int count, bool pending = false) {
    session_.begin();
    for (int i = 0; i < count; ++i) {
      auto row = rows_.lower_bound(static_cast<RowId>(random_() % rows_.rbegin()->first));
      session_.table().erase(row->first);
      rows_.erase(row);
    }
    if (!pending) session_.commit();
  }
  void commit() { session_.commit(); }

  std::size_t bytes(std::size_t column) {
    const auto view = session_.table().view();
    std::size_t sum = 0;
    for (std::size_t i = 0; i < view->parts(); ++i) sum += view->part(i).vector_bytes(column);
    return sum;
  }

  Answer brute_force(std::size_t column, const Ask& ask, const std::string& queries) const {
    const Type& type = kTypes[column];
    const std::size_t stride = queries.size() / ask.queries;
    Answer answer;
    for (std::size_t q = 0; q < ask.queries; ++q) {
      Answer all;
      for (const auto& [rowid, row] : rows_) {
        if (!row.vectors[column] || std::stoll(*row.plains[0]) >= ask.below) continue;
        const double distance = compute::canonical_distance(
            type.distance, type.type, kElements,
            reinterpret_cast<const std::byte*>(queries.data() + q * stride),
            reinterpret_cast<const std::byte*>(row.vectors[column]->data()));
        if (!ask.within || distance <= *ask.within) all.emplace_back(q, distance, rowid);
      }
      std::sort(all.begin(), all.end());
      if (!ask.within) all.resize(std::min(all.size(), ask.k));
      answer.insert(answer.end(), all.begin(), all.end());
    }
    return answer;
  }

  // Through this connection or another one.
  Answer found(Collection& table, std::size_t column, const Ask& ask, const std::string& queries,
               const std::string& device) {
    SearchRequest request;
    request.column = column;
    request.distance = kTypes[column].distance;
    request.queries = {reinterpret_cast<const std::byte*>(queries.data()), ask.queries, kElements,
                       kTypes[column].type};
    request.device = device;
    const auto view = table.view();
    Filter filter;
    if (ask.below < kNumbers) {
      filter.push_back({0, Comparison::kLess, {Value(Cell::of(ask.below))}});
    }
    const Selection selection(*view, filter);
    Answer answer;
    if (ask.within) {
      request.range.high = *ask.within;
      const auto lists = within(*view, selection, table.index(column), request);
      for (std::size_t q = 0; q < lists.size(); ++q) {
        for (const Hit& hit : lists[q]) answer.emplace_back(q, hit.distance, hit.rowid);
      }
      std::sort(answer.begin(), answer.end());
      return answer;
    }
    auto best = nearest(*view, selection, table.index(column), request, ask.k);
    for (std::size_t q = 0; q < best.queries(); ++q) {
      for (const Hit& hit : best.sorted(q)) {
        answer.emplace_back(q, hit.distance, view->rowid({hit.block, hit.row}));
      }
    }
    return answer;
  }
  bool right(std::size_t column, const Ask& ask, const std::string& device = "") {
    std::string queries;
    for (std::size_t q = 0; q < ask.queries; ++q) queries += vector(column);
    return found(session_.table(), column, ask, queries, device) == brute_force(column, ask, queries);
  }
  // The same of many questions.
  bool all_right(std::size_t column, const std::string& device = "") {
    const double far[] = {8, 0.9, 3, 3000, 30};
    bool ok = true;
    for (const std::int64_t below : {kNumbers, std::int64_t{20}, std::int64_t{1}, std::int64_t{0}}) {
      for (const std::size_t k : {1, 10, 100000}) ok &= right(column, {.k = k, .below = below}, device);
      ok &= right(column, {.below = below, .within = far[column]}, device);
    }
    return ok;
  }

  const std::string& path() const { return file_.path(); }
  Collection& collection() { return session_.table(); }

 private:
  TemporaryFile file_;
  std::mt19937 random_;
  IvfSession session_;
  std::map<RowId, TestRow> rows_;
};

// Bytes of a column's vectors that are on a device.
std::size_t held(std::size_t column, const std::string& device) {
  const std::string name = " v" + std::to_string(column);
  std::size_t bytes = 0;
  for (const Residency::Entry& entry : Residency::instance().entries()) {
    if (entry.device == device && entry.owner.ends_with(name)) bytes += entry.bytes;
  }
  return bytes;
}

TEST_CASE("vectors for which host memory has no room stay on a GPU that has it") {
  for (std::size_t column = 0; column < kTypes.size(); ++column) {
    CAPTURE(column);
    FakeGpus gpus(1);
    gpus.start();
    Table table(static_cast<unsigned>(column) + 1);
    Residency& residency = Residency::instance();
    const std::size_t bytes = table.bytes(column);
    residency.clear();
    residency.set_limit(bytes / 2);
    CHECK(table.right(column, {}));
    CHECK(held(column, "gpu:0") == bytes);
    CHECK(held(column, "cpu") == 0);
    CHECK(residency.used() <= bytes / 2);
    const std::size_t uploaded = gpus[0].uploaded_bytes, operations = gpus[0].operations;
    CHECK(table.all_right(column));
    CHECK(table.all_right(column, "gpu"));
    CHECK(table.right(column, {.queries = 600}));
    CHECK(gpus[0].uploaded_bytes == uploaded);
    CHECK(gpus[0].operations > operations);
    CHECK(held(column, "cpu") == 0);

    // Named devices answer; what another one has it keeps.
    const std::size_t answered = gpus[0].operations;
    CHECK(table.all_right(column, "cpu"));
    CHECK(gpus[0].operations == answered);
    CHECK(table.right(column, {}));
    CHECK(gpus[0].uploaded_bytes == uploaded);

    table.erase(100);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes == uploaded);
    table.erase(50, true);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes == uploaded);
    table.commit();
    table.insert(3 * 64);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes - uploaded <= 8 * (bytes / 20));
    CHECK(held(column, "cpu") <= bytes / 2);

    // Devices keep what they have when sets of it go, and when the host may have more.
    const std::size_t now = gpus[0].uploaded_bytes;
    residency.set_limit(1);
    residency.set_limit(bytes / 2);
    CHECK(table.all_right(column));
    residency.set_limit(0);
    CHECK(table.all_right(column));
    residency.set_limit(bytes / 3);
    CHECK(table.all_right(column));
    CHECK(gpus[0].uploaded_bytes == now);

    residency.set_device_limit(bytes / 2);
    CHECK(table.all_right(column));
    CHECK(table.all_right(column, "gpu"));
    residency.set_device_limit(0);
    CHECK(table.all_right(column));
    CHECK(held(column, "gpu:0") == table.bytes(column));

    // In the middle of a search, whose rest the CPU streams.
    gpus[0].failure = ErrorKind::kDevice;
    gpus[0].dies = true;
    gpus[0].fail_searches = 1;
    CHECK(table.right(column, {}));
    CHECK(gpus[0].lost);
    CHECK(table.all_right(column));
  }
}

TEST_CASE("vectors are not handed over where few of them are wanted, nor to a device that is not worth it") {
  FakeGpus gpus(1);
  gpus.start();
  Table table(11);
  Residency& residency = Residency::instance();
  const std::size_t bytes = table.bytes(0);
  residency.clear();
  residency.set_limit(bytes / 2);
  gpus[0].worthwhile = std::size_t{1} << 40;
  CHECK(table.all_right(0));
  CHECK(table.all_right(0, "cpu"));
  CHECK(gpus[0].uploads == 0);
  gpus[0].worthwhile = 0;
  CHECK(table.right(0, {.below = 1}));  // rows that are read one by one
  CHECK(gpus[0].uploaded_bytes < bytes / 2);
  CHECK(table.right(0, {}));
  CHECK(held(0, "gpu:0") == bytes);
  const std::size_t uploads = gpus[0].uploads;
  CHECK(table.right(0, {.below = 1}));
  CHECK(gpus[0].uploads == uploads);
}

TEST_CASE("a GPU that has less room than it says, or fails, is not handed vectors for a while") {
  for (const ErrorKind failure : {ErrorKind::kNoMemory, ErrorKind::kDevice}) {
    FakeGpus gpus(1);
    gpus.start();
    gpus[0].maps = false;
    Table table(12);
    Residency& residency = Residency::instance();
    const std::size_t bytes = table.bytes(0);
    residency.clear();
    residency.set_limit(bytes / 2);
    residency.set_device_limit(std::size_t{1} << 30);
    if (failure == ErrorKind::kNoMemory) {
      gpus[0].memory = bytes / 2;
    } else {
      gpus[0].lost = true;
    }
    CHECK(table.all_right(0));
    gpus[0].memory = std::size_t{1} << 40;
    gpus[0].lost = false;
    CHECK(table.all_right(0));
    if (failure == ErrorKind::kNoMemory) CHECK(held(0, "gpu:0") < bytes);
    CHECK(residency.used() <= bytes);
  }
}

TEST_CASE("while vectors are handed over, a device is lost") {
  for (const bool spread : {false, true}) {
    FakeGpus gpus(3);
    gpus.start();
    Table table(16);
    Residency& residency = Residency::instance();
    const std::size_t bytes = table.bytes(0);
    residency.clear();
    residency.set_limit(bytes / 2);
    if (spread) residency.set_device_limit(bytes * 3 / 4);
    gpus[0].most_uploads = gpus[1].most_uploads = 5;
    CHECK(table.right(0, {}));
    CHECK(gpus[0].lost);
    CHECK(gpus[1].lost);
    CHECK(gpus[2].searches() == 1);
    CHECK(held(0, "gpu:0") + held(0, "gpu:1") == 0);
    CHECK((held(0, "gpu:2") == bytes) == !spread);
    CHECK(table.all_right(0));
  }
}

TEST_CASE("vectors are spread over GPUs of which none has room for all") {
  FakeGpus gpus(3);
  gpus.start();
  Table table(13);
  Residency& residency = Residency::instance();
  for (std::size_t column = 0; column < kTypes.size(); ++column) {
    CAPTURE(column);
    const std::size_t bytes = table.bytes(column);
    residency.clear();
    residency.set_limit(bytes / 3);
    residency.set_device_limit(bytes / 2);
    CHECK(table.right(column, {}));
    const auto uploaded = [&] {
      return gpus[0].uploaded_bytes + gpus[1].uploaded_bytes + gpus[2].uploaded_bytes;
    };
    const std::size_t once = uploaded();
    CHECK(table.all_right(column));
    CHECK(table.all_right(column, "gpu"));
    CHECK(uploaded() == once);
    std::size_t sum = 0;
    for (const char* device : {"gpu:0", "gpu:1", "gpu:2"}) {
      CHECK(held(column, device) <= bytes / 2);
      CHECK(held(column, device) > 0);
      sum += held(column, device);
    }
    CHECK(sum == bytes);
    CHECK(held(column, "cpu") == 0);
    CHECK(table.right(column, {}, "gpu:1"));  // alone it has no room
    CHECK(table.all_right(column));
  }
  gpus[1].failure = ErrorKind::kDevice;
  gpus[1].dies = true;
  gpus[1].fail_searches = 1;
  CHECK(table.right(0, {}));
  CHECK(table.all_right(0));
}

TEST_CASE("connections share what a GPU was handed") {
  FakeGpus gpus(1);
  gpus.start();
  Table table(14);
  IvfSession other(table.path(), options_of_all_types(), false);
  Residency& residency = Residency::instance();
  const std::size_t bytes = table.bytes(0);
  residency.clear();
  residency.set_limit(bytes / 2);
  const auto both_right = [&](const Ask& ask) {
    std::string queries;
    for (std::size_t q = 0; q < ask.queries; ++q) queries += table.vector(0);
    const Answer expected = table.brute_force(0, ask, queries);
    CHECK(table.found(table.collection(), 0, ask, queries, "") == expected);
    CHECK(table.found(other.table(), 0, ask, queries, "") == expected);
  };
  both_right({});
  CHECK(gpus[0].uploaded_bytes <= bytes + 4 * (bytes / 20));  // rows that are not sealed, too
  for (int i = 0; i < 3; ++i) {
    const std::size_t uploaded = gpus[0].uploaded_bytes;
    table.insert(64);
    table.erase(20);
    both_right({});
    both_right({.below = 20});
    both_right({.within = 8});
    CHECK(gpus[0].uploaded_bytes - uploaded <= 6 * (bytes / 20));
  }
  CHECK(held(0, "cpu") == 0);
}

// Of one table, on which much happens.
void try_out(unsigned seed, int steps, const std::function<void(std::size_t)>& disturb) {
  Table table(seed);
  std::mt19937 random(seed);
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    const std::size_t column = random() % kTypes.size();
    if (random() % 4 == 0) disturb(table.bytes(column));
    const auto change = random() % 12;
    if (change == 0) table.insert(static_cast<int>(random() % 100));
    if (change == 1) table.erase(static_cast<int>(random() % 50), random() % 2 == 0);
    if (change == 2) table.commit();
    const char* devices[] = {"", "", "auto", "gpu:1", "gpu", "cpu"};
    const std::int64_t belows[] = {kNumbers, kNumbers, 20, 1};
    Ask ask{.k = std::size_t{1} << random() % 12, .queries = 1 + random() % 4, .below = belows[random() % 4]};
    if (random() % 5 == 0) ask.queries = 300;
    const std::string device = devices[random() % std::size(devices)];
    try {
      if (!table.right(column, ask, device)) FAIL_CHECK("wrong, seed " << seed);
    } catch (const Error& error) {  // of a device that was named, and has no room
      if (error.kind() != ErrorKind::kDevice || device.find("gpu") == device.npos) throw;
    }
  }
}

TEST_CASE("whatever becomes of limits and devices, all is found") {
  for (unsigned seed = 100; seed < 102; ++seed) {
    CAPTURE(seed);
    FakeGpus gpus(3);
    gpus.start();
    std::mt19937 random(seed);
    Residency& residency = Residency::instance();
    try_out(seed, 100, [&](std::size_t bytes) {
      FakeGpu& gpu = gpus[random() % 3];
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          return residency.set_limit(bytes / (1 + random() % 5));
        case 3:
          return residency.set_device_limit(bytes * (1 + random() % 6) / 3);
        case 4:
          return residency.clear();
        case 5:
          gpu.fail_uploads = 1 + static_cast<int>(random() % 3);
          return;
        case 6:
          gpu.failure = ErrorKind::kNoMemory;
          gpu.fail_searches = 1;
          return;
        default:
          gpu.maps = random() % 2 == 0;
          gpu.makes_copies = random() % 2 == 0;
      }
    });
  }
}

TEST_CASE("threads hand over, search and evict at once") {
  FakeGpus gpus(2);
  gpus.start();
  std::atomic<int> busy{3};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      try_out(200 + t, 30, [](std::size_t) {});
      --busy;
    });
  }
  std::mt19937 random(17);
  constexpr std::size_t kBytes = 20 * 64 * kElements * 4;
  while (busy > 0) {
    Residency::instance().set_limit(kBytes / (1 + random() % 5));
    Residency::instance().set_device_limit(kBytes * (1 + random() % 6) / 2);
    if (random() % 20 == 0) Residency::instance().clear();
    Residency::instance().entries();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("exact searches through an index that learns stay on the GPU, too") {
  FakeGpus gpus(1);
  gpus.start();
  TemporaryFile file;
  IvfSession session(file.path(), ivf_options(64), true);
  std::mt19937 random(15);
  session.begin();
  session.insert_many(random, 2000);
  session.commit();
  session.begin();
  session.train();
  session.commit();
  Residency& residency = Residency::instance();
  const auto exact = [&](const std::string& device) {
    return ask(*session.table().view(), session.table(), exactly({.k = 20, .device = device}));
  };
  const Hits expected = exact("cpu");
  residency.clear();
  residency.set_limit(2000 * kDim * 4 / 2);
  CHECK(exact("gpu") == expected);
  const std::size_t uploaded = gpus[0].uploaded_bytes;
  for (int i = 0; i < 2; ++i) CHECK(exact("") == expected);
  CHECK(gpus[0].uploaded_bytes == uploaded);
  CHECK(exact("cpu") == expected);
  CHECK(exact("gpu") == expected);
  CHECK(gpus[0].uploaded_bytes == uploaded);
}

}  // namespace
}  // namespace warplite::engine
