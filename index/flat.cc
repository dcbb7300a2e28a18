#include "index/flat.h"

namespace warplite::index {
namespace {

class FlatIndex : public Index {
 public:
  bool exact() const override { return true; }

  Status nearest(compute::Device& device, const compute::Workload& work,
                 compute::HitTable& best) const override {
    return device.nearest(work, best);
  }

  Status within(compute::Device& device, const compute::Workload& work,
                compute::HitLists& out) const override {
    return device.within(work, out);
  }
};

std::unique_ptr<Index> make_flat(const Spec& spec, const ColumnShape&) {
  if (!spec.parameters.empty()) {
    throw Error(ErrorKind::kInvalid, "index=flat takes no parameter, but \"" +
                                         spec.parameters.begin()->first + "\" was given");
  }
  return std::make_unique<FlatIndex>();
}

}  // namespace

Kind flat_kind() { return {"flat", make_flat}; }

}  // namespace warplite::index
