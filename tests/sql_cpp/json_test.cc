// JSON from outside: what is taken and what is refused, bounds, small stacks, failed allocations.
#include <doctest/doctest.h>
#include <pthread.h>

#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <string>

#include "sql/host/json.h"
#include "tests/support/fakes/failing_allocator.h"
#include "tests/support/sql_session.h"

namespace warplite::sql {
namespace {

using testing::SqlSession;

std::string error_of(const std::string& text) {
  try {
    Json::parse(text);
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

double real_of(const std::string& text) {
  const Cell number = Json::parse(text).number();
  return number.kind == CellKind::kInteger ? static_cast<double>(number.integer) : number.real;
}

std::string nested(std::size_t levels, const std::string& open, const std::string& close) {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) text += open;
  for (std::size_t i = 0; i < levels; ++i) text += close;
  return text;
}

// On a thread with a stack of `bytes`.
void run_on_stack(std::size_t bytes, std::function<void()> body) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread;
  const auto start = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, start, &body) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace

TEST_CASE("JSON: values are read as they are written") {
  const std::string text =
      R"( {"a" : [1, -2.5e1, true, false, null], "b\u00e9\n\ud83d\ude00": "x\/y", "c":{}, "":[]} )";
  const Json json = Json::parse(text);
  REQUIRE(json.is_object());
  CHECK(json.object().size() == 4);
  const Json::List& list = json.find("a")->list();
  REQUIRE(list.size() == 5);
  CHECK((list[0].is_integer() && list[0].integer() == 1));
  CHECK((list[1].is_number() && list[1].number().real == -25));
  CHECK((list[2].is_boolean() && list[2].boolean() && !list[3].boolean() && list[4].is_null()));
  CHECK(list[1].source() == "-2.5e1");
  CHECK(json.find("a")->source() == "[1, -2.5e1, true, false, null]");
  CHECK(json.find("bé\n😀")->text() == "x/y");
  CHECK(json.find("nothing") == nullptr);
  CHECK(json.find("")->list().empty());
}

TEST_CASE("JSON: numbers") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(Json::parse("9223372036854775807").integer() == std::numeric_limits<std::int64_t>::max());
  CHECK(real_of("9223372036854775808") == 9223372036854775808.0);
  CHECK(real_of("0.1") == 0.1);
  CHECK(real_of("1e-400") == 0);
  CHECK(real_of("-.5") == -0.5);
  // As SQLite's own JSON functions write infinity: before 3.42, and since.
  for (const char* text : {"Inf", "9e999", "9.0e+999", "1e400"}) {
    CHECK(real_of(text) == kInfinity);
    CHECK(real_of("-" + std::string(text)) == -kInfinity);
  }
}

TEST_CASE("JSON: what is malformed is refused, with the byte") {
  for (const char* text :
       {"", " ", "{", "[", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:2}",
        "tru", "nul", "NaN", "Infinity", "+1", "01", "1.", ".", "-", "1e", "1e+", "0x1", "'a'", "\"a",
        "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\n\"", "1 1", "[1]]", "]",
        "\xEF\xBB\xBF[1]", "[1}", "{\"a\":1]"}) {
    INFO(text);
    CHECK(error_of(text).find("malformed JSON") == 0);
  }
  CHECK(error_of(std::string("1\0", 2)) == "malformed JSON at byte 2, at \"\\x00\"");
  CHECK(error_of(std::string("\"a\0\"", 4)) == "malformed JSON at byte 3, at \"\\x00\"\"");
  CHECK(error_of("{\"a\":1,") == "malformed JSON at byte 8, where it ends");
  CHECK(error_of(R"({"a":{"b":1,"c":2,"b":3}})") == "the key \"b\" comes twice");
}

TEST_CASE("JSON: bounds of depth and size") {
  CHECK(error_of(nested(64, "[", "]")).empty());
  CHECK(error_of(nested(65, "[", "]")) == "JSON of more than 64 levels at byte 65");
  CHECK(error_of(nested(32, "[{\"a\":", "").append("1") + nested(32, "", "}]")).empty());
  CHECK(error_of(nested(1000000, "{\"a\":[", "")).find("64 levels") != std::string::npos);
  CHECK(error_of("\"" + std::string(kMostJsonBytes - 2, 'x') + "\"").empty());
  CHECK(error_of("\"" + std::string(kMostJsonBytes - 1, 'x') + "\"").find("are the most") !=
        std::string::npos);
}

TEST_CASE("JSON: every allocation fails once") {
  const std::string text =
      R"({"a long enough key":[[1,2],["a text that no small buffer holds",{}]],"b":{"c":[null,true]}})";
  for (long nth = 0;; ++nth) {
    testing::AllocationFault fault(testing::Allocator::kCpp, nth, false);
    try {
      const Json json = Json::parse(text);
    } catch (const std::bad_alloc&) {
    }
    if (!fault.fired()) break;
  }
}

TEST_CASE("JSON: deep nesting is an error wherever JSON comes in, on a small stack too") {
  const auto body = [] {
    const SqlSession session(":memory:");
    session.must_run(
        "CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], n INTEGER, s TEXT index=words);"
        "INSERT INTO t VALUES ('[1,2]', 1, 'one');"
        "CREATE TABLE deep(id INTEGER PRIMARY KEY, j);"
        "INSERT INTO deep VALUES (1, printf('%.70000c', '[') || printf('%.70000c', ']')), "
        "(2, replace(printf('%.70000c', '['), '[', '{\"n\":'))");
    for (const char* sql :
         {"SELECT * FROM deep, warp_match_count('t', j, 3)", "SELECT * FROM t, deep WHERE t MATCH j",
          "SELECT * FROM deep, warp_match_count('t', '{\"n\":1}', 3, j)",
          "SELECT * FROM deep, warp_knn_search('t', 'e', j, 3)",
          "SELECT * FROM deep, warp_knn_search('t', 'e', '[1,2]', 3, j)",
          "SELECT * FROM deep, warp_document_search('t', 's', 'one', 3, j)",
          "SELECT * FROM warp_match_join('t', 'SELECT id, j FROM deep', 3)",
          "SELECT * FROM warp_knn_join('t', 'e', 'SELECT id, j FROM deep', 3)",
          "SELECT vec_f32(j) FROM deep", "INSERT INTO t(e) SELECT j FROM deep"}) {
      const testing::SqlResult result = session.run(sql);
      INFO(sql << ": " << result.message);
      CHECK(!result.ok());
      CHECK(result.message.size() < 1000);
    }
  };
  body();
  run_on_stack(std::size_t{512} << 10, body);
}

}  // namespace warplite::sql
