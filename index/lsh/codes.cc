#include "index/lsh/codes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "index/lsh/layout.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kMagic = 0x4348534cu;  // "LSHC"
constexpr std::uint32_t kVersion = 1;
// Steps of hashing between questions whether to go on.
constexpr std::size_t kStepsAtOnce = std::size_t{1} << 24;

using Header = std::array<std::uint32_t, 4>;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorKind::kCorrupt, "codes of the index: " + what);
}

void poll(compute::Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

// Calls body(first, buckets of `count` rows, count) for all rows, some at a time.
template <typename Body>
void for_signatures(const LshModel& model, const MatrixView& vectors,
                    compute::Cancellation* cancellation, const Body& body) {
  const std::size_t steps = std::size_t{model.dim()} * model.m();
  const std::size_t at_once = std::clamp<std::size_t>(kStepsAtOnce / steps, 1, vectors.rows + 1);
  std::vector<std::uint32_t> buckets(std::min(at_once, vectors.rows) * model.m());
  for (std::size_t first = 0; first < vectors.rows; first += at_once) {
    poll(cancellation);
    const std::size_t count = std::min(at_once, vectors.rows - first);
    model.signature({vectors.row(first), count, vectors.dim, vectors.type}, nullptr,
                    buckets.data());
    body(first, buckets.data(), count);
  }
}

template <typename Number>
void narrow(const std::uint32_t* signature, std::uint32_t m, std::byte* row) {
  for (std::uint32_t i = 0; i < m; ++i) {
    const auto bucket = static_cast<Number>(signature[i]);
    std::memcpy(row + i * sizeof bucket, &bucket, sizeof bucket);
  }
}

template <typename Number>
void widen(const std::byte* row, std::uint32_t m, std::uint32_t* signature) {
  for (std::uint32_t i = 0; i < m; ++i) {
    Number bucket;
    std::memcpy(&bucket, row + i * sizeof bucket, sizeof bucket);
    signature[i] = bucket;
  }
}

bool is_zero(const std::byte* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](std::byte byte) { return byte == std::byte{0}; });
}

void check_row(const LshModel& model, const SignatureLayout& at, const std::byte* row,
               std::vector<std::uint32_t>& signature) {
  if (model.family() == LshFamily::kSimhash) {
    std::uint64_t last;
    std::memcpy(&last, row + at.stride() - sizeof last, sizeof last);
    const unsigned used = model.m() % 64;
    if (used != 0 && last >> used != 0) corrupt("a bit too many");
    return;
  }
  at.unpack(row, signature.data());
  for (const std::uint32_t bucket : signature) {
    if (bucket < model.buckets()) continue;
    corrupt("bucket " + std::to_string(bucket) + " of " + std::to_string(model.buckets()));
  }
}

// Postings of a block, function by function, whose keywords ascend in this order. The rows of a
// function are counted by bucket and put in their places: what PostingsBuilder would look up for
// each of them is known here.
template <typename Bucket>
class SignaturePostings {
 public:
  SignaturePostings(const LshModel& model, const CodedBlock& block)
      : model_(model), block_(block), at_(model, block.rows), next_(model.buckets()) {
    const Bitmap present = coded_rows(model, block);
    for (std::uint32_t row = 0; row < block.rows; ++row) {
      if (present.test(row)) there_.push_back(static_cast<std::uint16_t>(row));
    }
    columns_.resize(stride() * kAtOnce);
    rows_.resize(there_.size() * model.m());
  }

  Postings make(const std::function<void()>& poll) {
    for (std::uint32_t first = 0; first < model_.m(); first += kAtOnce) {
      poll();
      const std::uint32_t count = std::min(kAtOnce, model_.m() - first);
      read_columns(first, count);
      for (std::uint32_t i = 0; i < count; ++i) {
        place(first + i, columns_.data() + i * stride());
      }
    }
    begins_.push_back(end_);
    return finish();
  }

 private:
  static constexpr std::uint32_t kAtOnce = 64;  // functions: whole lines of a row

  // Columns are written side by side: not all to the same set of a cache.
  std::size_t stride() const { return there_.size() + 64 / sizeof(Bucket); }

  void read_columns(std::uint32_t first, std::uint32_t count) {
    const std::byte* const buckets =
        block_.codes.data() + at_.buckets_at() + first * sizeof(Bucket);
    for (std::size_t row = 0; row < there_.size(); ++row) {
      Bucket values[kAtOnce];
      std::memcpy(values, buckets + there_[row] * at_.stride(), count * sizeof(Bucket));
      for (std::uint32_t i = 0; i < count; ++i) columns_[i * stride() + row] = values[i];
    }
  }

  void place(std::uint32_t function, const Bucket* column) {
    used_.clear();
    for (std::size_t row = 0; row < there_.size(); ++row) {
      if (next_[column[row]]++ == 0) used_.push_back(column[row]);
    }
    std::sort(used_.begin(), used_.end());
    for (const Bucket bucket : used_) {
      keys_.push_back(compute::Keyword{function} * model_.buckets() + bucket);
      begins_.push_back(end_);
      end_ += std::exchange(next_[bucket], end_);
    }
    for (std::size_t row = 0; row < there_.size(); ++row) {
      rows_[next_[column[row]]++] = there_[row];
    }
    for (const Bucket bucket : used_) next_[bucket] = 0;
  }

  Postings finish() const {
    Postings made;
    made.keywords = static_cast<std::uint32_t>(keys_.size());
    made.postings = end_;
    made.rows = block_.rows;
    const auto at = compute::TileLayout::of(made.keywords, made.postings);
    made.bytes = Bytes(at.size);
    const std::size_t end = at.rows + rows_.size() * sizeof rows_[0];
    std::memset(made.bytes.data(), 0, at.rows);
    std::memset(made.bytes.data() + end, 0, at.size - end);
    const auto put = [&](std::size_t to, const auto& values) {
      if (values.empty()) return;
      std::memcpy(made.bytes.data() + to, values.data(), values.size() * sizeof values[0]);
    };
    put(at.keys, keys_);
    put(at.begins, begins_);
    put(at.rows, rows_);
    return made;
  }

  const LshModel& model_;
  const CodedBlock& block_;
  const SignatureLayout at_;
  std::vector<std::uint16_t> there_;  // rows that have a vector
  std::vector<Bucket> columns_;       // [kAtOnce][stride()]
  std::vector<std::uint32_t> next_;   // by bucket: rows, then where the next one goes; else 0
  std::vector<Bucket> used_;          // buckets with rows
  std::vector<compute::Keyword> keys_;
  std::vector<std::uint32_t> begins_;
  std::vector<std::uint16_t> rows_;
  std::uint32_t end_ = 0;
};

}  // namespace

SignatureLayout::SignatureLayout(LshFamily family, std::uint32_t m, std::uint32_t buckets,
                                 std::uint32_t rows)
    : m_(m),
      width_(bucket_bytes(family, buckets)),
      stride_(signature_bytes(family, m, buckets)),
      buckets_at_(present_at() + (std::size_t{rows} + 63) / 64 * sizeof(std::uint64_t)),
      size_(buckets_at_ + rows * stride_) {}

void SignatureLayout::pack(const std::uint32_t* signature, std::byte* row) const {
  if (width_ == 2) return narrow<std::uint16_t>(signature, m_, row);
  if (width_ == 4) return narrow<std::uint32_t>(signature, m_, row);
  std::memset(row, 0, stride_);
  for (std::uint32_t i = 0; i < m_; ++i) {
    row[i / 8] |= static_cast<std::byte>(signature[i] << (i % 8));
  }
}

void SignatureLayout::unpack(const std::byte* row, std::uint32_t* signature) const {
  if (width_ == 2) return widen<std::uint16_t>(row, m_, signature);
  if (width_ == 4) return widen<std::uint32_t>(row, m_, signature);
  for (std::uint32_t i = 0; i < m_; ++i) {
    signature[i] = std::to_integer<std::uint32_t>(row[i / 8]) >> (i % 8) & 1;
  }
}

Bytes encode_signatures(const LshModel& model, const MatrixView& vectors, const Bitmap* present,
                        compute::Cancellation* cancellation) {
  const auto rows = static_cast<std::uint32_t>(vectors.rows);
  const SignatureLayout at(model, rows);
  const Header header{kMagic, kVersion, rows, 0};
  const Bitmap all(rows, true);
  const Bitmap& there = present != nullptr ? *present : all;
  Bytes codes(at.size());
  std::memset(codes.data(), 0, codes.size());
  std::memcpy(codes.data(), header.data(), sizeof header);
  std::memcpy(codes.data() + at.present_at(), there.words(),
              there.word_count() * sizeof(std::uint64_t));
  std::byte* const to = codes.data() + at.buckets_at();
  for_signatures(model, vectors, cancellation,
                 [&](std::size_t first, const std::uint32_t* buckets, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!there.test(first + i)) continue;
      at.pack(buckets + i * model.m(), to + (first + i) * at.stride());
    }
  });
  return codes;
}

void check_signatures(const LshModel& model, std::span<const std::byte> codes,
                      std::uint32_t rows) {
  const SignatureLayout at(model, rows);
  if (codes.size() != at.size()) {
    corrupt(std::to_string(codes.size()) + " bytes, expected " + std::to_string(at.size()));
  }
  Header header;
  std::memcpy(header.data(), codes.data(), sizeof header);
  if (header != Header{kMagic, kVersion, rows, 0}) corrupt("an unknown header");
  const CodedBlock block{codes, rows};
  const Bitmap present = coded_rows(model, block);
  const std::size_t words = present.word_count() * sizeof(std::uint64_t);
  if (words != 0 && std::memcmp(present.words(), codes.data() + at.present_at(), words) != 0) {
    corrupt("a row too many");
  }
  std::vector<std::uint32_t> signature(model.m());
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::byte* const buckets = codes.data() + at.buckets_at() + row * at.stride();
    if (present.test(row)) {
      check_row(model, at, buckets, signature);
    } else if (!is_zero(buckets, at.stride())) {
      corrupt("buckets of a row without a vector");
    }
  }
}

Bitmap coded_rows(const LshModel& model, const CodedBlock& block) {
  const SignatureLayout at(model, block.rows);
  Bitmap present(block.rows);
  if (block.rows == 0) return present;
  std::memcpy(present.words(), block.codes.data() + at.present_at(),
              present.word_count() * sizeof(std::uint64_t));
  present.resize(block.rows);  // clears what lies behind
  return present;
}

Postings signature_postings(const LshModel& model, const CodedBlock& block,
                            const std::function<void()>& poll) {
  WARP_CHECK(model.family() != LshFamily::kSimhash);
  const bool narrow = bucket_bytes(model.family(), model.buckets()) == sizeof(std::uint16_t);
  return narrow ? SignaturePostings<std::uint16_t>(model, block).make(poll)
                : SignaturePostings<std::uint32_t>(model, block).make(poll);
}

std::span<const std::byte> bit_vectors(const LshModel& model, const CodedBlock& block) {
  WARP_CHECK(model.family() == LshFamily::kSimhash);
  const SignatureLayout at(model, block.rows);
  return block.codes.subspan(at.buckets_at());
}

std::vector<std::byte> bit_vectors(const LshModel& model, const MatrixView& queries) {
  WARP_CHECK(model.family() == LshFamily::kSimhash);
  const SignatureLayout at(model, 0);
  std::vector<std::byte> out(queries.rows * at.stride());
  for_signatures(model, queries, nullptr,
                 [&](std::size_t first, const std::uint32_t* buckets, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      at.pack(buckets + i * model.m(), out.data() + (first + i) * at.stride());
    }
  });
  return out;
}

}  // namespace warplite::index
