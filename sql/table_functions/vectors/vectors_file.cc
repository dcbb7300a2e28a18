// warp_vectors_file(path): the vectors of a file, streamed; the rowid counts them from 0, as
// the neighbours in ground-truth files do.
#include "sql/functions/config.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/vectors/vector_file.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kRowId, kVector, kCount };
};

class FileVectors : public Rows {
 public:
  explicit FileVectors(std::unique_ptr<VectorFile> file) : file_(std::move(file)) {}

  bool next() override {
    ++record_;
    return file_->next();
  }
  void column(sqlite3_context* context, int column) const override {
    if (column == Output::kRowId) return sqlite3_result_int64(context, record_);
    const std::span<const std::byte> vector = file_->vector();
    result_vector(context, file_->type(), vector.data(), vector.size());
  }

 private:
  std::unique_ptr<VectorFile> file_;
  sqlite3_int64 record_ = -1;
};

std::unique_ptr<Rows> run(Call& call) {
  check_external_access(call.function());
  return std::make_unique<FileVectors>(open_vector_file(call.text(0, "the path of a file")));
}

}  // namespace

const TableFunction kVectorsFile{
    .name = "warp_vectors_file",
    .columns = "rowid INTEGER, vector BLOB",
    .column_count = Output::kCount,
    .parameters = {{"path"}},
    .run = run,
    .orders = {{Output::kRowId}},
    .estimated_rows = 1000000,
    .direct_only = true,
};

}  // namespace warplite::sql
