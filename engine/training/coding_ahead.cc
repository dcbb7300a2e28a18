#include "engine/training/coding_ahead.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace warplite::engine {
namespace {

std::vector<storage::RowRef> rows_of(const Chunk& chunk) {
  std::vector<storage::RowRef> rows(chunk.size());
  for (std::uint32_t row = 0; row < chunk.size(); ++row) rows[row] = {&chunk, row};
  return rows;
}

}  // namespace

CodingAhead::Begun::Begun(const WriteContext& context, std::shared_ptr<const Chunk> rows,
                          const ColumnModels& by, std::size_t turn)
    : chunk(std::move(rows)),
      stamps(context.base->state.models),
      models(by),
      codes([this, &layout = context.options.layout, turn](compute::Cancellation* cancellation) {
        return encode_rows(layout, models, rows_of(*chunk), turn, cancellation);
      }) {}

void CodingAhead::begin(const WriteContext& context, const Pending::Slot& slot) {
  if (!encodes_meanwhile()) return;
  Coder coder(context, context.base->state);
  const ColumnModels& models = coder.models();
  const auto coded = [](const ColumnModel& column) { return column.model != nullptr; };
  if (std::none_of(models.begin(), models.end(), coded)) return;
  begun_.emplace_back(context, slot.chunk, models, turn_++);
}

std::list<CodingAhead::Begun>::iterator CodingAhead::find(const Chunk& chunk) {
  return std::find_if(begun_.begin(), begun_.end(),
                      [&](const Begun& begun) { return begun.chunk.get() == &chunk; });
}

bool CodingAhead::has(const Chunk& chunk) const {
  return std::any_of(begun_.begin(), begun_.end(),
                     [&](const Begun& begun) { return begun.chunk.get() == &chunk; });
}

std::optional<SegmentCodes> CodingAhead::take(const Chunk& chunk, const std::vector<Stamp>& models,
                                              compute::Cancellation* cancellation) noexcept {
  const auto begun = find(chunk);
  if (begun == begun_.end()) return std::nullopt;
  std::list<Begun> taken;  // ends with this call, whatever becomes of it
  taken.splice(taken.begin(), begun_, begun);
  if (begun->stamps != models) return std::nullopt;
  try {
    return begun->codes.take(cancellation);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void CodingAhead::keep_only(const std::vector<Pending::Slot>& slots) noexcept {
  std::erase_if(begun_, [&](const Begun& begun) {
    return std::none_of(slots.begin(), slots.end(),
                        [&](const Pending::Slot& slot) { return slot.chunk == begun.chunk; });
  });
}

}  // namespace warplite::engine
