#include "engine/search.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "compute/device.h"

namespace warplite::engine {
namespace {

struct DefaultDevice {
  std::mutex mutex;
  std::string name;

  DefaultDevice() {
    const char* configured = std::getenv("WARPLITE_DEVICE");
    name = configured != nullptr && *configured != '\0' ? configured : "auto";
  }
};

DefaultDevice& default_device_setting() {
  static DefaultDevice setting;
  return setting;
}

// A part on its way through a device: what its Block points to.
struct Loaded {
  std::shared_ptr<const void> owner;
  std::shared_ptr<const ResidentVectors> resident;
  std::shared_ptr<const compute::Buffer> buffer;
  Bitmap live;
};

class Searcher {
 public:
  Searcher(const View& view, const Selection& rows, const SearchRequest& request,
           compute::Device& device)
      : view_(view), rows_(rows), request_(request), device_(device) {
    work_.distance = request.distance;
    work_.queries = request.queries;
    work_.range = request.range;
    work_.has_after = request.has_after;
    work_.after_distance = request.after_distance;
    work_.after_rowid = request.after_rowid;
    work_.cancellation = request.cancellation;
  }

  // Hands the selected rows to `operation` (a Status(const Workload&)), at once when they fit
  // into the memory budget, else group by group.
  template <typename Operation>
  Status run(const Operation& operation) {
    const std::size_t budget = group_budget();
    std::size_t held = 0;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      if (rows_.part(i).count == 0) continue;
      const std::size_t bytes = view_.part(i).vector_bytes(request_.column);
      if (held > 0 && held + bytes > budget) {
        if (Status status = search_group(operation); !status.ok()) return status;
        held = 0;
      }
      held += bytes;
      if (Status status = load(static_cast<std::uint32_t>(i)); !status.ok()) return status;
    }
    return search_group(operation);
  }

 private:
  std::size_t group_budget() const {
    std::size_t total = 0;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      if (rows_.part(i).count != 0) total += view_.part(i).vector_bytes(request_.column);
    }
    const std::size_t limit = Residency::instance().limit();
    return total <= limit ? total : limit / 2;
  }

  Status load(std::uint32_t i) {
    const Part& part = view_.part(i);
    const Selection::Rows& selected = rows_.part(i);
    Part::Vectors vectors = part.vectors(request_.column);
    if (vectors.all_null) return {};
    Loaded loaded;
    compute::Block block;
    block.rows = part.rows();
    block.id = i;
    block.rowids = part.rowids();
    block.live_rows = selected.count;
    if (vectors.present != nullptr) {
      loaded.live = *vectors.present;
      if (!selected.all) loaded.live &= selected.bits;
      block.live_rows = static_cast<std::uint32_t>(loaded.live.count());
      if (block.live_rows == 0) return {};
      block.live = loaded.live.words();
    } else if (!selected.all) {
      block.live = selected.bits.words();
    }
    if (Status status = make_resident(vectors, loaded); !status.ok()) return status;
    block.vectors = loaded.buffer.get();
    loaded.owner = std::move(vectors.owner);
    loaded_.push_back(std::move(loaded));
    blocks_.push_back(block);
    return {};
  }

  Status make_resident(const Part::Vectors& vectors, Loaded& loaded) {
    if (vectors.resident == nullptr) {
      const std::size_t size = vectors.data.rows * vectors.data.stride();
      return device_.make_resident({vectors.owner, vectors.data.data, size}, &loaded.buffer);
    }
    loaded.resident = vectors.resident;
    try {
      loaded.buffer = Residency::instance().buffer(device_, vectors.stamp, vectors.resident);
    } catch (const Error& error) {
      return {error.kind(), error.what()};
    }
    return {};
  }

  template <typename Operation>
  Status search_group(const Operation& operation) {
    if (blocks_.empty()) return {};
    work_.blocks = blocks_;
    Status status = operation(work_);
    blocks_.clear();
    loaded_.clear();
    return status;
  }

  const View& view_;
  const Selection& rows_;
  const SearchRequest& request_;
  compute::Device& device_;
  compute::Workload work_;
  std::vector<compute::Block> blocks_;
  std::vector<Loaded> loaded_;
};

// Runs `attempt` (a Status(Device&)) on the device asked for. When that one fails or has too
// little memory, and was not insisted on, the CPU answers.
template <typename Attempt>
void on_device(const std::string& wanted, const Attempt& attempt) {
  const compute::Registry& registry = compute::Registry::instance();
  compute::Device& device = registry.choose(wanted.empty() ? default_device() : wanted);
  Status status = attempt(device);
  const bool devices_fault =
      status.kind == ErrorKind::kDevice || status.kind == ErrorKind::kNoMemory;
  if (devices_fault && wanted.empty()) {
    compute::Device& cpu = registry.choose("cpu");
    if (&cpu != &device) status = attempt(cpu);
  }
  status.raise();
}

}  // namespace

compute::HitTable nearest(const View& view, const Selection& rows, const index::Index& index,
                          const SearchRequest& request, std::size_t k) {
  // More than there are rows would only cost memory.
  k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count()));
  compute::HitTable best(request.queries.rows, k);
  if (k == 0 || request.queries.rows == 0) return best;
  on_device(request.device, [&](compute::Device& device) {
    best = compute::HitTable(request.queries.rows, k);
    return Searcher(view, rows, request, device).run([&](const compute::Workload& work) {
      return index.nearest(device, work, best);
    });
  });
  return best;
}

compute::HitLists within(const View& view, const Selection& rows, const index::Index& index,
                         const SearchRequest& request) {
  compute::HitLists out(request.queries.rows);
  if (out.empty()) return out;
  on_device(request.device, [&](compute::Device& device) {
    for (std::vector<Hit>& hits : out) hits.clear();
    return Searcher(view, rows, request, device).run([&](const compute::Workload& work) {
      return index.within(device, work, out);
    });
  });
  return out;
}

void set_default_device(const std::string& name) {
  compute::Registry::instance().choose(name);
  DefaultDevice& setting = default_device_setting();
  const std::lock_guard lock(setting.mutex);
  setting.name = name.empty() ? "auto" : name;
}

std::string default_device() {
  DefaultDevice& setting = default_device_setting();
  const std::lock_guard lock(setting.mutex);
  return setting.name;
}

}  // namespace warplite::engine
