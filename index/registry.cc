#include "index/index.h"

#include <algorithm>

#include "compute/spelling.h"
#include "core/listing.h"

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

std::string kinds_with_codes() {
  return listing(kinds(), [](const Kind& kind) { return kind.codes_suffice; },
                 [](const Kind& kind) { return kind.name; });
}

bool codes_suffice(std::string_view name) {
  return std::any_of(kinds().begin(), kinds().end(), [&](const Kind& kind) {
    return kind.name == name && kind.codes_suffice;
  });
}

std::unique_ptr<Index> make_index(const Spec& spec, const ColumnShape& shape) {
  std::string known;
  for (const Kind& kind : kinds()) {
    if (kind.name == spec.kind) {
      std::unique_ptr<Index> made = kind.make(spec, shape);
      made->key_ = key_of(spec, shape);
      made->kind_ = kind.name;
      return made;
    }
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  const std::string meant = compute::did_you_mean(spec.kind, known);
  throw Error(ErrorKind::kUnsupported,
              "index=" + spec.kind + " is not available in this version; available: " + known +
                  (meant.empty() ? "; index=approximate searches approximately" : meant));
}

}  // namespace warplite::index
