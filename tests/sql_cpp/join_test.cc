// Random joins in every order of FROM, against the definition (DESIGN 1.2): with k, a
// predicate filters before the k are chosen when everything it needs is known wherever MATCH's own
// arguments are; what needs another table joins afterwards. The order in which
// SQLite runs the loops must not show.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/sql_session.h"

using warplite::testing::SqlSession;

namespace {

struct Row {
  int id, e, x, y;
};

// Tables: q, r, s are ordinary; p and w are warp tables with a vector [e].
constexpr const char* kNames[] = {"q", "r", "s", "p", "w"};
constexpr int kTables = 5, kP = 3, kW = 4;
using Data = std::vector<std::vector<Row>>;
using Tuple = std::vector<int>;  // a row number for each table

// One term of WHERE: left.column op (right.column | constant).
struct Term {
  int left, column, op, right, right_column, constant;  // right: −1 for a constant

  static int value(const Row& row, int column) {
    return column == 0 ? row.id : column == 1 ? row.x : row.y;
  }
  bool holds(const Data& data, const Tuple& at) const {
    const int a = value(data[left][at[left]], column);
    const int b = right < 0 ? constant : value(data[right][at[right]], right_column);
    switch (op) {
      case 0: return a == b;
      case 1: return a <= b;
      case 2: return a > b;
      default: return a != b;
    }
  }
  std::string text() const {
    constexpr const char* kColumns[] = {"id", "x", "y"};
    constexpr const char* kOps[] = {" = ", " <= ", " > ", " <> "};
    const auto name = [&](int t, int c) { return std::string(kNames[t]) + "." + kColumns[c]; };
    return name(left, column) + kOps[op] +
           (right < 0 ? std::to_string(constant) : name(right, right_column));
  }
};

struct Search {
  int table;
  int source;  // the table whose e MATCH reads, or −1: the constant
  int constant;
  int k;
};

struct Query {
  std::vector<int> tables;  // in FROM
  std::vector<Search> searches;
  std::vector<Term> terms;

  std::string sql(const std::vector<int>& order) const {
    std::string text = "SELECT ";
    for (int t : tables) text += (t == tables[0] ? "" : ", ") + std::string(kNames[t]) + ".id";
    text += " FROM ";
    for (int t : order) text += (t == order[0] ? "" : ", ") + std::string(kNames[t]);
    text += " WHERE 1";
    for (const Search& s : searches) {
      const std::string name = kNames[s.table];
      text += " AND " + name + ".e MATCH " +
              (s.source < 0 ? "'[" + std::to_string(s.constant) + "]'"
                            : std::string("vec_f32('[' || ") + kNames[s.source] + ".e || ']')") +
              " AND " + name + ".k = " + std::to_string(s.k);
    }
    for (const Term& term : terms) text += " AND " + term.text();
    return text;
  }
};

// The k nearest rows of a search's table for one row of its source, among those that pass the
// terms which need nothing else.
std::vector<int> nearest(const Query& query, const Search& search, const Data& data, Tuple at) {
  const int from = search.source < 0
                       ? search.constant
                       : data[search.source][at[search.source]].e;
  std::vector<int> found;
  const std::vector<Row>& rows = data[search.table];
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    at[search.table] = i;
    const bool passes = std::all_of(query.terms.begin(), query.terms.end(), [&](const Term& term) {
      const bool mine = term.left == search.table || term.right == search.table;
      const int other = term.left == search.table ? term.right : term.left;
      const bool known = other < 0 || other == search.source;
      return !mine || !known || other == search.table || term.holds(data, at);
    });
    if (passes) found.push_back(i);
  }
  std::sort(found.begin(), found.end(), [&](int a, int b) {
    const int da = std::abs(rows[a].e - from), db = std::abs(rows[b].e - from);
    return da != db ? da < db : rows[a].id < rows[b].id;
  });
  if (static_cast<int>(found.size()) > search.k) found.resize(search.k);
  return found;
}

std::vector<std::string> oracle(const Query& query, const Data& data) {
  std::vector<std::string> rows;
  Tuple at(kTables, 0);
  const auto visit = [&](const auto& self, std::size_t depth) -> void {
    if (depth < query.tables.size()) {
      const int t = query.tables[depth];
      for (at[t] = 0; at[t] < static_cast<int>(data[t].size()); ++at[t]) self(self, depth + 1);
      at[t] = 0;
      return;
    }
    for (const Term& term : query.terms) {
      if (!term.holds(data, at)) return;
    }
    for (const Search& search : query.searches) {
      const std::vector<int> found = nearest(query, search, data, at);
      if (std::find(found.begin(), found.end(), at[search.table]) == found.end()) return;
    }
    std::string row;
    for (int t : query.tables) row += (row.empty() ? "" : "|") + std::to_string(data[t][at[t]].id);
    rows.push_back(row);
  };
  visit(visit, 0);
  std::sort(rows.begin(), rows.end());
  return rows;
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Data data() {
    Data tables(kTables);
    for (auto& rows : tables) {
      const int n = 3 + below(6);
      for (int i = 0; i < n; ++i) rows.push_back({i + 1, below(10), below(4), below(4)});
    }
    return tables;
  }

  Query query() {
    Query q;
    for (int t = 0; t < kTables; ++t) {
      if (t == kP || below(5) < 2) q.tables.push_back(t);
    }
    std::vector<int> ordinary;
    for (int t : q.tables) {
      if (t < kP) ordinary.push_back(t);
    }
    for (int t : q.tables) {
      if (t < kP) continue;
      const bool fed = !ordinary.empty() && below(2) == 0;
      q.searches.push_back({t, fed ? ordinary[below(static_cast<int>(ordinary.size()))] : -1,
                            below(10), 1 + below(4)});
    }
    for (int n = below(5); n > 0; --n) q.terms.push_back(term(q.tables));
    return q;
  }

 private:
  Term term(const std::vector<int>& tables) {
    const auto pick = [&] { return tables[below(static_cast<int>(tables.size()))]; };
    Term t{pick(), below(3), below(4), -1, below(3), below(4)};
    if (below(3) != 0) t.right = pick();
    if (t.right == t.left) t.right = -1;
    // `a.x = b.x AND b.x = 3` becomes `a.x = 3`: SQLite's constants travel along equalities.
    if (t.right < 0 && t.op == 0) t.op = 1;
    return t;
  }

  std::mt19937 random_;
};

void store(const SqlSession& db, const Data& data) {
  for (int t = 0; t < kTables; ++t) {
    const std::string name = kNames[t];
    db.must_run("DROP TABLE IF EXISTS " + name);
    db.must_run(t < kP ? "CREATE TABLE " + name + "(id INTEGER PRIMARY KEY, e, x, y)"
                       : "CREATE VIRTUAL TABLE " + name +
                             " USING warp(id INTEGER PRIMARY KEY, e FLOAT[1], x INTEGER, y "
                             "INTEGER)");
    if (t == 1) db.must_run("CREATE INDEX r_x ON r(x)");
    for (const Row& row : data[t]) {
      const std::string e = std::to_string(row.e);
      db.must_run("INSERT INTO " + name + " VALUES (" + std::to_string(row.id) + ", " +
                  (t < kP ? e : "'[" + e + "]'") + ", " + std::to_string(row.x) + ", " +
                  std::to_string(row.y) + ")");
    }
  }
}

}  // namespace

TEST_CASE("join: with k, every order of FROM gives the defined answer") {
  const SqlSession db(":memory:");
  Generator generator(20261121);
  int rows = 0;
  for (int round = 0; round < 60; ++round) {
    const Data data = generator.data();
    store(db, data);
    for (int i = 0; i < 8; ++i) {
      const Query query = generator.query();
      const std::vector<std::string> expected = oracle(query, data);
      rows += static_cast<int>(expected.size());
      std::vector<int> order = query.tables;
      std::sort(order.begin(), order.end());
      do {
        const std::string sql = query.sql(order);
        std::vector<std::string> got = db.must_run(sql);
        std::sort(got.begin(), got.end());
        const bool same = got == expected;
        CAPTURE(sql);
        CHECK(same);
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
  CHECK(rows > 1000);  // the queries are not all empty
}
