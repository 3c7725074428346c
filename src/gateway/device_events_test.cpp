#include "gateway/device_events.h"

#include "base/testing/manual_clock.h"
#include "base/time_text.h"
#include "gateway/testing/run.h"
#include "store/memory/memory_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace nimbus::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DeviceEventsTest : public ::testing::Test {
 protected:
  std::string eventNow() const {
    return R"({"type":"t","data":null,"created_at":")" + timeText(clock_.now()) + "\"}";
  }
  void send(int count = 1) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(run(events_.append("d", "e" + std::to_string(++sent_), eventNow())));
    }
  }
  DeviceEvents::Fetched poll(store::Seq since = 0, std::optional<store::Seq> ack = {},
                             std::size_t limit = 1000) {
    DeviceEvents::Poll poll;
    poll.since = since;
    poll.ack = ack;
    poll.limit = limit;
    auto fetched = run(events_.poll("d", poll));
    EXPECT_TRUE(fetched);
    return fetched ? *fetched : DeviceEvents::Fetched();
  }
  static std::vector<std::int64_t> ids(const DeviceEvents::Fetched& fetched) {
    std::vector<std::int64_t> ids;
    for (const std::string& event : fetched.events) {
      ids.push_back(boost::json::parse(event).at("id").as_int64());
    }
    return ids;
  }

  ManualClock clock_;
  store::memory::MemoryStore store_{clock_};
  DeviceEvents events_{store_};
  int sent_ = 0;
};

TEST_F(DeviceEventsTest, EventsComeInOrderAndAgainUntilTheyAreAcknowledged) {
  send(3);
  EXPECT_THAT(ids(poll()), ElementsAre(1, 2, 3));
  EXPECT_THAT(ids(poll()), ElementsAre(1, 2, 3));
  EXPECT_THAT(ids(poll(2)), ElementsAre(3));
  EXPECT_THAT(ids(poll(0, 2)), ElementsAre(3));
  EXPECT_THAT(ids(poll()), ElementsAre(3)) << "what was acknowledged never comes again";
  EXPECT_EQ(poll(0, 3).cursor, 3U);
  EXPECT_THAT(ids(poll()), IsEmpty());
  EXPECT_EQ(poll().dropped, 0U);
  send();
  EXPECT_THAT(ids(poll()), ElementsAre(4));
}

TEST_F(DeviceEventsTest, APageGoesOnWhereTheLastEnded) {
  send(5);
  EXPECT_THAT(ids(poll(0, {}, 2)), ElementsAre(1, 2));
  EXPECT_THAT(ids(poll(2, 2, 2)), ElementsAre(3, 4));
  EXPECT_THAT(ids(poll(0, 4, 2)), ElementsAre(5));
}

TEST_F(DeviceEventsTest, BeyondAThousandTheOldestAreDroppedAndCounted) {
  send(static_cast<int>(DeviceEvents::kMostKept) + 7);
  const auto fetched = poll();
  EXPECT_EQ(fetched.events.size(), DeviceEvents::kMostKept);
  EXPECT_EQ(fetched.dropped, 7U);
  EXPECT_EQ(fetched.cursor, DeviceEvents::kMostKept + 7);
  EXPECT_EQ(poll(3).dropped, 4U) << "of what this one had seen";
  EXPECT_EQ(poll(7).dropped, 0U);
}

TEST_F(DeviceEventsTest, AfterADayEventsAreDroppedAndCounted) {
  send(2);
  clock_.advance(DeviceEvents::kKeptFor - Millis(1));
  send();
  EXPECT_THAT(ids(poll()), ElementsAre(1, 2, 3));
  clock_.advance(Millis(1));
  auto fetched = poll();
  EXPECT_THAT(ids(fetched), ElementsAre(3));
  EXPECT_EQ(fetched.dropped, 2U);
  clock_.advance(DeviceEvents::kKeptFor);
  fetched = poll(3);
  EXPECT_EQ(fetched.dropped, 0U);
  fetched = poll();
  EXPECT_THAT(ids(fetched), IsEmpty());
  EXPECT_EQ(fetched.dropped, 3U);
  EXPECT_EQ(fetched.cursor, 3U);
}

TEST_F(DeviceEventsTest, WhatNeverWasCannotBeAcknowledged) {
  send();
  DeviceEvents::Poll ahead;
  ahead.ack = 2;
  EXPECT_EQ(run(events_.poll("d", ahead)).error().code(), Code::InvalidArgument);
  ahead = {};
  ahead.since = 2;
  EXPECT_EQ(run(events_.poll("d", ahead)).error().code(), Code::InvalidArgument);
}

TEST_F(DeviceEventsTest, APollThatWaitsIsWokenByAnEvent) {
  DeviceEvents::Poll waiting;
  waiting.wait = Millis(60'000);
  boost::asio::io_context io;
  std::optional<Result<DeviceEvents::Fetched>> fetched;
  boost::asio::co_spawn(io, events_.poll("d", waiting),
                        [&](const std::exception_ptr&, Result<DeviceEvents::Fetched> result) {
                          fetched.emplace(std::move(result));
                        });
  while (io.poll() > 0) continue;
  ASSERT_FALSE(fetched);
  send();
  io.run_for(std::chrono::seconds(30));
  ASSERT_TRUE(fetched && *fetched);
  EXPECT_THAT(ids(**fetched), ElementsAre(1));
}

TEST_F(DeviceEventsTest, APollWaitsNoLongerThanItWanted) {
  DeviceEvents::Poll waiting;
  waiting.wait = Millis(20);
  const auto fetched = run(events_.poll("d", waiting));
  ASSERT_TRUE(fetched);
  EXPECT_TRUE(fetched->events.empty());
}

TEST_F(DeviceEventsTest, DevicesDoNotSeeEachOthersEvents) {
  send();
  DeviceEvents::Poll all;
  EXPECT_TRUE(run(events_.poll("other", all))->events.empty());
  ASSERT_TRUE(run(events_.remove("d")));
  EXPECT_TRUE(poll().events.empty());
}

}  // namespace
}  // namespace nimbus::gateway
