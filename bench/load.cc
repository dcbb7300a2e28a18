// Many connections at once, a thread each, that ask one query after the other:
//   bench_load DB --load EXTENSION --queries FILE.fvecs [--threads N]… [--seconds S] [--setup SQL]…
//              [--write SQL --pause MS] STATEMENT
// Parameter ?1 of the statement is a query. Every answer is compared with what one connection alone found
// before. --write: what one more connection executes, again and again, after so many milliseconds each.
// For each number of threads a line of JSON: queries a second, latencies in milliseconds, wrong answers.
// bench/load.py makes a table, and does the same with processes and through Python.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

#include "bench/host.h"

namespace warplite::bench {
namespace {

class Load {
 public:
  explicit Load(const Arguments& arguments)
      : arguments_(arguments), queries_(Vectors::read(arguments.get("queries", ""))),
        seconds_(static_cast<double>(arguments.number("seconds", 5))) {
    const Connection alone(*this);
    for (std::size_t i = 0; i < queries_.rows; ++i) expected_.push_back(alone.ask(i));
  }

  void run(std::size_t threads) {
    std::vector<Worker> workers(threads);
    std::barrier<> start(static_cast<std::ptrdiff_t>(threads));
    std::atomic<bool> ended{false};
    std::thread writer;
    if (!arguments_.get("write", "").empty()) writer = std::thread([&] { write(ended); });
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < threads; ++i) {
      running.emplace_back([&, i] { work(i, start, workers[i]); });
    }
    for (std::thread& thread : running) thread.join();
    ended = true;
    if (writer.joinable()) writer.join();
    print(workers);
  }

 private:
  struct Connection {
    explicit Connection(const Load& load)
        : host(load.arguments_.positional()[0]), queries(load.queries_) {
      host.exec("PRAGMA busy_timeout = 60000");
      for (const std::string& path : load.arguments_.all("load")) host.load_extension(path);
      for (const std::string& sql : load.arguments_.all("setup")) host.exec(sql);
      statement = std::make_unique<Statement>(host, load.arguments_.positional()[1]);
    }
    Statement::Answer ask(std::size_t query) const {
      statement->bind(1, queries.row(query), queries.stride());
      return statement->run();
    }

    Host host;
    const Vectors& queries;
    std::unique_ptr<Statement> statement;
  };
  struct Worker {
    std::vector<double> ms;
    std::size_t wrong = 0, errors = 0;
  };

  void work(std::size_t number, std::barrier<>& start, Worker& out) const {
    std::unique_ptr<Connection> connection;
    try {
      connection = std::make_unique<Connection>(*this);
      connection->ask(0);
    } catch (const std::runtime_error&) {
      ++out.errors;
    }
    start.arrive_and_wait();
    const Stopwatch all;
    for (std::size_t i = number * 37; connection != nullptr && all.ms() < 1000 * seconds_; ++i) {
      const std::size_t query = i % queries_.rows;
      const Stopwatch one;
      try {
        const Statement::Answer answer = connection->ask(query);
        out.wrong += answer.rows != expected_[query].rows || answer.sum != expected_[query].sum;
      } catch (const std::runtime_error&) {
        ++out.errors;
      }
      out.ms.push_back(one.ms());
    }
  }

  // Says what stopped it, as far as that was not the end.
  void write(const std::atomic<bool>& ended) const {
    try {
      Connection connection(*this);
      Statement statement(connection.host, arguments_.get("write", ""));
      const std::chrono::milliseconds pause(arguments_.number("pause", 10));
      while (!ended) {
        std::this_thread::sleep_for(pause);
        statement.run();
      }
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "bench_load: %s\n", error.what());
    }
  }

  void print(const std::vector<Worker>& workers) const {
    Worker all;
    for (const Worker& worker : workers) {
      all.ms.insert(all.ms.end(), worker.ms.begin(), worker.ms.end());
      all.wrong += worker.wrong;
      all.errors += worker.errors;
    }
    if (all.ms.empty()) throw std::runtime_error("no thread could search");
    std::sort(all.ms.begin(), all.ms.end());
    const auto at = [&](double part) {
      return all.ms[static_cast<std::size_t>(part * static_cast<double>(all.ms.size() - 1))];
    };
    std::printf("{\"threads\": %zu, \"per_second\": %.0f, \"median_ms\": %.3f, \"p99_ms\": %.3f, "
                "\"p999_ms\": %.3f, \"wrong\": %zu, \"errors\": %zu, \"megabytes\": %llu}\n",
                workers.size(), static_cast<double>(all.ms.size()) / seconds_, at(0.5), at(0.99),
                at(0.999), all.wrong, all.errors,
                static_cast<unsigned long long>(process_memory("VmRSS") >> 20));
    std::fflush(stdout);
  }

  const Arguments& arguments_;
  const Vectors queries_;
  const double seconds_;
  std::vector<Statement::Answer> expected_;
};

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  if (arguments.positional().size() != 2) {
    throw std::runtime_error("usage: bench_load DB [options] STATEMENT");
  }
  Load load(arguments);
  std::vector<std::string> threads = arguments.all("threads");
  if (threads.empty()) threads = {"1", "4", "16", "64"};
  for (const std::string& number : threads) load.run(std::stoul(number));
  return 0;
}

}  // namespace
}  // namespace warplite::bench

int main(int argc, char** argv) {
  return warplite::bench::run_program("bench_load", warplite::bench::run, argc, argv);
}
