// Runs a fuzz target without libFuzzer: its seeds, then random changes of them.
// usage: <target> [seconds [seed [file…]]]; files are inputs to run first. An input that ends in
// a signal is left in the file crash-input; so is one that takes longer than a minute (WARPLITE_FUZZ_LIMIT,
// in seconds), after the stacks of all threads were printed.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include <fcntl.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/watchdog.h"

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n) { return n == 0 ? 0 : random() % n; }

void change(Random& random, const std::vector<std::string>& seeds, std::string& input) {
  static constexpr char kTelling[] = {'[', ']', ',', '"', '\0', '\xff', '\x7f', '-', 'e', '9', '0', ' '};
  const std::size_t at = below(random, input.size() + 1);
  const std::string& other = seeds[below(random, seeds.size())];
  switch (below(random, 11)) {
    case 0: input.insert(at, 1, static_cast<char>(random())); break;
    case 1: input.erase(at, 1 + below(random, 4)); break;
    case 2: input.insert(at, 1, kTelling[below(random, std::size(kTelling))]); break;
    case 3: input.insert(at, other, below(random, other.size()), below(random, 12)); break;
    case 4: input = input.substr(0, at) + other.substr(below(random, other.size() + 1)); break;
    case 5: input.insert(at, input.substr(0, below(random, 16))); break;
    case 6: {  // the same again and again, as deep nesting is
      const std::string piece = input.substr(at, 1 + below(random, 8));
      for (std::size_t n = below(random, 200); n > 0; --n) input.insert(at, piece);
      break;
    }
    case 7:  // all others
      for (std::size_t i = at; i < input.size(); ++i) input[i] = static_cast<char>(random());
      break;
    default:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(random, 8)));
  }
  if (input.size() > 4096) input.resize(4096);
}

const std::string* current = nullptr;

void keep_input(int signal_number) {
  const int file = open("crash-input", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0 || write(file, current->data(), current->size()) < 0) _exit(2);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void run_one(const std::string& input) {
  current = &input;
  warplite::fuzzing::step();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  Random random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  const char* limit = std::getenv("WARPLITE_FUZZ_LIMIT");
  warplite::fuzzing::watch(limit != nullptr ? std::atoi(limit) : 60);
  long inputs = 0;
  for (const int number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS}) std::signal(number, keep_input);
  for (int i = 3; i < argc; ++i, ++inputs) {
    std::ifstream file(argv[i], std::ios::binary);
    run_one({std::istreambuf_iterator<char>(file), {}});
  }
  const auto seeds = fuzz_seeds();
  for (const std::string& seed : seeds) run_one(seed);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    std::string input = seeds[below(random, seeds.size())];
    for (std::size_t changes = 1 + below(random, 8); changes > 0; --changes) {
      change(random, seeds, input);
    }
    run_one(input);
    ++inputs;
  }
  std::printf("%ld inputs\n%ld passed, 0 failed\n", inputs, inputs + static_cast<long>(seeds.size()));
  return 0;
}
