#pragma once
// The suites, each a fixture of its own name. A backend is put through all of them with one line in
// its own file:
//
//   NIMBUS_CONFORMANCE(Memory, memoryBackend());

#include "base/testing/manual_clock.h"
#include "client.h"
#include "store_under_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace nimbus::store::conformance {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A store may leave what expired lie for a while before it lets a sweep find it, but not so long.
inline constexpr Millis kSweptBy = 1h;

// More items than any case has: a store whose pages never end must not hang the suite.
inline constexpr std::size_t kEnough = 1000;

// A fresh store on a clock that stands still.
struct FreshStore {
  explicit FreshStore(const Backend& backend) : under_test(backend.open(clock)) {}

  ManualClock clock;
  std::unique_ptr<StoreUnderTest> under_test;
};

// A fresh store for every case. The test itself is a client of one of its partitions.
class StoreTest : public ::testing::TestWithParam<Backend>, private FreshStore, public Client {
 protected:
  StoreTest()
      : FreshStore(GetParam()),
        Client(under_test->store(), Partition("session", {"cart", "alice"})) {}

  Timestamp now() const { return clock.now(); }
  void advance(Millis by) { clock.advance(by); }

  Client clientOf(Partition partition) { return {store(), std::move(partition)}; }

  // Whether the data outlives the store; if it does, it has just done so.
  bool reopen() {
    if (!under_test->reopen()) return false;
    use(under_test->store());
    return true;
  }
  std::unique_ptr<Store> openSecond() { return under_test->openSecond(); }
};

class RecordTest : public StoreTest {};
class VersionTest : public StoreTest {};
class ExpiryTest : public StoreTest {};
class SpaceTest : public StoreTest {};
class LogTest : public StoreTest {};
class LogIndexTest : public StoreTest {};
class LeaseTest : public StoreTest {};
class QueueTest : public StoreTest {};
class LimiterTest : public StoreTest {};
class BatchTest : public StoreTest {};
class PartitionTest : public StoreTest {};
class DirectoryTest : public StoreTest {};
class WatchTest : public StoreTest {};
class IdentifierTest : public StoreTest {};
class ReadTest : public StoreTest {};
class ConcurrencyTest : public StoreTest {};
class PropertyTest : public StoreTest {};

}  // namespace nimbus::store::conformance

#define NIMBUS_CONFORMANCE_SUITE(name, suite, backend) \
  INSTANTIATE_TEST_SUITE_P(name, suite, ::testing::Values(backend))

// NIMBUS_ONLY_SCHEDULES is for the program that has the random schedules by themselves.
#ifdef NIMBUS_ONLY_SCHEDULES
#define NIMBUS_CONFORMANCE(name, backend) NIMBUS_CONFORMANCE_SUITE(name, PropertyTest, backend)
#else
#define NIMBUS_CONFORMANCE(name, backend)                   \
  NIMBUS_CONFORMANCE_SUITE(name, RecordTest, backend);      \
  NIMBUS_CONFORMANCE_SUITE(name, VersionTest, backend);     \
  NIMBUS_CONFORMANCE_SUITE(name, ExpiryTest, backend);      \
  NIMBUS_CONFORMANCE_SUITE(name, SpaceTest, backend);       \
  NIMBUS_CONFORMANCE_SUITE(name, LogTest, backend);         \
  NIMBUS_CONFORMANCE_SUITE(name, LogIndexTest, backend);    \
  NIMBUS_CONFORMANCE_SUITE(name, LeaseTest, backend);       \
  NIMBUS_CONFORMANCE_SUITE(name, QueueTest, backend);       \
  NIMBUS_CONFORMANCE_SUITE(name, LimiterTest, backend);     \
  NIMBUS_CONFORMANCE_SUITE(name, BatchTest, backend);       \
  NIMBUS_CONFORMANCE_SUITE(name, PartitionTest, backend);   \
  NIMBUS_CONFORMANCE_SUITE(name, DirectoryTest, backend);   \
  NIMBUS_CONFORMANCE_SUITE(name, WatchTest, backend);       \
  NIMBUS_CONFORMANCE_SUITE(name, IdentifierTest, backend);  \
  NIMBUS_CONFORMANCE_SUITE(name, ReadTest, backend);        \
  NIMBUS_CONFORMANCE_SUITE(name, ConcurrencyTest, backend); \
  NIMBUS_CONFORMANCE_SUITE(name, PropertyTest, backend)
#endif
