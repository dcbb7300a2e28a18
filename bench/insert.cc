// Times inserts of a file's vectors through a prepared statement:
//   bench_insert DB --vectors FILE.fvecs --insert SQL [--load EXTENSION]… [--setup SQL]…
//                [--piece BYTES] [--first ROWID] [--rows N] [--transaction N]
// Parameters: ?1 an ascending integer from ROWID on, ?2 a vector (or BYTES of the
// vectors' bytes). N rows in transactions of --transaction rows, by default in one.
// One JSON line: the time from the first BEGIN to the end of the last COMMIT, and the
// median of the transactions.
#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "bench/host.h"

namespace warplite::bench {
namespace {

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const std::string sql = arguments.get("insert", "");
  if (arguments.positional().size() != 1 || sql.empty()) {
    throw std::runtime_error("usage: bench_insert DB --vectors FILE --insert SQL [options]");
  }
  const Vectors vectors = Vectors::read(arguments.get("vectors", ""));
  const char* data = reinterpret_cast<const char*>(vectors.values.data());
  const std::size_t total = vectors.rows * vectors.stride();
  const std::size_t piece = arguments.number("piece", vectors.stride());
  const std::size_t rows = arguments.number("rows", (total + piece - 1) / piece);
  const std::size_t batch = std::max<std::size_t>(1, arguments.number("transaction", rows));
  const std::size_t first = arguments.number("first", 1);

  Host host(arguments.positional()[0]);
  for (const std::string& path : arguments.all("load")) host.load_extension(path);
  for (const std::string& setup : arguments.all("setup")) host.exec(setup);
  Statement insert(host, sql), begin(host, "BEGIN"), commit(host, "COMMIT");
  std::vector<double> transactions;
  const Stopwatch all;
  for (std::size_t row = 0; row < rows; row += batch) {
    const Stopwatch one;
    begin.run();
    for (std::size_t i = row; i < std::min(rows, row + batch); ++i) {
      const std::size_t at = i * piece % total;
      insert.bind(1, static_cast<std::int64_t>(first + i));
      insert.bind(2, data + at, std::min(piece, total - at));
      insert.run();
    }
    commit.run();
    transactions.push_back(one.ms());
  }
  const double ms = all.ms();
  std::printf(
      "{\"rows\": %zu, \"total_ms\": %.3f, \"rows_per_second\": %.1f, "
      "\"transaction_ms\": %.5f}\n",
      rows, ms, static_cast<double>(rows) / ms * 1e3, median(transactions));
  return 0;
}

}  // namespace
}  // namespace warplite::bench

int main(int argc, char** argv) {
  return warplite::bench::run_program("bench_insert", warplite::bench::run, argc, argv);
}
