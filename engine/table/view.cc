#include "engine/table/view.h"

#include <utility>

#include "engine/table/models.h"
#include "engine/table/parts.h"
#include "engine/table/rows.h"

namespace warplite::engine {

std::shared_ptr<const storage::OpaqueBlock> Part::load_codes(std::size_t,
                                                             const storage::BlockFile*) const {
  throw Error(ErrorKind::kInvalid, "rows that are not sealed have no codes");
}

Bitmap Part::read_vectors(std::size_t column, std::span<const std::uint32_t> rows,
                          std::byte* out) const {
  const Vectors all = vectors(column);
  if (all.all_null) return Bitmap(rows.size());
  copy_rows(all.data, rows, out);
  return all.present == nullptr ? Bitmap() : some_bits(*all.present, rows);
}

Value Part::decode_vector(std::size_t, std::uint32_t) const {
  throw Error(ErrorKind::kInvalid, "rows that are not sealed are not decoded");
}

View::View(const Layout& layout, storage::Store& store,
           std::vector<std::shared_ptr<const Part>> parts, std::vector<Stamp> models,
           ContentSource* content, SharedSegments segments)
    : layout_(&layout),
      store_(&store),
      parts_(std::move(parts)),
      models_(std::move(models)),
      content_(content),
      segments_(std::move(segments)) {}

View::View(const View& rows, std::vector<std::shared_ptr<const Part>> parts)
    : View(*rows.layout_, *rows.store_, std::move(parts), {}, rows.content_) {
  WARP_CHECK(parts_.size() == rows.parts_.size());
}

View::View(std::span<const std::shared_ptr<const View>> views)
    : View(*views[0]->layout_, *views[0]->store_, {}) {
  for (const auto& view : views) {
    WARP_CHECK(view->content_ == nullptr);
    parts_.insert(parts_.end(), view->parts_.begin(), view->parts_.end());
  }
}

std::string View::name() const { return store_->schema() + "." + store_->table(); }

Stamp View::model(std::size_t column) const {
  return models_lost_ || column >= models_.size() ? Stamp{} : models_[column];
}

CacheKey View::model_key(std::size_t column, const index::Index& index) const {
  return engine::model_key(*store_, column, models_[column], index);
}

std::shared_ptr<const index::Model> View::load_model(std::size_t column,
                                                     const index::Trained& index) const {
  return engine::load_model(*store_, column, models_[column], index);
}

std::uint64_t View::live_rows() const {
  std::uint64_t rows = 0;
  for (const auto& part : parts_) rows += part->live_rows();
  return rows;
}

std::optional<Location> View::find(RowId rowid) const {
  std::optional<Location> found;
  const auto test = [&](std::uint32_t i) {
    const Part& part = *parts_[i];
    const std::optional<std::uint32_t> row = part.find(rowid);
    if (row && is_alive(part, *row)) found = Location{i, *row};
    return found.has_value();
  };
  const auto count = static_cast<std::uint32_t>(parts_.size());
  if (finds_ == 1) {
    RowIdIndex rowids;
    rowids.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      rowids.add(parts_[i]->min_rowid(), parts_[i]->max_rowid(), i);
    }
    rowids.build();
    rowids_ = std::move(rowids);
  }
  if (finds_ < 2) ++finds_;
  if (finds_ == 2) {
    rowids_.find(rowid, test);
    return found;
  }
  // Newest rows last: they are asked for most often.
  for (std::uint32_t i = count; i-- > 0;) {
    if (rowid < parts_[i]->min_rowid() || rowid > parts_[i]->max_rowid()) continue;
    if (test(i)) break;
  }
  return found;
}

std::optional<RowId> View::max_rowid() const {
  std::optional<RowId> best;
  for (const auto& part : parts_) {
    if (part->live_rows() == 0 || (best && part->max_rowid() <= *best)) continue;
    const RowIdView rowids = part->rowids();
    for (std::uint32_t row = part->rows(); row-- > 0;) {
      if ((best && rowids[row] <= *best) || !is_alive(*part, row)) continue;
      best = rowids[row];
      if (*best == part->max_rowid()) break;
    }
  }
  return best;
}

Value View::plain(Location at, std::size_t column) const {
  const std::shared_ptr<const Column> values = parts_[at.part]->plain(column);
  return values == nullptr ? Value() : Value(values->cell(at.row));
}

Value View::vector(Location at, std::size_t column) const {
  if (parts_[at.part]->decodes(column)) return parts_[at.part]->decode_vector(column, at.row);
  const Part::Vectors vectors = parts_[at.part]->vectors(column);
  if (vectors.all_null || (vectors.present != nullptr && !vectors.present->test(at.row))) {
    return Value();
  }
  return Value(
      Cell::blob({reinterpret_cast<const char*>(vectors.data.row(at.row)), vectors.data.stride()}));
}

Value View::aux(Location at, std::size_t column) const {
  const Part& part = *parts_[at.part];
  if (const Chunk* chunk = part.chunk()) return chunk->aux(at.row, column);
  const RowId rowid = part.rowids()[at.row];
  const auto kept = kept_aux_.find(rowid);
  return kept == kept_aux_.end() ? store_->read_aux(rowid, column) : kept->second[column];
}

std::shared_ptr<const void> View::hold_aux() const {
  std::shared_ptr<const void> holder = aux_holders_.lock();
  if (holder == nullptr) aux_holders_ = holder = std::make_shared<const char>();
  return holder;
}

void View::keep_aux(std::span<const RowId> rowids) const {
  if (!holds_aux()) return;
  for (const RowId rowid : rowids) {
    const std::optional<Location> at = find(rowid);
    if (!at || parts_[at->part]->chunk() != nullptr || kept_aux_.contains(rowid)) continue;
    std::vector<Value> values;
    for (std::size_t i = 0; i < layout_->aux; ++i) values.push_back(store_->read_aux(rowid, i));
    kept_aux_.emplace(rowid, std::move(values));
  }
}

}  // namespace warplite::engine
