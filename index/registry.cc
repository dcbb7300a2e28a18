#include "index/index.h"

namespace warplite::index {
namespace {

std::vector<Kind>& kinds() {
  static std::vector<Kind> list;
  return list;
}

CacheKey key_of(const Spec& spec, const ColumnShape& shape) {
  KeyWriter key;
  key.add_text(spec.kind).add(spec.parameters.size());
  for (const auto& [name, value] : spec.parameters) key.add_text(name).add_text(value);
  key.add(shape.type).add(shape.dim).add(shape.distance).add(shape.codes_only);
  return key.key();
}

}  // namespace

void register_kind(const Kind& kind) { kinds().push_back(kind); }

std::vector<std::string_view> kind_names() {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  return names;
}

std::unique_ptr<Index> make_index(const Spec& spec, const ColumnShape& shape) {
  std::string known;
  for (const Kind& kind : kinds()) {
    if (kind.name == spec.kind) {
      std::unique_ptr<Index> made = kind.make(spec, shape);
      made->key_ = key_of(spec, shape);
      return made;
    }
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(ErrorKind::kUnsupported,
              "index=" + spec.kind + " is not available in this version; available: " + known);
}

}  // namespace warplite::index
