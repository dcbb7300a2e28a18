#include "gpu/candidates.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

namespace warplite::gpu {
namespace {

// Hits that are worth a thread of their own.
constexpr std::size_t kHitsPerThread = 64 << 10;

// Calls body(0) … body(n − 1), on up to `useful` threads.
template <typename Body>
void in_parallel(std::size_t n, std::size_t useful, const Body& body) {
  const std::size_t most = std::max(1u, std::min(8u, std::thread::hardware_concurrency()));
  const std::size_t threads = std::clamp<std::size_t>(useful, 1, most);
  std::vector<std::exception_ptr> failures(threads);
  const auto part = [&](std::size_t t) noexcept {
    try {
      for (std::size_t i = n * t / threads; i < n * (t + 1) / threads; ++i) body(i);
    } catch (...) {
      failures[t] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(threads);
    for (std::size_t t = 1; t < threads; ++t) {
      try {
        others.emplace_back(part, t);
      } catch (const std::system_error&) {
        part(t);  // no more threads: this one does it
      }
    }
    part(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

void take_candidates(const RowSet& rows, const FoundCandidates& from, std::size_t first,
                     compute::HitTable& best, std::vector<std::uint32_t>& lost) {
  for (std::size_t i = 0; i < from.queries; ++i) {
    if (from.found[i] > from.room) lost.push_back(static_cast<std::uint32_t>(first + i));
  }
  in_parallel(from.queries, from.queries * from.room / kHitsPerThread, [&](std::size_t i) {
    if (from.found[i] > from.room) return;
    TopK& nearest = best.row(first + i);
    for (std::uint32_t c = 0; c < from.found[i]; ++c) {
      nearest.push(rows.hit(from.candidates[i * from.room + c]));
    }
  });
}

}  // namespace warplite::gpu
