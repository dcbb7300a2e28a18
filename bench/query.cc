// Times statements through SQLite's C interface, in turn, on one connection:
//   bench_query DB [--load EXTENSION]… [--setup SQL]… [--queries FILE.fvecs] [--warm N] [--runs N]
//               [--floor BYTES --threads N] STATEMENT…
// Parameter ?1 of a statement is a query vector, another one in each run. One JSON line:
// from sqlite3_open to the first answer, memory before and after, the floor measured
// before and after in this process, and for each statement its times and answers.
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "bench/host.h"
#include "bench/machine_peaks.h"

namespace warplite::bench {
namespace {

struct Timed {
  std::unique_ptr<Statement> statement;
  std::vector<double> ms;
  Statement::Answer answer;  // of all timed runs
};

void print(const Timed& timed) {
  double best = timed.ms.front();
  for (double ms : timed.ms) best = ms < best ? ms : best;
  std::printf("{\"median_ms\": %.5f, \"min_ms\": %.5f, \"rows\": %llu, \"sum\": %.17g}",
              median(timed.ms), best, static_cast<unsigned long long>(timed.answer.rows),
              timed.answer.sum);
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const std::vector<std::string>& positional = arguments.positional();
  if (positional.size() < 2)
    throw std::runtime_error("usage: bench_query DB [options] STATEMENT...");
  const std::string queries_path = arguments.get("queries", "");
  Vectors queries = queries_path.empty() ? Vectors() : Vectors::read(queries_path);
  const std::size_t warm = arguments.number("warm", 3), runs = arguments.number("runs", 30);
  const std::size_t floor_bytes = arguments.number("floor", 0);
  const int threads = static_cast<int>(arguments.number("threads", 1));
  double floor = floor_bytes == 0 ? 0 : streaming_read_seconds(floor_bytes, threads, 10);

  const Stopwatch since_open;
  Host host(positional[0]);
  for (const std::string& path : arguments.all("load")) host.load_extension(path);
  for (const std::string& sql : arguments.all("setup")) host.exec(sql);
  const std::uint64_t resident_before = process_memory("VmRSS");
  std::vector<Timed> statements(positional.size() - 1);
  double first_ms = 0;
  std::size_t next_query = 0;
  for (std::size_t i = 0; i < warm + runs; ++i) {
    for (std::size_t s = 0; s < statements.size(); ++s) {
      Timed& timed = statements[s];
      if (!timed.statement) timed.statement = std::make_unique<Statement>(host, positional[s + 1]);
      if (queries.rows != 0) {
        timed.statement->bind(1, queries.row(next_query % queries.rows), queries.stride());
      }
      const Stopwatch watch;
      const Statement::Answer answer = timed.statement->run();
      const double ms = watch.ms();
      if (first_ms == 0) first_ms = since_open.ms();
      if (i < warm) continue;
      timed.ms.push_back(ms);
      timed.answer.rows += answer.rows;
      timed.answer.sum += answer.sum;
    }
    ++next_query;
  }
  const std::uint64_t resident_after = process_memory("VmRSS");
  const std::uint64_t resident_peak = process_memory("VmHWM");
  if (floor_bytes != 0) {
    const double again = streaming_read_seconds(floor_bytes, threads, 10);
    floor = again < floor ? again : floor;
  }

  std::printf(
      "{\"first_answer_ms\": %.3f, \"resident_before\": %llu, \"resident_after\": %llu, "
      "\"resident_peak\": %llu, \"floor_ms\": %.5f, \"statements\": [",
      first_ms, static_cast<unsigned long long>(resident_before),
      static_cast<unsigned long long>(resident_after),
      static_cast<unsigned long long>(resident_peak), floor * 1e3);
  for (std::size_t s = 0; s < statements.size(); ++s) {
    if (s != 0) std::printf(", ");
    print(statements[s]);
  }
  std::printf("]}\n");
  return 0;
}

}  // namespace
}  // namespace warplite::bench

int main(int argc, char** argv) {
  return warplite::bench::run_program("bench_query", warplite::bench::run, argc, argv);
}
