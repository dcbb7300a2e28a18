// Work of the host's own next to a search: a plug-in has none of the host's threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace warplite::gpu {

// Calls body(0) … body(n − 1), on up to `useful` threads. What a body throws is thrown here. `poll`,
// if not empty, is called now and then by the caller's thread while it waits for the others.
template <typename Body>
void in_parallel(std::size_t n, std::size_t useful, const Body& body,
                 const std::function<void()>& poll = {}) {
  const std::size_t most = std::max(1u, std::min(8u, std::thread::hardware_concurrency()));
  const std::size_t threads = std::clamp<std::size_t>(useful, 1, most);
  std::vector<std::exception_ptr> failures(threads);
  std::atomic<std::size_t> at_work{0};
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
        ++at_work;
        others.emplace_back([&, t]() noexcept {
          part(t);
          --at_work;
        });
      } catch (const std::system_error&) {
        --at_work;
        part(t);  // no more threads: this one does it
      }
    }
    part(0);
    while (poll && at_work != 0) {
      poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace warplite::gpu
