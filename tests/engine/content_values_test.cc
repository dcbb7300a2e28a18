// What becomes of a failure to look whether the values of content= are there.
#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "engine/flush.h"
#include "engine/table/content_source.h"
#include "engine/table/table_options.h"

namespace warplite::engine {
namespace {

// Has nothing but a failure, or none.
class FailingSource final : public ContentSource {
 public:
  explicit FailingSource(std::optional<ErrorKind> kind) : kind_(kind) {}
  void read(std::span<const RowId>, const Take&) override {}
  bool read_checked(RowId, const Take&) override { return false; }
  void scan_checked(const Take&) override {}
  void scan_rowids(const std::function<void(RowId)>&) override {}
  std::unique_ptr<Walk> walk(bool) override { return nullptr; }
  std::int64_t count() override { return 0; }
  bool exists(RowId) override { return false; }
  bool may_differ() const override { return false; }
  bool tells() const override { return true; }
  void check() override {
    if (kind_) throw Error(*kind_, "failed");
  }
  Moment moment() override { return {}; }

 private:
  std::optional<ErrorKind> kind_;
};

bool are_there(std::optional<ErrorKind> failure) {
  TableOptions options;
  options.content = std::make_shared<FailingSource>(failure);
  return values_are_there(options);
}

}  // namespace

TEST_CASE("content values: a table that is gone is told from one that cannot be read") {
  CHECK(values_are_there(TableOptions{}));
  CHECK(are_there(std::nullopt));
  CHECK_FALSE(are_there(ErrorKind::kInvalid));
  // SQLite may have rolled back: whoever goes on would commit nothing.
  CHECK_THROWS_AS(are_there(ErrorKind::kHost), Error);
  CHECK_THROWS_AS(are_there(ErrorKind::kInterrupted), Error);
}

}  // namespace warplite::engine
