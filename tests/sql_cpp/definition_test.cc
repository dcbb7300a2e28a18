// The grammar of CREATE VIRTUAL TABLE … USING warp(…): what is read, what is refused and how.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/definition.h"

using namespace warplite;
using sql::ColumnDefinition;
using sql::ColumnKind;
using sql::TableDefinition;

namespace {

// Index kinds are registered with the first connection.
TableDefinition parse(const std::vector<std::string>& arguments,
                      const std::string& table = "papers", sql::Life life = sql::Life::kCreate) {
  static const bool registered = [] {
    sqlite3* db = nullptr;
    const int code = sqlite3_open(":memory:", &db);
    sqlite3_close(db);
    return code == SQLITE_OK;
  }();
  REQUIRE(registered);
  return sql::parse_definition("main", table, arguments, sql::ModuleName::kWarp, life);
}

ColumnDefinition column(const std::string& argument) { return parse({argument}).columns.at(0); }

std::string refusal(const std::vector<std::string>& arguments,
                    const std::string& table = "papers") {
  try {
    parse(arguments, table);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

void refused(const std::string& argument, const std::string& expected_text) {
  const std::string message = refusal({argument});
  INFO(message);
  CHECK(message.find("papers: ") == 0);
  CHECK(message.find('"' + argument + '"') != std::string::npos);
  CHECK(message.find(expected_text) != std::string::npos);
}

}  // namespace

TEST_CASE("definition: vector types") {
  struct Case {
    const char* text;
    ElementType type;
    std::uint32_t dim;
  };
  const Case cases[] = {
      {"e FLOAT[768]", ElementType::kFloat32, 768},  {"e float[3]", ElementType::kFloat32, 3},
      {"e f32[3]", ElementType::kFloat32, 3},        {"e Float32 [ 3 ]", ElementType::kFloat32, 3},
      {"e float16[5]", ElementType::kFloat16, 5},    {"e F16[5]", ElementType::kFloat16, 5},
      {"e bfloat16[5]", ElementType::kBFloat16, 5},  {"e BF16[5]", ElementType::kBFloat16, 5},
      {"e int8[7]", ElementType::kInt8, 7},          {"e i8[7]", ElementType::kInt8, 7},
      {"e bit[16]", ElementType::kBit, 16},          {"e FLOAT[1]", ElementType::kFloat32, 1},
      {"e FLOAT[65536]", ElementType::kFloat32, 65536},
      {"e/* c */float -- rest\n[4]", ElementType::kFloat32, 4},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const ColumnDefinition e = column(c.text);
    CHECK(e.name == "e");
    CHECK(e.kind == ColumnKind::kVector);
    CHECK(e.element == c.type);
    CHECK(e.dim == c.dim);
    CHECK(e.slot == 0);
    CHECK(e.index.kind == "flat");
    CHECK(e.distance == (c.type == ElementType::kBit ? Distance::kHamming : Distance::kL2));
  }
}

TEST_CASE("definition: options come in any order, quoted or not") {
  for (const char* text :
       {"e float[4] distance=cosine index=flat", "e float[4] index=flat distance=cosine",
        "e float[4] DISTANCE_METRIC = 'Cosine' INDEX=FLAT()", "e float[4] distance=\"cosine\"",
        "e float[4] distance_metric=cosine"}) {
    CAPTURE(text);
    CHECK(column(text).distance == Distance::kCosine);
    CHECK(column(text).index.kind == "flat");
  }
  CHECK(column("e float[4] distance=L2").distance == Distance::kL2);
  CHECK(column("e float[4] distance=l1").distance == Distance::kL1);
  CHECK(column("e int8[4] distance=ip").distance == Distance::kInnerProduct);
  CHECK(column("e bit[8] distance=hamming").distance == Distance::kHamming);
}

TEST_CASE("definition: plain columns, keys and +columns") {
  struct Case {
    const char* text;
    PlainType type;
    const char* declared;
  };
  for (const Case& c : {Case{"x TEXT", PlainType::kText, "TEXT"},
                        Case{"x text", PlainType::kText, "TEXT"},
                        Case{"x INTEGER", PlainType::kInteger, "INTEGER"},
                        Case{"x int", PlainType::kInteger, "INTEGER"},
                        Case{"x float", PlainType::kReal, "REAL"},
                        Case{"x Double", PlainType::kReal, "REAL"},
                        Case{"x REAL", PlainType::kReal, "REAL"},
                        Case{"x bool", PlainType::kBoolean, "BOOLEAN"},
                        Case{"x boolean", PlainType::kBoolean, "BOOLEAN"}}) {
    CAPTURE(c.text);
    CHECK(column(c.text).kind == ColumnKind::kPlain);
    CHECK(column(c.text).plain == c.type);
    CHECK(column(c.text).declared == c.declared);
  }
  CHECK(column("id integer primary key").kind == ColumnKind::kRowId);
  CHECK(column("id TEXT PRIMARY KEY").kind == ColumnKind::kTextKey);
  CHECK(column("tenant text partition key").kind == ColumnKind::kPartition);
  CHECK(column("tenant integer PARTITION  KEY").kind == ColumnKind::kPartition);
  CHECK(column("+notes TEXT").kind == ColumnKind::kAux);
  CHECK(column("+ notes").declared.empty());
  CHECK(column("+data blob").declared == "BLOB");
}

TEST_CASE("definition: quoted names") {
  CHECK(column("\"a b\" text").name == "a b");
  CHECK(column("[a b] text").name == "a b");
  CHECK(column("`a b` text").name == "a b");
  CHECK(column("\"a\"\"b\" text").name == "a\"b");
  CHECK(column("\"float\" float[2]").name == "float");
  CHECK(column("größe real").name == "größe");
  CHECK(parse({"\"a\"\"b\" text"}).declaration().find("\"a\"\"b\" TEXT") != std::string::npos);
}

TEST_CASE("definition: slots, declaration and layout") {
  const TableDefinition t =
      parse({"doi TEXT PRIMARY KEY", "e FLOAT[8]", "year INTEGER", "+notes TEXT", "b BIT[16]",
             "tenant TEXT PARTITION KEY", "+more", "chunk_size=1024"});
  REQUIRE(t.columns.size() == 7);
  CHECK(t.rowid_column == -1);
  CHECK(t.find("DOI")->slot == 0);
  CHECK(t.find("year")->slot == 1);
  CHECK(t.find("tenant")->slot == 2);
  CHECK(t.find("e")->slot == 0);
  CHECK(t.find("b")->slot == 1);
  CHECK(t.find("notes")->slot == 0);
  CHECK(t.find("more")->slot == 1);
  CHECK(t.find("distance") == nullptr);
  CHECK(t.hidden(sql::kDistance) == 7);
  CHECK(t.hidden(sql::kCommand) == 12);
  CHECK(t.declaration() ==
        "CREATE TABLE x(\"doi\" TEXT, \"e\" BLOB, \"year\" INTEGER, \"notes\" TEXT, \"b\" BLOB, "
        "\"tenant\" TEXT, \"more\" , distance REAL HIDDEN, k INTEGER HIDDEN, nprobe INTEGER "
        "HIDDEN, recall REAL HIDDEN, "
        "matches INTEGER HIDDEN, \"papers\" HIDDEN)");
  const engine::TableOptions options = t.options();
  CHECK(options.layout.text_key == 0);
  CHECK(options.layout.partitions == std::vector<int>{2});
  CHECK(options.layout.plains ==
        std::vector<PlainType>{PlainType::kText, PlainType::kInteger, PlainType::kText});
  CHECK(options.layout.aux == 2);
  CHECK(options.layout.segment_rows >= 1024);
  CHECK(options.plain_names == std::vector<std::string>{"doi", "year", "tenant"});
  REQUIRE(options.vectors.size() == 2);
  CHECK(options.vectors[1].name == "b");

  const TableDefinition named = parse({"e float[2]", "id INTEGER PRIMARY KEY"});
  CHECK(named.rowid_column == 1);
  CHECK(named.options().rowid_name == "id");
}

TEST_CASE("definition: a vec0 statement works as it is") {
  const TableDefinition t = parse({"id integer primary key", "user_id integer partition key",
                                   "embedding float[768] distance_metric=cosine", "genre text",
                                   "num_reviews int", "mean_rating float", "contains_violence "
                                                                           "boolean",
                                   "+contents text", "chunk_size=16"});
  CHECK(t.columns.size() == 8);
  CHECK(t.find("mean_rating")->plain == PlainType::kReal);
}

TEST_CASE("definition: a table option comes once") {
  for (const std::string name : {"content", "content_rowid", "sync", "store", "chunk_size"}) {
    CAPTURE(name);
    const std::string value = name == "sync" ? "manual" : name == "store" ? "codes" : "8";
    const std::string quoted = "'" + value + "'";
    const std::string again = name + " = " + quoted;
    CHECK(refusal({name + "=" + value, "e FLOAT[2]", again}) ==
          "papers: \"" + again + "\": " + name + "= is given twice");
    CHECK(refusal({"content=a", "e FLOAT[2]", name == "content" ? "CONTENT=b" : again, again})
              .ends_with(name + "= is given twice"));
  }
}

// Which messages are given is part of the surface: people read them.
TEST_CASE("definition: refusals quote the argument and say what was expected") {
  refused("e", "expected a type");
  refused("e floot[3]", "got \"floot\"");
  refused("e float[0]", "a dimension from 1 to 65536, got \"0\"");
  refused("e float[65537]", "65536");
  refused("e float[-3]", "got \"-3\"");
  refused("e float[3.5]", "got \"3.5\"");
  refused("e float[]", "a dimension");
  refused("e float16", "a dimension in brackets");
  refused("e bit[12]", "multiple of 8");
  refused("e float[3] distance=hamming", "l2, cosine, ip, l1; got \"hamming\"");
  refused("e bit[8] distance=l2", "hamming, jaccard; got \"l2\"");
  refused("e float[3] distance=far", "got \"far\"");
  refused("e float[3] distance", "\"=\" after distance");
  refused("e float[3] distance=l2 distance=l2", "one distance");
  refused("e float[3] index=flat index=flat", "one index");
  refused("e float[3] index=hnsw", "available: flat, ivfflat, ivfpq");
  refused("e float[3] index=ivfpq(lists=16, m=2)", "m=a divisor of 3, but \"2\" was given");
  refused("e float[3] index=flat(lists=4)", "lists");
  refused("e float[3] index=flat(lists)", "\"=\" after lists");
  refused("e float[3] index=flat(a=1, a=2)", "twice");
  refused("e float[3] index=flat(a=1 b=2)", "expected \",\" or \")\"");
  refused("e float[3] index=flat(", "the end");
  refused("e float[3] colour=red", "expected one of PRIMARY KEY");
  refused("e float[3] distnace=l2", "did you mean distance?");
  refused("n integer not null", "no constraints and no defaults");
  refused("n integer default 5", "no constraints and no defaults");
  refused("e float[3] index=hnsw", "index=approximate searches approximately");
  refused("e float[3] index=ivflat", "did you mean ivfflat?");
  refused("e float[3] primary key", "a vector column cannot be PRIMARY KEY");
  refused("x real primary key", "INTEGER or TEXT");
  refused("x integer primary", "expected PRIMARY KEY");
  refused("x integer primary key partition key", "only once");
  refused("x text distance=l2", "distance=edit to TEXT");
  refused("x integer distance=edit", "distance=edit to TEXT");
  refused("x text distance=edit index=words", "index=words does not go with distance=edit");
  refused("x text distance=edit index=flat(a=1)", "index=flat takes no parameters");
  refused("x text index=list_of_clusters(size=32)", "needs distance=edit");
  refused("x text distance=edit index=list_of_clusters(size=0)", "1 to 65536");
  refused("x text index=flat", "needs a vector column");
  refused("x text index=ngram(n=three)", "n=1 to 16");
  refused("x integer index=flat", "needs a vector column");
  refused("x integer index=match(buckets=0)", "buckets= must be an integer from 1 to 1048576");
  refused("x integer index=match(buckets=many)", "got \"many\"");
  refused("x integer index=match(lists=8)", "index=match takes buckets=, not lists=");
  refused("x text index=match(buckets=8)", "buckets= applies to columns of numbers");
  refused("x integer index=match(buckets=8) primary key", "index=match on a PRIMARY KEY");
  refused("x text primary key index=match", "index=match on a PRIMARY KEY");
  refused("e float[3] index=match", "match");
  refused("x integer index=match index=match", "one index");
  refused("x text distance=l2", "vector columns");
  refused("x text not null", "got \"not\"");
  refused("+x float[3]", "+columns have no options");
  refused("+x datetime", "a type for a +column");
  refused("store=vectors", "takes codes");
  refused("content=main.docs", "its name alone");
  refused("content=''", "must name a table");
  refused("sync=often", "triggers or manual");
  refused("chunk_size=many", "positive integer");
  refused("chunk_size=8 rows", "expected the end");
  refused("colour=red", "unknown table option");
  refused("\"\" text", "must not be empty");
  refused("3 text", "a column name");
  refused("distance real", "hidden column");
  refused("K integer", "hidden column");
  refused("nprobe integer", "hidden column");
  refused("recall real", "hidden column");
  refused("matches integer", "hidden column");
  refused("Papers text", "table's name");
  CHECK(refusal({"a text", "A integer"}).find("already a column named A") != std::string::npos);
  CHECK(refusal({"a integer primary key", "b text primary key"}).find("already a PRIMARY KEY") !=
        std::string::npos);
  CHECK(refusal({}).find("at least one column") != std::string::npos);
  CHECK(refusal({"chunk_size=8"}).find("at least one column") != std::string::npos);
  CHECK(refusal({"a text"}, "distance").find("hidden column") != std::string::npos);
}

TEST_CASE("definition: any text is read or refused, never worse") {
  const std::string seeds[] = {"e float[3] distance=l2 index=flat(a=1, b='x')", "+a text",
                               "\"a \"\" b\" integer primary key", "/* c */ x -- d\n real"};
  std::uint64_t state = 12345;
  const auto random = [&state](std::size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % n;
  };
  for (int round = 0; round < 20000; ++round) {
    std::string text = seeds[random(4)];
    for (std::size_t edits = 1 + random(4); edits > 0; --edits) {
      const std::size_t at = random(text.size() + 1);
      constexpr char kBytes[] = "\"'`[]()=,+-* \n\0/e9\xff";
      if (random(2) == 0) {
        text.insert(at, 1, kBytes[random(sizeof kBytes - 1)]);
      } else if (at < text.size()) {
        text.erase(at, 1 + random(3));
      }
    }
    const std::string message = refusal({text});
    CHECK(!message.empty());
  }
}

TEST_CASE("definition: what SQLite passes on") {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(":memory:", &db) == SQLITE_OK);
  const char* create =
      "CREATE VIRTUAL TABLE papers USING warp(\n"
      "  id        INTEGER PRIMARY KEY,                       -- optional\n"
      "  embedding FLOAT[768] distance=cosine index=flat(),  /* nested (parens, commas) */\n"
      "  venue     TEXT,\n"
      "  tenant    TEXT PARTITION KEY,                        -- rows of one value\n"
      "  +notes    TEXT)";
  CHECK(sqlite3_exec(db, create, nullptr, nullptr, nullptr) == SQLITE_OK);
  char* message = nullptr;
  CHECK(sqlite3_exec(db, "CREATE VIRTUAL TABLE t USING warp(e FLOAT[8] index=ivfpq(lists=4, m=3))",
                     nullptr, nullptr, &message) == SQLITE_ERROR);
  CHECK(std::string(message) ==
        "t: \"e FLOAT[8] index=ivfpq(lists=4, m=3)\": index=ivfpq expects m=a divisor of 8, but "
        "\"3\" was given");
  sqlite3_free(message);
  CHECK(sqlite3_close(db) == SQLITE_OK);
}
