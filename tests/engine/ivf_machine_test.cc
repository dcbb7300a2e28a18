// Random statements on tables whose indexes learn, against exact searches of the same view.
#include <random>
#include <string>

#include "engine/residency/residency.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

using Session = IvfSession;

// The columns that learn.
constexpr std::size_t kLearning[] = {0, 1, 3};

TableOptions machine_options(unsigned seed) {
  TableOptions options = ivf_options();
  options.layout.vectors.push_back({ElementType::kFloat32, kDim});
  const std::string bits = std::to_string(1 + seed % 3 * 3);
  options.vectors.push_back(
      {"rabitq", Distance::kInnerProduct, {"ivfrabitq", {{"lists", "4"}, {"bits", bits}}}});
  return options;
}

// Random statements on two connections.
class Machine {
 public:
  explicit Machine(unsigned seed)
      : random_(seed), mine_(file_.path(), machine_options(seed), true),
        other_(file_.path(), machine_options(seed), false) {
    if (seed % 2 == 0) mine_.db().run("PRAGMA journal_mode = WAL");
  }
  ~Machine() { held_ = nullptr; }

  void step() {
    act(pick(100));
    Question question{.column = kLearning[pick(3)],
                      .k = static_cast<std::size_t>(1 + pick(30)),
                      .seed = next_seed()};
    if (pick(3) == 0) question.below = pick(50);
    const auto view = mine_.table().view();
    compare(*view, mine_.table(), question);
    coded_ += has_codes(*view, question.column) ? 1 : 0;
    if (held_ != nullptr) {
      CHECK(ask(*held_, mine_.table(), fully(held_question_)) == held_hits_);
    }
    if (pick(4) == 0) compare_other(question);
  }

  void finish() {
    mine_.commit();
    check_integrity(mine_);
    CHECK(coded_ > 20);
  }

 private:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  RowId any() { return 1 + pick(250); }
  unsigned next_seed() { return static_cast<unsigned>(random_()); }

  void act(int action) {
    if (action < 90) mine_.begin();
    if (action < 25) {
      mine_.insert_many(random_, pick(4) == 0 ? pick(60) : 1 + pick(3));
    } else if (action < 35) {
      mine_.update(random_, any());
    } else if (action < 45) {
      for (int n = pick(4) == 0 ? pick(60) : 1; n > 0; --n) mine_.table().erase(any());
    } else if (action < 55) {
      savepoint();
    } else if (action < 65) {
      rollback_to();
    } else if (action < 70) {
      train();
    } else if (action < 75) {
      mine_.table().optimize();
    } else if (action < 78) {
      mine_.table().rebuild();
    } else if (action < 90) {
      savepoints_ = 0;
      pick(4) == 0 ? mine_.rollback() : mine_.commit();
    } else {
      rare(action);
    }
  }

  void rare(int action) {
    if (action < 94) {
      Residency::instance().clear();
    } else if (action < 96 && !mine_.in_transaction()) {
      held_ = nullptr;
      mine_.reopen();
    } else {
      held_ = mine_.table().view();
      held_question_ = {.column = kLearning[pick(3)], .k = 12, .seed = next_seed()};
      held_hits_ = ask(*held_, mine_.table(), exactly(held_question_));
      // What was written by a transaction that is taken back is not readable after that.
      if (mine_.in_transaction()) held_ = nullptr;
    }
  }

  void savepoint() {
    mine_.db().run("SAVEPOINT s" + std::to_string(savepoints_));
    mine_.table().savepoint(savepoints_++);
  }
  void rollback_to() {
    if (savepoints_ == 0) return;
    const int n = pick(savepoints_);
    mine_.db().run("ROLLBACK TO s" + std::to_string(n));
    mine_.table().rollback_to(n);
    savepoints_ = n + 1;
  }
  void train() {
    const auto rows = mine_.table().view()->live_rows();
    if (rows > 30) mine_.train();
  }
  void compare_other(const Question& question) {
    other_.db().run("BEGIN");
    const auto view = other_.table().view();
    compare(*view, other_.table(), question);
    other_.db().run("COMMIT");
  }

  std::mt19937 random_;
  TemporaryFile file_;
  Session mine_, other_;
  int savepoints_ = 0;
  int coded_ = 0;
  std::shared_ptr<const View> held_;
  Question held_question_;
  Hits held_hits_;
};

TEST_CASE("searches by codes agree with exact ones, through transactions and savepoints") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    Machine machine(seed);
    for (int step = 0; step < 300; ++step) {
      INFO("step " << step);
      machine.step();
    }
    machine.finish();
  }
}

}  // namespace
}  // namespace warplite::engine
