#include "gateway/audit_log.h"

#include "base/testing/manual_clock.h"
#include "gateway/testing/run.h"
#include "store/memory/memory_store.h"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nimbus::gateway {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;

class AuditLogTest : public ::testing::Test {
 protected:
  void add(AuditLog& log, AuditEntry::Kind kind, const std::string& request_id,
           const std::string& principal = "administrator") {
    clock_.advance(Millis(1));
    AuditEntry entry;
    entry.kind = kind;
    entry.request_id = request_id;
    entry.principal_id = principal;
    entry.action = kind == AuditEntry::Kind::Act ? "putFunction" : "listKeys";
    entry.target = "/api/v1/functions/" + request_id;
    entry.status = kind == AuditEntry::Kind::Act ? 200 : 403;
    std::vector<AuditEntry> entries;
    entries.push_back(entry);
    run(log.append(std::move(entries)));
  }
  static std::vector<std::string> ids(const AuditLog::Page& page) {
    std::vector<std::string> ids;
    for (const std::string& item : page.items) {
      ids.emplace_back(json::parse(item).at("request_id").as_string());
    }
    return ids;
  }
  static AuditLog::Page list(AuditLog& log, AuditLog::Filter filter = {}, std::string cursor = "",
                             std::size_t limit = 100) {
    auto page = run(log.list(std::move(filter), std::move(cursor), limit));
    EXPECT_TRUE(page);
    return page ? *std::move(page) : AuditLog::Page();
  }

  static constexpr auto kAct = AuditEntry::Kind::Act;
  static constexpr auto kRefusal = AuditEntry::Kind::Refusal;
  ManualClock clock_;
  SystemRandom random_;
  store::memory::MemoryStore store_{clock_};
  AuditLog log_{store_, random_, {}};
};

TEST_F(AuditLogTest, ActsAndRefusalsAreListedTogetherNewestFirst) {
  add(log_, kAct, "r1");
  add(log_, kRefusal, "r2");
  add(log_, kRefusal, "r3");
  add(log_, kAct, "r4");
  EXPECT_THAT(ids(list(log_)), ElementsAre("r4", "r3", "r2", "r1"));
  EXPECT_FALSE(list(log_).next);
}

TEST_F(AuditLogTest, PagesGoOnWhereTheLastEndedWhateverIsAddedMeanwhile) {
  for (int i = 0; i < 10; ++i) add(log_, i % 3 == 0 ? kAct : kRefusal, "r" + std::to_string(i));
  std::vector<std::string> seen;
  std::optional<std::string> cursor = "";
  while (cursor) {
    const AuditLog::Page page = list(log_, {}, *cursor, 3);
    EXPECT_LE(page.items.size(), 3U);
    for (std::string& id : ids(page)) seen.push_back(std::move(id));
    cursor = page.next;
    add(log_, kAct, "later" + std::to_string(seen.size()));
  }
  EXPECT_THAT(seen, ElementsAre("r9", "r8", "r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"));
}

TEST_F(AuditLogTest, AnEntrySaysWhoDidWhatToWhat) {
  AuditEntry entry;
  entry.principal_id = "k1";
  entry.principal_name = "shop";
  entry.action = "deleteFunction";
  entry.method = "DELETE";
  entry.target = "/api/v1/functions/\xff\"cart";
  entry.status = 404;
  entry.code = "not_found";
  entry.request_id = "r1";
  entry.remote_address = "127.0.0.1";
  std::vector<AuditEntry> entries;
  entries.push_back(entry);
  run(log_.append(std::move(entries)));
  const json::value item = json::parse(list(log_).items.at(0));
  EXPECT_EQ(item.at("id").as_string(), "act-1");
  EXPECT_EQ(item.at("time").as_string(), "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(item.at("kind").as_string(), "act");
  EXPECT_EQ(item.at("principal").as_string(), "k1");
  EXPECT_EQ(item.at("principal_name").as_string(), "shop");
  EXPECT_EQ(item.at("action").as_string(), "deleteFunction");
  EXPECT_EQ(item.at("outcome").as_string(), "failed");
  EXPECT_EQ(item.at("status").as_int64(), 404);
  EXPECT_EQ(item.at("code").as_string(), "not_found");
  EXPECT_EQ(item.at("remote_address").as_string(), "127.0.0.1");
  EXPECT_EQ(item.at("count").as_int64(), 1);
}

TEST_F(AuditLogTest, ListsCanBeNarrowed) {
  add(log_, kAct, "r1", "k1");
  add(log_, kAct, "r2", "k2");
  add(log_, kRefusal, "r3", "k1");
  AuditLog::Filter filter;
  filter.principal = "k1";
  EXPECT_THAT(ids(list(log_, filter)), ElementsAre("r3", "r1"));
  filter.outcome = "refused";
  EXPECT_THAT(ids(list(log_, filter)), ElementsAre("r3"));
  filter = {};
  filter.kind = "act";
  EXPECT_THAT(ids(list(log_, filter)), ElementsAre("r2", "r1"));
  filter.action = "listKeys";
  EXPECT_TRUE(list(log_, filter).items.empty());
  filter = {};
  filter.since = clock_.now() - Millis(1);
  EXPECT_THAT(ids(list(log_, filter)), ElementsAre("r3", "r2"));
  filter.until = clock_.now();
  EXPECT_THAT(ids(list(log_, filter)), ElementsAre("r2"));
}

TEST_F(AuditLogTest, OnlySoManyAreKeptAndRefusalsPushNoActsOut) {
  AuditLog small(store_, random_, {100});
  add(small, kAct, "act");
  for (int i = 0; i < 400; ++i) add(small, kRefusal, "r" + std::to_string(i));
  AuditLog::Filter filter;
  filter.kind = "refusal";
  const auto kept = list(small, filter, "", 1000).items.size();
  EXPECT_GE(kept, 100U);
  EXPECT_LE(kept, 200U);
  filter.kind = "act";
  EXPECT_THAT(ids(list(small, filter)), ElementsAre("act"));
}

TEST_F(AuditLogTest, ACursorOfAnotherListIsRefused) {
  for (const char* cursor : {"x", "1", "1.", ".1", "1.2.3", "-1.2"}) {
    EXPECT_FALSE(run(log_.list({}, cursor, 10))) << cursor;
  }
}

}  // namespace
}  // namespace nimbus::gateway
