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

const Kind* find(std::string_view name) {
  const auto found = std::ranges::find(kinds(), name, &Kind::name);
  return found == kinds().end() ? nullptr : &*found;
}

}  // namespace

void register_kind(const Kind& kind) { kinds().push_back(kind); }

std::string kinds_with_codes() {
  return listing(kinds(), [](const Kind& kind) { return kind.codes_suffice; },
                 [](const Kind& kind) { return kind.name; });
}

bool codes_suffice(std::string_view name) {
  const Kind* const kind = find(name);
  return kind != nullptr && kind->codes_suffice;
}

std::unique_ptr<Index> make_index(const Spec& spec, const ColumnShape& shape) {
  if (const Kind* const kind = find(spec.kind); kind != nullptr) {
    std::unique_ptr<Index> made = kind->make(spec, shape);
    made->key_ = key_of(spec, shape);
    made->kind_ = kind->name;
    return made;
  }
  std::string known;
  for (const Kind& kind : kinds()) known += (known.empty() ? "" : ", ") + std::string(kind.name);
  const std::string meant = compute::did_you_mean(spec.kind, known);
  throw Error(ErrorKind::kUnsupported,
              "index=" + spec.kind + " is not available in this version; available: " + known +
                  (meant.empty() ? "; index=approximate searches approximately" : meant));
}

void check_new_column(const Spec& spec, const ColumnShape& shape) {
  make_index(spec, shape);
  if (const Kind& kind = *find(spec.kind); kind.check_new != nullptr) kind.check_new(spec, shape);
}

}  // namespace warplite::index
