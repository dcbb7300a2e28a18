#include "engine/match/column_codes.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "compute/codes.h"
#include "compute/host/parallel.h"
#include "engine/match/value_ranks.h"
#include "engine/residency/common_cancellation.h"
#include "engine/residency/derived_key.h"

namespace warplite::engine {
namespace {

// Columns that are read before codes of them are made: they may be larger than the codes.
constexpr std::size_t kColumnsAtOnce = 32;

CacheKey key_of(const View& view, std::uint32_t part, std::size_t column) {
  const CacheKey block = view.part(part).plain_key(column);
  return block.is_null() ? CacheKey{} : derived_key(Derived::kColumnCodes, block);
}

ResidentVectors as_resident(Bytes codes, Column values) {
  ResidentVectors out;
  out.beside = values.memory();
  out.owner = std::make_shared<const Column>(std::move(values));
  out.block.memory = std::move(codes);
  const Bytes& bytes = out.block.memory;
  out.block.vectors = {bytes.data(), bytes.size(), 1, ElementType::kInt8};
  return out;
}

ResidentVectors make_codes(const Column& column) {
  Bytes codes(compute::code_slots(column.size()) * sizeof(std::uint16_t));
  auto* const ranks = reinterpret_cast<std::uint16_t*>(codes.data());
  std::fill_n(ranks, compute::code_slots(column.size()), std::uint16_t{0});
  return as_resident(std::move(codes), rank_values(column, ranks));
}

// Makes the codes of a column of a part that is not sealed. Its column may have grown since.
std::shared_ptr<const ResidentVectors> make_codes(const Part& part, std::size_t column) {
  const std::shared_ptr<const Column> all = part.plain(column);
  std::vector<std::uint32_t> rows(part.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  Column first(all->type());
  first.gather(*all, rows.data(), rows.size());
  return std::make_shared<const ResidentVectors>(make_codes(first));
}

// Codes that are to be made: reading needs the connection, the rest does not.
struct Job {
  ColumnCodes* codes;
  std::shared_ptr<const Column> column;
  std::string owner;
};

void make(std::vector<Job>& jobs, compute::Cancellation& cancellation) {
  compute::in_parallel(jobs.size(), 1, jobs.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const Job& job = jobs[i];
      if (cancellation.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
      job.codes->bytes = Residency::instance().bytes(
          job.codes->key, job.owner, 0, [&] { return make_codes(*job.column); });
    }
  });
  jobs.clear();
}

}  // namespace

bool has_column_codes(const View& view, std::uint32_t part, std::span<const std::size_t> columns) {
  return std::all_of(columns.begin(), columns.end(), [&](std::size_t column) {
    const CacheKey key = key_of(view, part, column);
    return key.is_null() || Residency::instance().find(key) != nullptr;
  });
}

std::vector<ColumnCodes> load_column_codes(const View& view, std::span<const std::uint32_t> parts,
                                           std::span<const std::size_t> columns,
                                           compute::Cancellation* cancellation) {
  CommonCancellation common(cancellation);
  std::vector<ColumnCodes> all(parts.size() * columns.size());
  std::vector<Job> jobs;
  ColumnCodes* next = all.data();
  for (const std::uint32_t part : parts) {
    WARP_CHECK(view.part(part).rows() <= compute::kTileRows);
    for (const std::size_t column : columns) {
      ColumnCodes& codes = *next++;
      codes.key = key_of(view, part, column);
      if (codes.key.is_null()) {
        if (view.part(part).segment() == 0) codes.bytes = make_codes(view.part(part), column);
        continue;
      }
      codes.bytes = Residency::instance().find(codes.key);
      if (codes.bytes != nullptr) continue;
      auto values = view.part(part).plain(column);
      codes.key = key_of(view, part, column);  // to read a content table may have changed it
      jobs.push_back({&codes, std::move(values),
                      view.name() + " segment " + std::to_string(view.part(part).segment()) +
                          " codes of column " + std::to_string(column)});
      if (jobs.size() == kColumnsAtOnce) make(jobs, common);
    }
  }
  make(jobs, common);
  return all;
}

}  // namespace warplite::engine
