#include "tests/support/in_host.h"

#include "storage/sqlite_api.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

thread_local int depth = 0;

}  // namespace

InHost::InHost() {
  if (host::library(0) == nullptr) SqlSession(":memory:");  // the extension comes with it
  if (depth++ == 0) host::routines = host::library(0);
}

InHost::~InHost() {
  if (--depth == 0) host::routines = nullptr;
}

}  // namespace warplite::testing
