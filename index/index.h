// An Index finds the nearest stored vectors of one column. It knows neither SQLite
// nor CUDA: arithmetic goes to a compute::Device, bytes come and go as pages that
// engine/ keeps in the file under stamps.
// Threads: the search members may run concurrently.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compute/device.h"
#include "compute/policy/select_policy.h"
#include "core/distance.h"
#include "core/process/cache_key.h"

namespace warplite::index {

// `index=ivfpq(lists=1024, m=96)` as written; the kind checks its parameters.
struct Spec {
  std::string kind = "flat";
  std::map<std::string, std::string> parameters;
};

// Says what the column holds.
struct ColumnShape {
  ElementType type;
  std::uint32_t dim;
  Distance distance;
  bool codes_only = false;  // store=codes: vectors that are coded are not kept
};

class Index;
class Trained;

// Throws Error{kUnsupported} that lists the kinds there are.
std::unique_ptr<Index> make_index(const Spec& spec, const ColumnShape& shape);

class Index {
 public:
  virtual ~Index() = default;

  // Names the spec and the shape that make_index() made it from: another one of that key makes the
  // same of the same bytes.
  const CacheKey& key() const { return key_; }
  // Returns the kind of which make_index() made it; empty: it was not made there, and compares
  // every row.
  std::string_view kind() const { return kind_; }

  // Itself, when it is of a kind that learns (trained.h); else null. Then nearest() and within()
  // compare every row, for rows that are not coded yet and for searches that must be exact.
  virtual const Trained* trained() const { return nullptr; }

  // These do what the operations of compute::Device do, over the blocks of work: every row, unless
  // a kind knows better. The nearest are selected as work.select says.
  virtual Status nearest(compute::Device& device, const compute::Workload& work,
                         compute::HitTable& best) const {
    return compute::nearest_selected(device, work, best);
  }
  virtual Status within(compute::Device& device, const compute::Workload& work,
                        compute::HitLists& out) const {
    return device.within(work, out);
  }

 private:
  friend std::unique_ptr<Index> make_index(const Spec&, const ColumnShape&);
  CacheKey key_;
  std::string_view kind_;
};

// A kind of index, by the name that `index=` uses.
struct Kind {
  std::string_view name;
  // Throws Error{kInvalid} that names the parameter, what was expected and what came.
  std::unique_ptr<Index> (*make)(const Spec&, const ColumnShape&);
  bool codes_suffice = false;  // its models decode: it takes ColumnShape::codes_only
};

// Kinds are listed in extension/registrations.cc.
void register_kind(const Kind& kind);
// Lists the kinds for which store=codes suffices: "ivfpq".
std::string kinds_with_codes();
bool codes_suffice(std::string_view kind);

}  // namespace warplite::index
