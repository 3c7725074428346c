// Random histories on the stores that need no server; on Redis: tests/conformance/redis.

#include "events/testing/log_model.h"

#include "base/testing/manual_clock.h"
#include "base/testing/temporary_directory.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"

#include <gtest/gtest.h>

namespace nimbus::events {
namespace {

TEST(LogModelTest, InMemory) {
  ManualClock clock;
  store::memory::MemoryStore store(clock);
  playMany(store, clock, 20);
}

TEST(LogModelTest, InSqlite) {
  ManualClock clock;
  TemporaryDirectory directory;
  store::sqlite::Options options;
  options.path = directory.path() / "nimbus.db";
  options.synchronous = store::sqlite::Synchronous::Off;
  auto store = store::sqlite::SqliteStore::open(std::move(options), clock);
  ASSERT_TRUE(store);
  playMany(**store, clock, 8);
}

}  // namespace
}  // namespace nimbus::events
