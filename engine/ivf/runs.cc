#include "engine/ivf/runs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

#include "compute/host/parallel.h"
#include "engine/residency/derived_key.h"
#include "engine/residency/handing_over.h"

namespace warplite::engine {
namespace {

constexpr std::int64_t kFirstSegment = 1;  // whose number is the least

// Segments of the least complete run: they hold about 262,144 rows.
std::int64_t least_run(std::size_t stride) {
  constexpr std::size_t kBytesOfRow = 16;  // in a segment of 4 MB, if so many are to hold them
  return static_cast<std::int64_t>(
      std::clamp<std::size_t>(std::bit_ceil(stride / kBytesOfRow), 32, 512));
}

// Returns where the run ends that begins with segment `id`, when `end` follows the last segment:
// runs are complete ranges of segments, each as large as its beginning is a multiple of, and what
// is left makes one. A list of few rows costs a search as much as one of many, and half of its last
// group of rows is of other lists, so that runs are few: ten million rows make four. A new segment
// has those rows sorted again that the last run holds, of which most searches sort few: two runs
// become one when the second is complete, and none has more than 1,024 segments of this size: some
// eight million rows, or 67 million of codes alone, whose segments hold more. For the
// search after 8,192 new rows of a million x 128 (16,000 lists) that is 18 to 60 ms with RaBitQ
// codes, 1 to 10 ms with those of PQ, beside 250 and 75 ms that it takes to insert and code the
// rows (one core of Sapphire Rapids).
//
// Small segments, and those that were merged, leave numbers to fewer rows: runs are as large as if segments
// were full, and one that is not complete may be as large as the rows of the least.
std::int64_t end_of_run(std::int64_t id, std::int64_t end, std::size_t stride, std::uint32_t segment_rows,
                        const std::function<std::uint64_t(std::int64_t)>& rows_before) {
  constexpr std::uint64_t kMost = 32;  // least runs
  const std::int64_t least = least_run(stride);
  const std::uint64_t rows_of_least = static_cast<std::uint64_t>(least) * segment_rows;
  const std::int64_t first = id - kFirstSegment, last = end - kFirstSegment;
  const auto may_be = [&](std::int64_t size) {
    if (first % size != 0) return false;
    const bool complete = first + size <= last;
    return rows_before(first + size + kFirstSegment) <= (complete ? kMost : 1) * rows_of_least;
  };
  std::int64_t size = least;
  while (first + size < last && may_be(2 * size)) size *= 2;
  return std::min(end, (first / size + 1) * size + kFirstSegment);
}

MatrixView floats(const float* data, std::size_t count) {
  return {reinterpret_cast<const std::byte*>(data), count, 1, ElementType::kFloat32};
}

std::string name_of(const View& view, std::size_t column, const std::string& what) {
  return view.name() + " " + what + " of vector column " + std::to_string(column);
}

CacheKey key_of_run(const CodedParts& coded, std::size_t first, std::size_t count) {
  return derive(Derived::kRun, std::span(coded.keys).subspan(first, count)).key();
}

// Lets go of what was this run before segments were added, unless somebody searches it still: else
// each segment would leave a run behind, and memory that was never used takes several times as long
// to fill.
void forget_former(const View& view, std::size_t column, const CodedParts& coded,
                   const CodedParts::Run& run) {
  std::vector<CacheKey> former;
  const std::int64_t least = least_run(view.layout().vectors[column].stride());
  const auto segment = [&](std::size_t i) {
    return view.part(coded.parts[i]).segment() - kFirstSegment;
  };
  const std::size_t end = run.first + run.count;
  // Complete runs, and beginnings of the least.
  for (std::int64_t size = least; size <= segment(end - 1) - segment(run.first) + least;
       size *= 2) {
    for (std::size_t first = run.first; first < end;) {
      std::size_t next = first;
      while (next < end && segment(next) / size == segment(first) / size) {
        ++next;
        if (size == least) former.push_back(key_of_run(coded, first, next - first));
      }
      if (size != least) former.push_back(key_of_run(coded, first, next - first));
      first = next;
    }
  }
  // And what was one run while its rows were fewer.
  const std::uint64_t most = static_cast<std::uint64_t>(least) * view.layout().segment_rows;
  std::uint64_t rows = 0;
  for (std::size_t next = run.first; next < coded.parts.size(); ++next) {
    rows += view.part(coded.parts[next]).rows();
    if (rows > most) break;
    former.push_back(key_of_run(coded, run.first, next + 1 - run.first));
  }
  std::erase(former, run.key);
  Residency::instance().forget(former);
}

// Decodes the codes of the run's segments, once, and keeps none of them. What they say is checked
// on all threads.
index::Run make_run(const View& view, std::size_t column, const CodedParts& coded,
                    const CodedParts::Run& run, const index::InvertedModel& model,
                    BlockReader& reader) {
  const Bytes::Reuse reuse;  // blocks are let go of while the run is made
  std::vector<const Part*> parts;
  for (std::size_t i = 0; i < run.count; ++i) {
    parts.push_back(&view.part(coded.parts[run.first + i]));
  }
  std::vector<std::shared_ptr<const storage::OpaqueBlock>> held(run.count);
  reader.read(parts, [&](std::size_t i, const storage::BlockFile* file) {
    held[i] = parts[i]->load_codes(column, file);
  });
  std::vector<index::CodedBlock> blocks(run.count);
  compute::in_parallel(run.count, 1, run.count, [&](std::size_t i, std::size_t) {
    blocks[i] = checked_block(view, *parts[i], column, model, *held[i]);
  });
  return model.make_run(blocks, [&](std::size_t i) { held[i].reset(); });
}

// Of records only those are read whose rows the signs do not rule out. 0: there are none.
std::size_t hot_bytes(const compute::IvfLayout& at) {
  return at.records < at.size ? at.records : 0;
}

// Sets what a device is told of the lists. What somebody else has put into memory may be of another
// model.
void look_at_lists(const compute::IvfShape& shape, const std::string& name, LoadedRun& loaded) {
  const bool handed = loaded.buffer != nullptr;
  const std::size_t there = handed ? loaded.head->size() : loaded.bytes->block.vectors.rows;
  if (there < compute::IvfLayout::of(shape, 0).ordinals) of_another_model(name);
  const auto* const begins = reinterpret_cast<const std::uint32_t*>(loaded.lists());
  loaded.positions = begins[shape.lists];
  const compute::IvfLayout at = compute::IvfLayout::of(shape, loaded.positions);
  const std::size_t size = handed ? loaded.buffer->size() : there;
  const std::uint32_t unit = shape.fast_scan() ? compute::kFastScanRows : 1;
  const bool other_parts = !handed && loaded.bytes->hot != hot_bytes(at);
  if (at.size != size || other_parts || loaded.positions % unit != 0) of_another_model(name);
  const auto* const ends = reinterpret_cast<const std::uint32_t*>(loaded.lists() + at.ends);
  loaded.longest = 0;
  for (std::uint32_t list = 0; list < shape.lists; ++list) {
    if (begins[list] > ends[list] || ends[list] > loaded.positions) of_another_model(name);
    loaded.longest = std::max(loaded.longest, ends[list] - begins[list]);
  }
}

// Small segments at the end, which come and go, make a run of their own: each time one comes the rows of its
// run are sorted again.
void part_small(const View& view, CodedParts& found) {
  if (found.runs.empty()) return;
  CodedParts::Run& last = found.runs.back();
  CodedParts::Run small{{}, last.first + last.count, 0, 0};
  const auto rows = [&](std::size_t i) { return view.part(found.parts[i]).rows(); };
  while (small.first > last.first && rows(small.first - 1) < view.layout().segment_rows / 2) {
    small.rows += rows(--small.first);
    ++small.count;
  }
  if (small.count == 0 || small.count == last.count) return;
  last.count -= small.count;
  last.rows -= small.rows;
  last.key = key_of_run(found, last.first, last.count);
  small.key = key_of_run(found, small.first, small.count);
  found.runs.push_back(small);
}

}  // namespace

std::vector<std::uint32_t> CodedParts::others(const View& view) const {
  std::vector<std::uint32_t> others = not_coded;
  while (!others.empty() && others.back() >= view.parts()) others.pop_back();
  for (std::uint32_t i = end; i < view.parts(); ++i) others.push_back(i);
  return others;
}

CodedParts find_coded_parts(const View& view, std::size_t column) {
  CodedParts found;
  found.model = view.model(column);
  found.end = static_cast<std::uint32_t>(view.parts());
  std::int64_t end = 0;
  const std::size_t stride = view.layout().vectors[column].stride();
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    const CacheKey key = view.part(i).codes(column, found.model);
    if (key.is_null()) {
      found.not_coded.push_back(i);
      continue;
    }
    found.parts.push_back(i);
    found.keys.push_back(key);
    found.bytes.push_back(view.part(i).vector_bytes(column));
    found.vector_bytes += found.bytes.back();
    end = view.part(i).segment() + 1;
  }
  for (std::size_t i = 0; i < found.parts.size();) {
    // Of the run that begins here.
    const auto rows_before = [&, at = i, rows = std::uint64_t{0}](std::int64_t number) mutable {
      for (; at < found.parts.size() && view.part(found.parts[at]).segment() < number; ++at) {
        rows += view.part(found.parts[at]).rows();
      }
      return rows;
    };
    const std::int64_t last = end_of_run(view.part(found.parts[i]).segment(), end, stride,
                                         view.layout().segment_rows, rows_before);
    CodedParts::Run run{{}, i, 0, 0};
    for (; i < found.parts.size() && view.part(found.parts[i]).segment() < last; ++i) {
      ++run.count;
      run.rows += view.part(found.parts[i]).rows();
      found.live_rows += view.part(found.parts[i]).live_rows();
    }
    run.key = key_of_run(found, run.first, run.count);
    found.rows += run.rows;
    found.runs.push_back(run);
  }
  part_small(view, found);
  return found;
}

index::CodedBlock checked_block(const View& view, const Part& part, std::size_t column,
                                const index::Model& model, const storage::OpaqueBlock& codes) {
  try {
    model.check_codes(codes.payload, part.rows());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kCorrupt, view.name() + ": segment " + std::to_string(part.segment()) +
                                         ", codes of vector column " + std::to_string(column) +
                                         ": " + error.what());
  }
  return {codes.payload, part.rows()};
}

LoadedRun load_run(const View& view, std::size_t column, const CodedParts& coded,
                   const CodedParts::Run& run, const index::InvertedModel& model,
                   BlockReader& reader, compute::Device* onto) {
  const Part& first = view.part(coded.parts[run.first]);
  const Part& last = view.part(coded.parts[run.first + run.count - 1]);
  const std::string name = name_of(view, column,
                                   "codes of segments " + std::to_string(first.segment()) + " to " +
                                       std::to_string(last.segment()));
  LoadedRun loaded;
  Residency::CopyOnDevice handed;
  if (onto != nullptr) handed = Residency::instance().copy_on(*onto, run.key);
  if (handed.buffer == nullptr) {
    const auto load = [&] {
      forget_former(view, column, coded, run);
      index::Run made = make_run(view, column, coded, run, model, reader);
      ResidentVectors out{{std::move(made.bytes), {}, {}}, nullptr};
      const std::byte* const data = out.block.memory.data();
      out.block.vectors = {data, out.block.memory.size(), 1, ElementType::kInt8};
      out.hot = hot_bytes(compute::IvfLayout::of(model.shape(), made.positions));
      Bytes head(compute::IvfLayout::of(model.shape(), 0).ordinals);
      std::memcpy(head.data(), data, head.size());
      out.head = std::make_shared<const Bytes>(std::move(head));
      return out;
    };
    loaded.bytes =
        Residency::instance().bytes(run.key, name, run_bytes(model.shape(), run.rows), load,
                                    std::span(coded.keys).subspan(run.first, run.count));
    look_at_lists(model.shape(), name, loaded);
    if (onto == nullptr) return loaded;
    handed = hand_over(*onto, run.key, std::move(loaded.bytes));
  }
  loaded = {nullptr, std::move(handed.buffer), std::move(handed.head)};
  look_at_lists(model.shape(), name, loaded);
  return loaded;
}

LoadedModel load_model_bytes(const View& view, std::size_t column, const index::Trained& index) {
  LoadedModel loaded;
  loaded.model = index::inverted(view.load_model(column, index));
  const CacheKey model = view.model_key(column, index);
  const compute::IvfShape& shape = loaded.model->shape();
  loaded.centroids = share_centroids(loaded.model, model, name_of(view, column, "centroids"));
  if (const index::Run* lists = loaded.model->coarse(); lists != nullptr) {
    loaded.coarse_key = derived_key(Derived::kCoarse, model);
    const std::string name = name_of(view, column, "run of lists");
    loaded.coarse =
        share_of_model(loaded.model, loaded.coarse_key, name,
                       {lists->bytes.data(), lists->bytes.size(), 1, ElementType::kInt8});
    // What it says indexes the lists.
    const std::byte* const found = loaded.coarse->block.vectors.data;
    const std::byte* const own = lists->bytes.data();
    if (found != own && std::memcmp(found, own, lists->bytes.size()) != 0) of_another_model(name);
  }
  if (!shape.has_codebooks()) return loaded;
  loaded.codebooks_key = derived_key(Derived::kCodebooks, model);
  loaded.codebooks =
      share_of_model(loaded.model, loaded.codebooks_key, name_of(view, column, "codebooks"),
                     floats(loaded.model->codebooks(), std::size_t{shape.codewords()} * shape.dim));
  return loaded;
}

std::size_t run_bytes(const compute::IvfShape& shape, std::uint64_t rows, Extent extent) {
  // PQ codes of 4 bits lose half a group of positions for each list, on average.
  const std::uint64_t between = shape.fast_scan() && shape.planes == 0
                                    ? std::uint64_t{shape.lists} * compute::kFastScanRows / 2
                                    : 0;
  const std::uint64_t unit = shape.fast_scan() ? compute::kFastScanRows : 1;
  const std::uint64_t positions = (rows + between + unit - 1) / unit * unit;
  const std::uint64_t most = UINT32_MAX / unit * unit;
  const auto at =
      compute::IvfLayout::of(shape, static_cast<std::uint32_t>(std::min(positions, most)));
  return extent == Extent::kHot ? at.records : at.size;
}

std::size_t model_bytes(const index::InvertedModel& model) {
  const compute::IvfShape& shape = model.shape();
  const std::size_t rows = std::size_t{shape.lists} + shape.groups +
                           (shape.has_codebooks() ? shape.codewords() : 0);
  const index::Run* const lists = model.coarse();
  return rows * shape.dim * sizeof(float) + (lists != nullptr ? lists->bytes.size() : 0);
}

std::vector<RunShare> spread_runs(const CodedParts& coded, std::span<const std::size_t> bytes,
                                  const std::vector<bool>& parts, std::size_t each,
                                  std::span<compute::Device* const> devices) {
  std::vector<RunShare> shares;
  std::vector<std::size_t> room;
  for (compute::Device* device : devices) {
    if (!device->own_memory()) return {};
    const std::size_t budget = Residency::instance().holding(*device, {}).budget;
    room.push_back(budget - std::min(budget, each));
    shares.push_back({device, std::vector<bool>(coded.parts.size())});
  }
  const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  if (room.size() < 2 || room.front() >= all) return {};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto most = std::max_element(room.begin(), room.end());
    if (*most < bytes[i]) return {};
    *most -= bytes[i];
    std::vector<bool>& share = shares[static_cast<std::size_t>(most - room.begin())].parts;
    const auto first = static_cast<std::ptrdiff_t>(coded.runs[i].first);
    std::copy_n(parts.begin() + first, coded.runs[i].count, share.begin() + first);
  }
  std::erase_if(shares, [](const RunShare& share) {
    return std::find(share.parts.begin(), share.parts.end(), true) == share.parts.end();
  });
  return shares;
}

}  // namespace warplite::engine
