#include "session/session_copy.h"

#include "base/testing/manual_clock.h"
#include "session/invocation_record.h"
#include "state/stored.h"
#include "store/memory/memory_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;

SessionCopy someSession() {
  SessionCopy copy;
  copy.function_id = "cart";
  copy.session_key = "alice";
  copy.created_at = Timestamp(Millis(1000));
  copy.last_access = Timestamp(Millis(5000));
  copy.next_seq = 8;
  copy.state.push_back({"items", R"([ 1, "a\n" ])", 3, std::nullopt});
  copy.state.push_back({"name", "12345678901234567890", 5, Timestamp(Millis(4'000'000'000'000))});
  QueuedRequest request;
  request.payload = R"({ "x" : 1 })";
  copy.queue.push_back({request.toJson(), 7, std::nullopt});
  copy.queue.push_back({request.toJson(), 0, Timestamp(Millis(70'000))});
  return copy;
}

TEST(SessionCopyTest, ComesBackFromItsDocumentAsItWas) {
  const Result<SessionCopy::Parsed> parsed = SessionCopy::fromJson(someSession().toJson("sum"));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->copy, someSession());
  EXPECT_EQ(parsed->checksum, "sum");
}

TEST(SessionCopyTest, WhateverIsChangedChangesItsContent) {
  const std::string before = someSession().content();
  SessionCopy copy = someSession();
  copy.state[0].value = "[1]";
  EXPECT_NE(copy.content(), before);
  copy = someSession();
  copy.state[1].expires_at.reset();
  EXPECT_NE(copy.content(), before);
  copy = someSession();
  copy.queue.pop_back();
  EXPECT_NE(copy.content(), before);
  copy = someSession();
  copy.next_seq = 9;
  EXPECT_NE(copy.content(), before);
}

TEST(SessionCopyTest, WhatIsNoSuchDocumentIsRefused) {
  for (const char* text : {"{}", "[]", R"({"format":"nimbus-session","format_version":2})",
                           R"({"format":"nimbus-session","format_version":1})"}) {
    EXPECT_EQ(SessionCopy::fromJson(text).error().code(), Code::InvalidArgument) << text;
  }
  SessionCopy copy = someSession();
  copy.state[0].value = "no json";
  EXPECT_FALSE(SessionCopy::fromJson(copy.toJson("")));
  copy = someSession();
  copy.queue[0].seq = 8;
  EXPECT_FALSE(SessionCopy::fromJson(copy.toJson("")));
}

TEST(SessionCopyTest, AnImportedSessionIsTheOneThatWasExported) {
  ManualClock clock;
  store::memory::MemoryStore store(clock);
  asio::io_context context;
  const auto finish = [&](auto task) {
    auto result = asio::co_spawn(context, std::move(task), asio::use_future);
    context.restart();
    context.run();
    return result.get();
  };
  const SessionCopy copy = someSession();
  store::PendingCommit commit = store.commit(sessionPartition("cart", "alice"), std::nullopt,
                                             importBatch(copy, 1U << 20U, "imported", store.now()));
  ASSERT_TRUE(finish(commit.done()));
  Result<SessionCopy> again = finish(copySession(store, "cart", "alice"));
  ASSERT_TRUE(again);
  again->last_access = copy.last_access;
  EXPECT_EQ(*again, copy);
  store::PendingCommit twice = store.commit(sessionPartition("cart", "alice"), std::nullopt,
                                            importBatch(copy, 2U << 20U, "twice", store.now()));
  EXPECT_EQ(finish(twice.done()).error().code(), Code::VersionConflict);
  EXPECT_EQ(finish(copySession(store, "cart", "bob")).error().code(), Code::NotFound);
}

}  // namespace
}  // namespace nimbus::session
