#include "engine/lsh/signatures.h"

#include <cstring>
#include <utility>
#include <vector>

#include "engine/residency/derived_key.h"
#include "engine/table/parts.h"
#include "index/lsh/codes.h"

namespace warplite::engine {
namespace {

class BitsPart : public DelegatingPart {
 public:
  BitsPart(const View& view, const Part& part, std::size_t column, const index::Trained& index,
           std::uint32_t bits)
      : DelegatingPart({std::shared_ptr<const Part>(), &part}),
        view_(view),
        index_(index),
        column_(column),
        bits_(bits),
        codes_(part.codes(column, view.model(column))) {}

  Vectors vectors(std::size_t) const override {
    Vectors out;
    out.key = vector_key(column_);
    out.all_null = out.key.is_null();
    if (out.all_null) return out;
    out.resident = Residency::instance().vectors(
        out.key, view_.name() + " segment " + std::to_string(segment()) +
                       " signatures of vector column " + std::to_string(column_),
        vector_bytes(column_), [&] { return load(); });
    out.owner = out.resident;
    out.data = out.resident->block.vectors;
    if (out.resident->block.present.size() != 0) out.present = &out.resident->block.present;
    return out;
  }
  CacheKey vector_key(std::size_t) const override {
    return codes_.is_null() ? CacheKey{} : derived_key(Derived::kSignatureBits, codes_);
  }
  // What the base would read are its vectors.
  Bitmap read_vectors(std::size_t column, std::span<const std::uint32_t> rows,
                      std::byte* out) const override {
    return Part::read_vectors(column, rows, out);
  }
  bool lacks(Ahead what, std::size_t column) const override {
    return what == Ahead::kPlain && DelegatingPart::lacks(what, column);
  }
  std::size_t vector_bytes(std::size_t) const override {
    return codes_.is_null() ? 0 : rows() * (bits_ / 8);
  }

 private:
  storage::VectorBlock load() const {
    const auto model = view_.load_model(column_, index_);
    const auto codes = base().load_codes(column_);
    const index::CodedBlock block = checked_block(view_, base(), column_, *model, *codes);
    const auto bits = index::bit_vectors(index::hashed(*model), block);
    storage::VectorBlock out;
    out.memory = Bytes(bits.size());
    std::memcpy(out.memory.data(), bits.data(), bits.size());
    out.present = index::coded_rows(index::hashed(*model), block);
    if (out.present.all()) out.present = Bitmap();
    out.vectors = {out.memory.data(), rows(), bits_, ElementType::kBit};
    return out;
  }

  const View& view_;
  const index::Trained& index_;
  const std::size_t column_;
  const std::uint32_t bits_;
  const CacheKey codes_;
};

}  // namespace

CacheKey SignatureTileMaker::key(const Part& part) const {
  const CacheKey codes = part.codes(column_, stamp_);
  return codes.is_null() ? codes : derived_key(Derived::kSignatureTile, codes);
}

std::size_t SignatureTileMaker::bytes(const Part& part) const {
  return std::size_t{part.rows()} * model_.m() * sizeof(std::uint16_t);
}

TileMaker::Make SignatureTileMaker::read(const Part& part) const {
  if (key(part).is_null()) return nullptr;
  return [this, &part, codes = part.load_codes(column_)](const std::function<void()>& poll) {
    return index::signature_postings(
        model_, checked_block(view_, part, column_, model_, *codes), poll);
  };
}

std::shared_ptr<const View> view_of_bits(const View& view, std::size_t column,
                                         const index::Trained& index) {
  const std::uint32_t bits = index::signature_bits(index::hashed(*view.load_model(column, index)));
  std::vector<std::shared_ptr<const Part>> parts;
  for (std::size_t i = 0; i < view.parts(); ++i) {
    parts.push_back(std::make_shared<BitsPart>(view, view.part(i), column, index, bits));
  }
  return std::make_shared<const View>(view, std::move(parts));
}

}  // namespace warplite::engine
