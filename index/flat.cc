#include "index/flat.h"

namespace warplite::index {
namespace {

std::unique_ptr<Index> make_flat(const Spec& spec, const ColumnShape&) {
  if (!spec.parameters.empty()) {
    throw Error(ErrorKind::kInvalid, "index=flat takes no parameter, but \"" +
                                         spec.parameters.begin()->first + "\" was given");
  }
  return std::make_unique<Index>();
}

}  // namespace

Kind flat_kind() { return {"flat", make_flat}; }

}  // namespace warplite::index
