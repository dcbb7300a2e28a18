// vec_each(vector): a vector's elements; the rowid counts them from 0.
#include "core/elements.h"
#include "sql/table_functions/functions.h"

namespace warplite::sql {
namespace {

class Elements : public Rows {
 public:
  explicit Elements(const VectorInput& vector)
      : type_(vector.type), dim_(vector.dim), data_(vector.data, vector.data + vector.size) {}

  bool next() override { return ++returned_ <= dim_; }
  bool rewind() override {
    returned_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int) const override {
    const std::size_t i = returned_ - 1;
    switch (property<&ElementInfo::numbers>(type_)) {
      case Numbers::kReal:
        return sqlite3_result_double(context,
                                     static_cast<double>(element_at(type_, data_.data(), i)));
      case Numbers::kInteger:
        return sqlite3_result_int(context, static_cast<int>(element_at(type_, data_.data(), i)));
      case Numbers::kBits:
        return sqlite3_result_int(context, static_cast<int>(data_[i / 8]) >> (i % 8) & 1);
    }
  }

 private:
  ElementType type_;
  std::size_t dim_;
  std::vector<std::byte> data_;
  std::size_t returned_ = 0;
};

std::unique_ptr<Rows> run(Call& call) {
  if (call.is_null(0)) return nullptr;
  return std::make_unique<Elements>(vector_argument(call.value(0), "vec_each"));
}

}  // namespace

const TableFunction kVecEach{
    .name = "vec_each",
    .columns = "value",
    .column_count = 1,
    .parameters = {{"vector"}},
    .run = run,
};

}  // namespace warplite::sql
