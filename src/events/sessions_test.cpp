#include "events/sessions.h"

#include "base/testing/manual_clock.h"
#include "events/log.h"
#include "events/settings_reader.h"
#include "events/shared_state.h"
#include "events/states.h"
#include "events/testing/run.h"
#include "events/tracks.h"
#include "events/upkeep.h"
#include "store/memory/memory_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::events {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class SessionsTest : public ::testing::Test {
 protected:
  SessionName make(const std::string& id) {
    NewSession session;
    session.id = id;
    EXPECT_TRUE(run(sessions_.create("app", "user", session)));
    return {"app", "user", id};
  }
  Result<AppendAnswer> append(const SessionName& name, const std::string& json) {
    return run(log_.append(LogName{name, ""}, *parseEvents(json), AppendOptions()));
  }
  void commit(const store::Partition& partition, store::Batch batch) {
    auto pending = store_.commit(partition, std::nullopt, std::move(batch));
    ASSERT_TRUE(run(pending.done()));
  }
  std::vector<std::string> listed() {
    std::vector<std::string> ids;
    SessionQuery query;
    query.app = "app";
    const auto page = run(sessions_.list(query));
    for (const Session& session : page->items) ids.push_back(session.name.id);
    return ids;
  }
  std::size_t entriesOf(const std::string& directory) {
    return run(store_.readDirectory(directory, "", "", 100))->items.size();
  }

  ManualClock clock_;
  store::memory::MemoryStore store_{clock_};
  SeededRandom random_{1};
  Turns turns_;
  Log log_{store_, random_, turns_};
  Sessions sessions_{store_, random_, turns_};
};

TEST_F(SessionsTest, SessionsAreListedByTheirLastChange) {
  for (const char* id : {"a", "b", "c"}) {
    make(id);
    clock_.advance(Millis(1));
  }
  ASSERT_TRUE(append({"app", "user", "a"}, R"({"content":1})"));
  EXPECT_THAT(listed(), ElementsAre("a", "c", "b"));
  EXPECT_EQ(entriesOf(sessionDirectory("app")), 3U) << "what was before is removed";
}

TEST_F(SessionsTest, ChangesWithinOneMillisecondAreListedInTheirOrder) {
  for (const char* id : {"a", "b", "c"}) make(id);
  EXPECT_THAT(listed(), ElementsAre("c", "b", "a"));
}

TEST_F(SessionsTest, EntriesThatACrashLeftAreSkippedAndRemovedWhenNobodyCanBeAtWorkOnThem) {
  const SessionName name = make("a");
  store::Batch batch;
  batch.listings = moved(name, std::nullopt, clock_.now() + Millis(1));
  batch.listings.push_back(moved({"app", "user", "never"}, std::nullopt, clock_.now())[0]);
  commit(name.partition(), std::move(batch));
  EXPECT_THAT(listed(), ElementsAre("a"));
  EXPECT_EQ(entriesOf(sessionDirectory("app")), 3U);
  clock_.advance(std::chrono::minutes(2));
  EXPECT_THAT(listed(), ElementsAre("a"));
  EXPECT_EQ(entriesOf(sessionDirectory("app")), 1U);
  EXPECT_EQ(entriesOf(sessionDirectory("app", "user")), 1U);
}

TEST_F(SessionsTest, AnExpiredSessionIsGoneAndItsRemainsAreRemoved) {
  ASSERT_TRUE(run(changeSettings(store_, "app", R"({"session_ttl":60})")));
  const SessionName name = make("a");
  ASSERT_TRUE(append(name, R"([{"content":1,"state_delta":{"k":1}},{"content":2}])"));
  ASSERT_TRUE(run(log_.append(LogName{name, "t"}, *parseEvents(R"({"content":1})"), {})));
  clock_.advance(std::chrono::seconds(59));
  EXPECT_TRUE(append(name, R"({"content":3})")) << "a change makes it stay";
  clock_.advance(std::chrono::seconds(60));
  EXPECT_EQ(run(sessions_.get(name)).error().code(), Code::NotFound);
  EXPECT_EQ(append(name, R"({"content":4})").error().code(), Code::NotFound);
  clock_.advance(std::chrono::minutes(2));
  ASSERT_TRUE(run(removeExpiredSessions(store_, sessions_)));
  EXPECT_EQ(entriesOf(sessionDirectory("app")), 0U);
  EXPECT_EQ(entriesOf(sessionDirectory("app", "user")), 0U);
  for (const char* log : {"events", "track:t"}) {
    const auto info =
        run(store::ask<store::LogInfo>(store_, name.partition(), store::query::GetLogInfo{log}));
    EXPECT_EQ(info->entries, 0U) << log;
  }
  EXPECT_THAT(*run(readState(store_, name.partition())), IsEmpty());
}

TEST_F(SessionsTest, ASessionMadeAgainAfterItExpiredIsEmpty) {
  ASSERT_TRUE(run(changeSettings(store_, "app", R"({"session_ttl":60})")));
  const SessionName name = make("a");
  const auto before = run(sessions_.get(name));
  ASSERT_TRUE(append(name, R"({"content":1,"id":"e","state_delta":{"k":1}})"));
  clock_.advance(std::chrono::minutes(2));
  make("a");
  const auto again = run(sessions_.get(name));
  EXPECT_NE(again->generation, before->generation);
  EXPECT_EQ(again->event_count, 0U);
  EXPECT_EQ(append(name, R"({"content":2,"id":"e"})")->items[0].seq, 1U);
}

// Two processes; ours remembers how its last append left a session.
class KnownSessionsTest : public SessionsTest {
 protected:
  store::Seq appendBy(Log& log, AppendOptions options = {}) {
    const auto answer =
        run(log.append(LogName{name_, ""}, *parseEvents(R"({"content":1})"), options));
    return answer ? answer->items[0].seq : 0;
  }

  const SessionName name_ = make("a");
  Turns their_turns_;
  Log theirs_{store_, random_, their_turns_};
};

TEST_F(KnownSessionsTest, WhatOthersAppendedIsBeforeWhatWeAppend) {
  EXPECT_EQ(appendBy(log_), 1U);
  EXPECT_EQ(appendBy(log_), 2U);
  EXPECT_EQ(appendBy(theirs_), 3U);
  clock_.advance(Millis(1));
  EXPECT_EQ(appendBy(log_), 4U);
  EXPECT_EQ(run(sessions_.get(name_))->event_count, 4U);
  EXPECT_EQ(entriesOf(sessionDirectory("app")), 1U) << "every change moves the same entry";
}

TEST_F(KnownSessionsTest, AnExpectedSeqIsHeldAgainstWhatIsThere) {
  EXPECT_EQ(appendBy(log_), 1U);
  EXPECT_EQ(appendBy(theirs_), 2U);
  EXPECT_EQ(appendBy(log_, {.expected_seq = 1, .generation = {}}), 0U);
  EXPECT_EQ(appendBy(theirs_), 3U);
  EXPECT_EQ(appendBy(log_, {.expected_seq = 3, .generation = {}}), 4U);
  EXPECT_EQ(appendBy(log_, {.expected_seq = 4, .generation = {}}), 5U);
  EXPECT_EQ(appendBy(theirs_), 6U);
  EXPECT_EQ(appendBy(log_, {.expected_seq = 6, .generation = {}}), 7U) << "not what we knew";
}

TEST_F(KnownSessionsTest, ASessionThatWasDeletedIsNotAppendedToNorOneMadeSince) {
  EXPECT_EQ(appendBy(log_), 1U);
  EXPECT_EQ(appendBy(log_), 2U);
  ASSERT_TRUE(run(sessions_.remove(name_)));
  EXPECT_EQ(appendBy(log_), 0U);
  const auto before =
      run(sessions_.create("app", "user", {.id = "a", .title = "", .state = {}, .created_at = {}}));
  EXPECT_EQ(appendBy(log_), 1U);
  ASSERT_TRUE(run(sessions_.remove(name_)));
  clock_.advance(Millis(1));
  make("a");
  EXPECT_EQ(appendBy(theirs_), 1U) << "its clock has been written as often as the one we know";
  EXPECT_EQ(appendBy(log_, {.expected_seq = {}, .generation = before->generation}), 0U);
  EXPECT_EQ(appendBy(log_), 2U);
}

TEST_F(KnownSessionsTest, ASessionThatHasExpiredIsGone) {
  ASSERT_TRUE(run(changeSettings(store_, "app", R"({"session_ttl":60})")));
  EXPECT_EQ(appendBy(log_), 1U);
  EXPECT_EQ(appendBy(log_), 2U);
  clock_.advance(std::chrono::seconds(60));
  EXPECT_EQ(appendBy(log_), 0U);
}

TEST_F(KnownSessionsTest, SettingsHoldForTheNextAppend) {
  EXPECT_EQ(appendBy(log_), 1U);
  ASSERT_TRUE(run(
      changeSettings(store_, "app", R"({"max_events_per_session":2,"eviction_batch_size":1})")));
  for (const char* json :
       {R"({"content":1,"request_id":"r"})", R"({"content":1,"request_id":"q"})"}) {
    ASSERT_TRUE(append(name_, json));
  }
  EXPECT_EQ(run(sessions_.get(name_))->event_count, 1U);
}

Task<> noteMaximum(SettingsReader& reader, std::vector<std::uint64_t>& seen) {
  const auto settings = co_await reader.read("app");
  seen.push_back(settings->retention.max_events);
}

TEST_F(SessionsTest, SettingsAreReadForManyAtOnceAndNeverBeforeTheyWereAskedFor) {
  SettingsReader reader(store_);
  boost::asio::io_context io;
  std::vector<std::uint64_t> seen;
  for (int i = 0; i < 5; ++i) {
    boost::asio::co_spawn(io, noteMaximum(reader, seen), [](const std::exception_ptr&) {});
  }
  io.run();
  EXPECT_THAT(seen, ElementsAre(0, 0, 0, 0, 0));
  ASSERT_TRUE(run(changeSettings(store_, "app", R"({"max_events_per_session":20})")));
  EXPECT_EQ(run(reader.read("app"))->retention.max_events, 20U);
}

class TrackTest : public SessionsTest {
 protected:
  Result<AppendAnswer> appendTo(const std::string& track, const std::string& json) {
    return run(log_.append(LogName{name_, track}, *parseEvents(json), AppendOptions()));
  }
  std::vector<std::string> ids(const std::string& track) {
    std::vector<std::string> ids;
    const auto page = run(log_.list(LogName{name_, track}, ListQuery()));
    for (const store::Entry& entry : page->entries) ids.push_back(entry.id);
    return ids;
  }
  std::uint64_t kept(const std::string& track) {
    return run(store::ask<store::LogInfo>(store_, name_.partition(),
                                          store::query::GetLogInfo{"track:" + track}))
        ->entries;
  }
  Result<Track> set(const std::string& track, const std::string& json) {
    return run(changeTrack(store_, turns_, LogName{name_, track}, json));
  }

  const SessionName name_ = make("a");
};

TEST_F(TrackTest, WhatATrackHoldsIsGoneAfterItsTtlAndAnAppendMakesItStay) {
  ASSERT_TRUE(set("t", R"({"ttl":60})"));
  ASSERT_TRUE(appendTo("t", R"([{"id":"a","content":1},{"id":"b","content":1}])"));
  ASSERT_TRUE(appendTo("other", R"({"id":"o","content":1})"));
  clock_.advance(std::chrono::seconds(59));
  ASSERT_TRUE(appendTo("t", R"({"id":"c","content":1})"));
  clock_.advance(std::chrono::seconds(59));
  EXPECT_THAT(ids("t"), ElementsAre("a", "b", "c"));
  clock_.advance(std::chrono::seconds(1));
  EXPECT_THAT(ids("t"), IsEmpty());
  EXPECT_THAT(ids("other"), ElementsAre("o"));
  const LogName log{name_, "t"};
  EXPECT_EQ(run(log_.get(log, "a")).error().code(), Code::NotFound);
  EXPECT_EQ(run(log_.remove(log, "a", std::nullopt)).error().code(), Code::NotFound);
  EXPECT_EQ(run(log_.replace(log, "a", *parseEvent(R"({"content":2})"), {})).error().code(),
            Code::NotFound);
  EXPECT_THAT(*run(log_.trim(log, 1)), IsEmpty());
  EXPECT_EQ(run(showTrack(store_, log))->info.entries, 0U);
  EXPECT_EQ(run(sessions_.get(name_))->event_count, 0U) << "the session is still there";

  const auto again = appendTo("t", R"({"id":"a","content":"other"})");
  ASSERT_TRUE(again) << "an id that has expired is free";
  EXPECT_EQ(again->items[0].seq, 4U) << "no seq is used twice";
  EXPECT_THAT(ids("t"), ElementsAre("a"));
  EXPECT_EQ(kept("t"), 1U);
}

TEST_F(TrackTest, WhatHasExpiredIsRemovedByUpkeepAndNothingElse) {
  ASSERT_TRUE(set("t", R"({"ttl":60})"));
  ASSERT_TRUE(appendTo("t", R"({"id":"a","content":1})"));
  clock_.advance(std::chrono::seconds(59));
  ASSERT_TRUE(appendTo("t", R"({"id":"b","content":1})"));
  clock_.advance(std::chrono::seconds(2));
  ASSERT_TRUE(run(removeExpiredTracks(store_)));
  EXPECT_THAT(ids("t"), ElementsAre("a", "b")) << "listed again for when it is due";
  EXPECT_EQ(entriesOf(kTrackDirectory), 1U);
  clock_.advance(std::chrono::seconds(60));
  EXPECT_EQ(kept("t"), 2U);
  ASSERT_TRUE(run(removeExpiredTracks(store_)));
  EXPECT_EQ(kept("t"), 0U);
  EXPECT_EQ(entriesOf(kTrackDirectory), 0U);
  ASSERT_TRUE(appendTo("t", R"({"id":"c","content":1})"));
  EXPECT_EQ(entriesOf(kTrackDirectory), 1U);
  EXPECT_THAT(ids("t"), ElementsAre("c"));
  ASSERT_TRUE(run(sessions_.remove(name_)));
  clock_.advance(std::chrono::seconds(61));
  ASSERT_TRUE(run(removeExpiredTracks(store_)));
  EXPECT_EQ(entriesOf(kTrackDirectory), 0U);
}

TEST_F(TrackTest, ATtlBeginsWhenItIsSetAndWhatExpiredUnderItStaysGone) {
  ASSERT_TRUE(appendTo("t", R"({"id":"a","content":1})"));
  clock_.advance(std::chrono::hours(1));
  ASSERT_TRUE(set("t", R"({"ttl":60})"));
  EXPECT_THAT(ids("t"), ElementsAre("a"));
  clock_.advance(std::chrono::seconds(60));
  const auto track = set("t", R"({"ttl":0,"max_events":20})");
  ASSERT_TRUE(track) << track.error().message();
  EXPECT_EQ(track->settings.ttl, std::nullopt);
  EXPECT_THAT(ids("t"), IsEmpty());
  EXPECT_EQ(set("t", R"({"ttl":-1})").error().code(), Code::InvalidArgument);
}

// An append that died behind its commit.
class IntentTest : public SessionsTest {
 protected:
  void leaveIntent(const SessionName& name, const std::string& json) {
    store::Batch batch;
    addIntent(batch, name, Intent{makeIntentId(clock_.now(), random_), *parseDelta(json)});
    commit(name.partition(), std::move(batch));
  }
  StateMembers appState() { return *run(readState(store_, appPartition("app"))); }
};

TEST_F(IntentTest, WhatACrashLeftIsCarriedOutByUpkeep) {
  const SessionName name = make("a");
  leaveIntent(name, R"({"app:x":1,"user:y":2})");
  EXPECT_THAT(appState(), IsEmpty());
  ASSERT_TRUE(run(carryOutLeftIntents(store_)));
  EXPECT_THAT(appState(), ElementsAre(Pair("x", "1")));
  EXPECT_THAT(*run(readState(store_, userPartition("app", "user"))), ElementsAre(Pair("y", "2")));
  EXPECT_EQ(entriesOf(kIntentDirectory), 0U);
}

TEST_F(IntentTest, WhatACrashLeftComesBeforeTheNextChange) {
  const SessionName name = make("a");
  leaveIntent(name, R"({"app:x":1})");
  ASSERT_TRUE(append(name, R"({"content":1,"state_delta":{"app:x":2}})"));
  EXPECT_THAT(appState(), ElementsAre(Pair("x", "2")));
  ASSERT_TRUE(run(carryOutLeftIntents(store_)));
  EXPECT_THAT(appState(), ElementsAre(Pair("x", "2"))) << "not once more";
}

TEST_F(IntentTest, AnIntentIsCarriedOutOnce) {
  const SessionName name = make("a");
  const Intent intent{"i", *parseDelta(R"({"app:x":1})")};
  ASSERT_TRUE(run(carryOut(store_, name, intent)));
  ASSERT_TRUE(run(patchSharedState(store_, appPartition("app"), R"({"x":5})")));
  ASSERT_TRUE(run(carryOut(store_, name, intent)));
  EXPECT_THAT(appState(), ElementsAre(Pair("x", "5")));
}

TEST_F(IntentTest, AnEntryWithoutAnIntentIsRemovedWhenNobodyCanBeAtWorkOnIt) {
  const SessionName name = make("a");
  store::Batch batch;
  addIntent(batch, name, Intent{makeIntentId(clock_.now(), random_), *parseDelta("{}")});
  batch.operations.clear();
  commit(name.partition(), std::move(batch));
  ASSERT_TRUE(run(carryOutLeftIntents(store_)));
  EXPECT_EQ(entriesOf(kIntentDirectory), 1U);
  clock_.advance(std::chrono::minutes(2));
  ASSERT_TRUE(run(carryOutLeftIntents(store_)));
  EXPECT_EQ(entriesOf(kIntentDirectory), 0U);
}

TEST(TurnsTest, TurnsOfOneNameAreTakenOneAfterTheOther) {
  Turns turns;
  boost::asio::io_context io;
  std::vector<int> order;
  const auto work = [&](int number, std::string name) -> Task<> {
    const auto turn = co_await turns.take(std::move(name));
    order.push_back(number);
    boost::asio::io_context::executor_type executor = io.get_executor();
    co_await boost::asio::post(executor, boost::asio::use_awaitable);
    order.push_back(number);
  };
  for (int i = 0; i < 3; ++i) {
    boost::asio::co_spawn(io, work(i, "same"), [](const std::exception_ptr&) {});
  }
  io.run();
  EXPECT_THAT(order, ElementsAre(0, 0, 1, 1, 2, 2));
}

}  // namespace
}  // namespace nimbus::events
