#include "function/catalog.h"

#include "base/testing/manual_clock.h"
#include "base/testing/temporary_directory.h"
#include "function/records.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"
#include "store/testing/altered_store.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace nimbus::function {
namespace {

namespace asio = boost::asio;

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

using Change = Put::Change;

// Runs a task to its end on the calling thread. One may run within another.
template <typename T>
T run(Task<T> task) {
  asio::io_context io(1);
  std::optional<T> result;
  asio::co_spawn(io, std::move(task), [&](const std::exception_ptr& thrown, T value) {
    if (thrown) std::rethrow_exception(thrown);
    result.emplace(std::move(value));
  });
  io.run();
  return *std::move(result);
}

FunctionId idOf(std::string_view text) {
  return *FunctionId::parse(text);
}

// Accepts what it is not told to refuse, and remembers what it was asked.
class FakeCheck final : public CodeCheck {
 public:
  Task<Result<>> check(const Definition& definition, const Bundle& code) override {
    asked.push_back(fmt::format("{} {} {}", definition.version, runtimeName(definition.runtime),
                                definition.handler));
    files = code.files().size();
    if (auto during = std::exchange(meanwhile, nullptr)) during();
    if (refusal) co_return *refusal;
    co_return Result<>();
  }

  std::vector<std::string> asked;
  std::size_t files = 0;
  std::optional<Error> refusal;
  std::function<void()> meanwhile;  // once
};

// A store whose next commit is applied, and then answers as it is told to.
class UnsureStore final : public store::AlteredStore {
 public:
  using AlteredStore::AlteredStore;

  std::optional<Error> next_failure;
  bool hold_next = false;
  // What is held, until a test lets it go.
  std::shared_ptr<store::CommitState> held;
  store::Applied held_applied;

 private:
  store::PendingCommit begin(store::CommitOrder order) override {
    EXPECT_EQ(order.chained.listener, nullptr);
    store::PendingCommit pending = passOn(std::move(order));
    if (!next_failure && !hold_next) return pending;
    auto applied = run(pending.done());
    EXPECT_TRUE(applied);
    auto state = std::make_shared<store::CommitState>(nullptr);
    if (next_failure) {
      state->refuse(*std::exchange(next_failure, std::nullopt));
    } else {
      hold_next = false;
      held = state;
      held_applied = *std::move(applied);
    }
    return store::PendingCommit(std::move(state));
  }
};

enum class Backend { Memory, Sqlite };

class CatalogTest : public ::testing::TestWithParam<Backend> {
 protected:
  CatalogTest() {
    if (GetParam() == Backend::Memory) {
      store_ = std::make_unique<store::memory::MemoryStore>(clock_);
    } else {
      openSqlite();
    }
    open();
  }

  void openSqlite() {
    store::sqlite::Options options;
    options.path = directory_.path() / "nimbus.db";
    options.synchronous = store::sqlite::Synchronous::Off;
    auto opened = store::sqlite::SqliteStore::open(options, clock_);
    ASSERT_TRUE(opened) << opened.error().message();
    store_ = *std::move(opened);
  }
  void open() {
    unsure_ = std::make_unique<UnsureStore>(*store_);
    catalog_ = std::make_unique<Catalog>(*unsure_, random_, defaults_);
    catalog_->subscribe([this](const FunctionId& id, const std::shared_ptr<const Deployed>& now) {
      told_.push_back(now ? fmt::format("{} v{}", id.text(), now->definition.version)
                          : fmt::format("{} gone", id.text()));
    });
  }
  // As after the end of the process, if the store can do that.
  void reopen() {
    catalog_.reset();
    unsure_.reset();
    if (GetParam() == Backend::Sqlite) {
      store_.reset();
      openSqlite();
    }
    open();
    EXPECT_TRUE(run(catalog_->load()));
  }

  // ---- on the catalog, by name

  static std::string body(std::string_view code, std::string_view more = "") {
    std::string text = fmt::format(R"({{"runtime":"python","files":{{"main.py":"{}"}})", code);
    if (!more.empty()) text.append(",").append(more);
    return text + "}";
  }
  Result<Put> tryPut(std::string_view id, std::string text) {
    return run(catalog_->put(idOf(id), std::move(text), check_));
  }
  Put put(std::string_view id, std::string text) {
    auto done = tryPut(id, std::move(text));
    EXPECT_TRUE(done) << done.error().message();
    return *std::move(done);
  }
  // Of `count` versions the code of the n-th is "code n".
  void deploy(std::string_view id, int count) {
    for (int i = 1; i <= count; ++i) put(id, body(fmt::format("code {}", i)));
  }
  Result<Definition> rollback(std::string_view id, std::uint64_t version) {
    return run(catalog_->rollback(idOf(id), version));
  }
  Result<> remove(std::string_view id) { return run(catalog_->remove(idOf(id))); }

  std::uint64_t versionOf(std::string_view id) const {
    const auto found = catalog_->find(id);
    return found ? found->definition.version : 0;
  }
  // The text of main.py as the current version has it.
  std::string codeOf(std::string_view id) {
    const auto bundle = run(catalog_->code(idOf(id), catalog_->find(id)->definition.code_hash));
    return bundle ? bundle->files().at("main.py").bytes : bundle.error().message();
  }
  // "3* c" is version 3, current, and its code is there.
  std::vector<std::string> versionsOf(std::string_view id, std::size_t limit = 1'000,
                                      std::optional<std::uint64_t> before = std::nullopt) {
    const auto page = run(catalog_->versions(idOf(id), limit, before));
    EXPECT_TRUE(page);
    std::vector<std::string> texts;
    for (const VersionInfo& version : page->items) {
      texts.push_back(fmt::format("{}{}{}", version.version, version.current ? "*" : "",
                                  version.code_available ? " c" : ""));
    }
    if (page->more) texts.emplace_back("…");
    return texts;
  }
  std::vector<std::string> listed(std::size_t limit = 100, std::string_view after = "") {
    const auto page = catalog_->list(limit, after);
    std::vector<std::string> ids;
    for (const auto& deployed : page.items) ids.push_back(deployed->definition.id.text());
    if (page.more) ids.emplace_back("…");
    return ids;
  }

  // What the store has of a function.
  store::Usage usage(std::string_view id, std::string space) {
    store::query::GetUsage query;
    query.space = std::move(space);
    return *run(store::ask<store::Usage>(*store_, partitionOf(idOf(id)), std::move(query)));
  }

  ManualClock clock_;
  TemporaryDirectory directory_;
  SystemRandom random_;
  Defaults defaults_;
  FakeCheck check_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<UnsureStore> unsure_;
  std::unique_ptr<Catalog> catalog_;
  std::vector<std::string> told_;
};

TEST_P(CatalogTest, ANewFunctionIsCreatedWithVersionOne) {
  EXPECT_EQ(catalog_->find("cart"), nullptr);
  const Put done = put("cart", body("code"));
  EXPECT_EQ(done.change, Change::Created);
  EXPECT_EQ(done.definition.version, 1U);
  EXPECT_EQ(done.definition.created_at, clock_.now());
  EXPECT_EQ(done.definition.updated_at, clock_.now());
  ASSERT_NE(catalog_->find("cart"), nullptr);
  EXPECT_EQ(catalog_->find("cart")->definition, done.definition);
  EXPECT_EQ(codeOf("cart"), "code");
  EXPECT_THAT(told_, ElementsAre("cart v1"));
}

TEST_P(CatalogTest, OtherCodeIsANewVersion) {
  put("cart", body("one"));
  const Timestamp created = clock_.now();
  clock_.advance(5s);
  const Put done = put("cart", R"({"files":{"main.py":"two"}})");
  EXPECT_EQ(done.change, Change::Updated);
  EXPECT_EQ(done.definition.version, 2U);
  EXPECT_EQ(done.definition.created_at, created);
  EXPECT_EQ(done.definition.updated_at, created + 5s);
  EXPECT_EQ(codeOf("cart"), "two");
  EXPECT_THAT(versionsOf("cart"), ElementsAre("2* c", "1 c"));
}

TEST_P(CatalogTest, AnotherRuntimeOrHandlerIsANewVersionOfTheSameCode) {
  put("cart", body("code"));
  EXPECT_EQ(put("cart", R"({"handler":"main.other"})").definition.version, 2U);
  EXPECT_EQ(put("cart", R"({"runtime":"node"})").definition.version, 3U);
  EXPECT_EQ(codeOf("cart"), "code");
  EXPECT_THAT(check_.asked,
              ElementsAre("1 python main.handle", "2 python main.other", "3 node main.other"));
  EXPECT_EQ(check_.files, 1U) << "the code that is there is looked at again";
  EXPECT_EQ(usage("cart", "code").records, 1U) << "and kept once";
}

TEST_P(CatalogTest, IdenticalCodeIsNoNewVersion) {
  put("cart", body("code"));
  EXPECT_EQ(put("cart", body("code", R"("memory_mb":512)")).definition.version, 1U);
  EXPECT_EQ(put("cart", R"({"env":{"A":"1"}})").definition.version, 1U);
  EXPECT_EQ(check_.asked.size(), 1U) << "what is known to load is not loaded again";
  EXPECT_THAT(versionsOf("cart"), ElementsAre("1* c"));
}

TEST_P(CatalogTest, AnUpdateThatChangesNothingStoresNothing) {
  const Put first = put("cart", body("code", R"("env":{"A":"1","B":"2"})"));
  clock_.advance(5s);
  const Put second = put("cart", body("code", R"("env":{"B":"2","A":"1"})"));
  EXPECT_EQ(second.change, Change::None);
  EXPECT_EQ(second.definition, first.definition);
  EXPECT_EQ(put("cart", "{}").change, Change::None);
  EXPECT_THAT(told_, ElementsAre("cart v1"));
  EXPECT_EQ(catalog_->find("cart")->record_version, 1U);
}

TEST_P(CatalogTest, CodeThatIsRefusedLeavesNoTrace) {
  put("cart", body("good"));
  check_.refusal = Error(Code::Unprocessable, "main.py:1: invalid syntax");
  const auto refused = tryPut("cart", body("bad", R"("memory_mb":1)"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Unprocessable);
  EXPECT_EQ(refused.error().message(), "main.py:1: invalid syntax");
  EXPECT_FALSE(tryPut("other", body("bad")));
  EXPECT_EQ(codeOf("cart"), "good");
  EXPECT_EQ(catalog_->find("cart")->definition.memory_mb, 256U);
  EXPECT_THAT(listed(), ElementsAre("cart"));
  EXPECT_THAT(told_, ElementsAre("cart v1"));
  reopen();
  EXPECT_THAT(listed(), ElementsAre("cart"));
  EXPECT_EQ(codeOf("cart"), "good");
}

TEST_P(CatalogTest, ABodyThatIsWrongIsRefusedBeforeItsCodeIsLookedAt) {
  for (const std::string text :
       {"", "[]", "{}", R"({"runtime":"python"})", R"({"runtime":"python","files":{"../x":""}})",
        R"({"runtime":"python","archive_base64":"???"})",
        R"({"runtime":"python","files":{"a":""},"nonsense":1})"}) {
    const auto refused = tryPut("cart", text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().outcome(), Outcome::NotApplied);
  }
  EXPECT_THAT(check_.asked, IsEmpty());
  EXPECT_EQ(usage("cart", "function").records, 0U);
}

TEST_P(CatalogTest, EverythingIsThereAfterARestart) {
  put("cart", body("one", R"("timeout_ms":7,"state_config":{"max_keys":3})"));
  put("cart", body("two"));
  put("chat", body("hello"));
  const auto before = catalog_->find("cart");
  reopen();
  ASSERT_NE(catalog_->find("cart"), nullptr);
  EXPECT_EQ(*catalog_->find("cart"), *before);
  EXPECT_THAT(listed(), ElementsAre("cart", "chat"));
  EXPECT_EQ(codeOf("cart"), "two");
  EXPECT_THAT(versionsOf("cart"), ElementsAre("2* c", "1 c"));
  EXPECT_EQ(put("cart", body("three")).definition.version, 3U);
}

TEST_P(CatalogTest, AServersNewDefaultsApplyAfterARestart) {
  put("cart", body("code"));
  defaults_.state.max_keys = 7;
  reopen();
  EXPECT_EQ(catalog_->find("cart")->definition.state.max_keys, 7U);
  EXPECT_EQ(put("cart", body("code")).change, Change::None) << "nobody said anything";
}

TEST_P(CatalogTest, CodeOfManyPiecesComesBackWhole) {
  std::string large;
  for (int i = 0; large.size() < 1'500'000; ++i) large += fmt::format("# {} ", i * 7919);
  put("cart", body(large));
  EXPECT_EQ(usage("cart", "code").records, 3U);
  reopen();
  EXPECT_EQ(codeOf("cart"), large);
}

TEST_P(CatalogTest, CodeThatIsNotThereIsNotFound) {
  put("cart", body("code"));
  const auto none = run(catalog_->code(idOf("cart"), std::string(64, '0')));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::NotFound);
}

TEST_P(CatalogTest, DamagedCodeIsNotHandedOut) {
  put("cart", body("code"));
  const std::string hash = catalog_->find("cart")->definition.code_hash;
  Bundle other;
  ASSERT_TRUE(other.add("main.py", "evil", Bundle::Mode::Plain));
  store::Batch batch;
  addCode(batch, hash, split(other.encode()));
  ASSERT_TRUE(
      run(store_->commit(partitionOf(idOf("cart")), std::nullopt, std::move(batch)).done()));
  const auto damaged = run(catalog_->code(idOf("cart"), hash));
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), Code::Internal);
  EXPECT_THAT(damaged.error().message(), HasSubstr("cart"));
}

// ---- versions and rollback

TEST_P(CatalogTest, ARollbackBringsCodeRuntimeAndHandlerBackAndNothingElse) {
  put("cart", body("one", R"("memory_mb":100)"));
  put("cart",
      R"({"runtime":"node","handler":"app.run","files":{"main.py":"two"},"memory_mb":200})");
  clock_.advance(1s);
  const auto back = rollback("cart", 1);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->version, 1U);
  EXPECT_EQ(back->runtime, Runtime::Python);
  EXPECT_EQ(back->handler, "main.handle");
  EXPECT_EQ(back->concurrency, 1U);
  EXPECT_EQ(back->memory_mb, 200U);
  EXPECT_EQ(back->updated_at, clock_.now());
  EXPECT_EQ(codeOf("cart"), "one");
  EXPECT_EQ(catalog_->find("cart")->definition, *back);
  EXPECT_THAT(versionsOf("cart"), ElementsAre("2 c", "1* c"));
  EXPECT_THAT(told_, ElementsAre("cart v1", "cart v2", "cart v1"));
  ASSERT_TRUE(rollback("cart", 2));
  EXPECT_EQ(catalog_->find("cart")->definition.handler, "app.run");
  EXPECT_EQ(codeOf("cart"), "two");
}

TEST_P(CatalogTest, NumbersOfVersionsAreNeverUsedAgain) {
  deploy("cart", 3);
  ASSERT_TRUE(rollback("cart", 1));
  reopen();
  EXPECT_EQ(versionOf("cart"), 1U);
  EXPECT_EQ(put("cart", body("code 2")).definition.version, 4U)
      << "also if the code was there before";
  EXPECT_THAT(versionsOf("cart"), ElementsAre("4* c", "3 c", "2 c", "1 c"));
}

TEST_P(CatalogTest, ARollbackToWhatIsThereChangesNothing) {
  deploy("cart", 2);
  const auto before = catalog_->find("cart");
  clock_.advance(1s);
  EXPECT_EQ(*rollback("cart", 2), before->definition);
  EXPECT_EQ(catalog_->find("cart"), before);
}

TEST_P(CatalogTest, ARollbackToWhatNeverWasIsNotFound) {
  put("cart", body("code"));
  for (const std::uint64_t version : {0UL, 2UL, ~0UL}) {
    const auto refused = rollback("cart", version);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::NotFound);
  }
  EXPECT_EQ(rollback("chat", 1).error().code(), Code::NotFound);
}

TEST_P(CatalogTest, TheCodeOfTheNewestTwentyVersionsIsKept) {
  deploy("cart", 20);
  EXPECT_EQ(usage("cart", "code").records, 20U);
  deploy("cart", 0);
  put("cart", body("code 21"));
  put("cart", body("code 22"));
  EXPECT_EQ(usage("cart", "code").records, 20U);
  const auto versions = versionsOf("cart");
  ASSERT_EQ(versions.size(), 22U);
  EXPECT_EQ(versions[0], "22* c");
  EXPECT_EQ(versions[19], "3 c");
  EXPECT_EQ(versions[20], "2") << "it is still listed";
  EXPECT_EQ(versions[21], "1");

  const auto refused = rollback("cart", 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Conflict);
  EXPECT_THAT(refused.error().message(), HasSubstr("20"));
  ASSERT_TRUE(rollback("cart", 3));
  EXPECT_EQ(codeOf("cart"), "code 3");
}

TEST_P(CatalogTest, CodeThatANewerVersionHasTooIsKeptWithIt) {
  put("cart", body("old"));
  put("cart", body("other"));
  put("cart", body("old"));
  for (int i = 4; i <= 22; ++i) put("cart", body(fmt::format("code {}", i)));
  EXPECT_THAT(versionsOf("cart", 3, 4), ElementsAre("3 c", "2", "1"));
  ASSERT_TRUE(rollback("cart", 3));
  EXPECT_EQ(codeOf("cart"), "old");
  EXPECT_EQ(usage("cart", "code").records, 20U);
  put("cart", body("code 23"));
  EXPECT_EQ(usage("cart", "code").records, 20U);
  EXPECT_EQ(rollback("cart", 3).error().code(), Code::Conflict);
}

TEST_P(CatalogTest, TheCodeThatRunsIsKeptHoweverOftenOnlyTheHandlerChanges) {
  put("cart", body("code"));
  for (int i = 0; i < 30; ++i) put("cart", fmt::format(R"({{"handler":"main.h{}"}})", i));
  EXPECT_EQ(versionOf("cart"), 31U);
  EXPECT_EQ(codeOf("cart"), "code");
  EXPECT_EQ(usage("cart", "code").records, 1U);
}

TEST_P(CatalogTest, VersionsComeInPagesNewestFirst) {
  deploy("cart", 5);
  EXPECT_THAT(versionsOf("cart", 2), ElementsAre("5* c", "4 c", "…"));
  EXPECT_THAT(versionsOf("cart", 2, 4), ElementsAre("3 c", "2 c", "…"));
  EXPECT_THAT(versionsOf("cart", 2, 2), ElementsAre("1 c"));
  EXPECT_THAT(versionsOf("cart", 2, 1), IsEmpty());
  EXPECT_THAT(versionsOf("cart", 2, 0), IsEmpty());
  EXPECT_THAT(versionsOf("cart", 1, 100), ElementsAre("5* c", "…"));
  EXPECT_EQ(run(catalog_->versions(idOf("chat"), 1, std::nullopt)).error().code(), Code::NotFound);
}

TEST_P(CatalogTest, AVersionTellsWhatItIs) {
  put("cart", body("code", R"("handler":"app.\"run")"));
  const auto page = run(catalog_->versions(idOf("cart"), 1, std::nullopt));
  EXPECT_EQ(toJson(page->items.at(0)),
            fmt::format(R"({{"version":1,"code_hash":"{}","runtime":"python",)"
                        R"("handler":"app.\"run","created_at":"2023-11-14T22:13:20.000Z",)"
                        R"("current":true,"code_available":true}})",
                        catalog_->find("cart")->definition.code_hash));
}

// ---- removal

TEST_P(CatalogTest, WhatIsRemovedIsGoneAndBeginsAnewWithVersionOne) {
  deploy("cart", 3);
  ASSERT_TRUE(remove("cart"));
  EXPECT_EQ(catalog_->find("cart"), nullptr);
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_EQ(usage("cart", "code").records, 0U);
  EXPECT_EQ(remove("cart").error().code(), Code::NotFound);
  EXPECT_EQ(told_.back(), "cart gone");
  reopen();
  EXPECT_EQ(catalog_->find("cart"), nullptr);
  const Put again = put("cart", body("code 9"));
  EXPECT_EQ(again.change, Change::Created);
  EXPECT_EQ(again.definition.version, 1U);
  EXPECT_THAT(versionsOf("cart"), ElementsAre("1* c"));
}

TEST_P(CatalogTest, TwoLivesOfOneNameCanBeToldApart) {
  put("cart", body("code"));
  const std::string first = catalog_->find("cart")->incarnation;
  put("cart", body("code 2"));
  EXPECT_EQ(catalog_->find("cart")->incarnation, first);
  ASSERT_TRUE(remove("cart"));
  put("cart", body("code"));
  EXPECT_NE(catalog_->find("cart")->incarnation, first);
}

TEST_P(CatalogTest, FunctionsAreListedById) {
  for (const std::string_view id : {"b", "a", "d", "c", "B"}) put(id, body("code"));
  EXPECT_THAT(listed(), ElementsAre("B", "a", "b", "c", "d"));
  EXPECT_THAT(listed(2), ElementsAre("B", "a", "…"));
  EXPECT_THAT(listed(2, "a"), ElementsAre("b", "c", "…"));
  EXPECT_THAT(listed(2, "c"), ElementsAre("d"));
  EXPECT_THAT(listed(5, "aa"), ElementsAre("b", "c", "d"));
}

TEST_P(CatalogTest, AnEntryOfTheDirectoryWithoutAFunctionIsPassedOver) {
  put("cart", body("code"));
  store::Batch batch;
  batch.listings.push_back({.directory = "functions", .key = "ghost", .value = ""});
  ASSERT_TRUE(
      run(store_->commit(partitionOf(idOf("ghost")), std::nullopt, std::move(batch)).done()));
  reopen();
  EXPECT_THAT(listed(), ElementsAre("cart"));
}

TEST_P(CatalogTest, AFunctionThatCannotBeReadIsNotForgotten) {
  put("cart", body("code"));
  store::Batch batch;
  store::op::Put damage;
  damage.space = "function";
  damage.key = "definition";
  damage.value = "{";
  batch.operations.emplace_back(std::move(damage));
  ASSERT_TRUE(
      run(store_->commit(partitionOf(idOf("cart")), std::nullopt, std::move(batch)).done()));
  const auto loaded = run(catalog_->load());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(), HasSubstr("cart"));
  EXPECT_NE(catalog_->find("cart"), nullptr) << "what was known stays";
}

// ---- others who change the same

class SharedCatalogTest : public CatalogTest {
 protected:
  // As another process.
  Catalog other_{*store_, random_, defaults_};
  FakeCheck other_check_;

  void otherPut(std::string text) {
    const auto done = run(other_.put(idOf("cart"), std::move(text), other_check_));
    EXPECT_TRUE(done) << done.error().message();
  }
};

TEST_P(SharedCatalogTest, AChangeThatIsOvertakenIsMadeOnTopOfTheOther) {
  put("cart", body("one"));
  check_.meanwhile = [&] { otherPut(R"({"memory_mb":512})"); };
  const Put done = put("cart", body("two"));
  EXPECT_EQ(done.definition.version, 2U);
  EXPECT_EQ(done.definition.memory_mb, 512U);
  EXPECT_EQ(check_.asked.size(), 2U) << "what was accepted is not asked again";
}

TEST_P(SharedCatalogTest, TwoNewVersionsAtOnceGetTwoNumbers) {
  put("cart", body("one"));
  check_.meanwhile = [&] { otherPut(body("two")); };
  EXPECT_EQ(put("cart", body("three")).definition.version, 3U);
  EXPECT_EQ(codeOf("cart"), "three");
  EXPECT_THAT(versionsOf("cart"), ElementsAre("3* c", "2 c", "1 c"));
}

TEST_P(SharedCatalogTest, TheSecondToCreateUpdates) {
  check_.meanwhile = [&] { otherPut(body("one", R"("memory_mb":512)")); };
  const Put done = put("cart", body("two"));
  EXPECT_EQ(done.change, Change::Updated);
  EXPECT_EQ(done.definition.version, 2U);
  EXPECT_EQ(done.definition.memory_mb, 512U);
}

TEST_P(SharedCatalogTest, AChangeOfARemovedFunctionDoesNotReachTheNextOfThatName) {
  put("cart", body("one", R"("memory_mb":100)"));
  // In the store the new one has the same version as the old had.
  check_.meanwhile = [&] {
    ASSERT_TRUE(run(other_.remove(idOf("cart"))));
    otherPut(body("new", R"("memory_mb":200)"));
  };
  const Put done = put("cart", R"({"handler":"main.other"})");
  EXPECT_EQ(done.definition.memory_mb, 200U);
  EXPECT_EQ(done.definition.version, 2U);
  EXPECT_EQ(codeOf("cart"), "new");
}

TEST_P(SharedCatalogTest, AnUpdateOfWhatWasRemovedMeanwhileIsACreationWithoutCode) {
  put("cart", body("one"));
  check_.meanwhile = [&] { ASSERT_TRUE(run(other_.remove(idOf("cart")))); };
  const auto refused = tryPut("cart", R"({"handler":"main.other"})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::InvalidArgument);
}

TEST_P(SharedCatalogTest, WhoeverIsAlwaysOvertakenIsToldInTheEnd) {
  put("cart", body("one"));
  int round = 0;
  std::function<void()> again = [&] {
    otherPut(fmt::format(R"({{"handler":"main.h{}"}})", ++round));
    check_.meanwhile = again;
  };
  check_.meanwhile = again;
  const auto refused = tryPut("cart", R"({"files":{"main.py":"two"}})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Conflict);
  EXPECT_EQ(round, 10);
}

TEST_P(SharedCatalogTest, WhatOthersDidIsSeenByARefresh) {
  otherPut(body("one"));
  EXPECT_EQ(catalog_->find("cart"), nullptr);
  ASSERT_TRUE(run(catalog_->refresh(idOf("cart"))));
  EXPECT_EQ(versionOf("cart"), 1U);
  otherPut(body("two"));
  ASSERT_TRUE(run(catalog_->refresh(idOf("cart"))));
  ASSERT_TRUE(run(catalog_->refresh(idOf("cart"))));
  ASSERT_TRUE(run(other_.remove(idOf("cart"))));
  ASSERT_TRUE(run(catalog_->refresh(idOf("cart"))));
  EXPECT_EQ(catalog_->find("cart"), nullptr);
  EXPECT_THAT(told_, ElementsAre("cart v1", "cart v2", "cart gone"));
}

TEST_P(SharedCatalogTest, LoadingAgainTellsOfWhatIsDifferent) {
  put("a", body("code"));
  put("b", body("code"));
  otherPut(body("code"));
  ASSERT_TRUE(run(other_.remove(idOf("a"))));
  told_.clear();
  const auto b = catalog_->find("b");
  ASSERT_TRUE(run(catalog_->load()));
  EXPECT_THAT(told_, ElementsAre("a gone", "cart v1"));
  EXPECT_EQ(catalog_->find("b"), b);
}

// ---- when things go wrong

TEST_P(CatalogTest, WhatMayHaveHappenedIsLookedUp) {
  put("cart", body("one"));
  unsure_->next_failure = Error(Code::Unavailable, "no answer", Outcome::Unknown);
  const auto unsure = tryPut("cart", body("two"));
  ASSERT_FALSE(unsure);
  EXPECT_EQ(unsure.error().outcome(), Outcome::Unknown);
  EXPECT_EQ(versionOf("cart"), 2U);
  EXPECT_THAT(told_, ElementsAre("cart v1", "cart v2"));
}

TEST_P(CatalogTest, WhatDidNotHappenIsNotPublished) {
  put("cart", body("one"));
  unsure_->next_failure = Error(Code::InsufficientStorage, "full");  // whatever the store then has
  EXPECT_EQ(tryPut("cart", body("two")).error().code(), Code::InsufficientStorage);
  EXPECT_EQ(versionOf("cart"), 1U);
}

TEST_P(CatalogTest, WhoeverLeavesWhileItIsStoredDoesNotKeepItFromBeingSeen) {
  unsure_->hold_next = true;
  asio::io_context io(1);
  asio::cancellation_signal cancel;
  bool ended = false;
  asio::co_spawn(
      io, catalog_->put(idOf("cart"), body("code"), check_),
      asio::bind_cancellation_slot(
          cancel.slot(), [&](const std::exception_ptr&, const Result<Put>&) { ended = true; }));
  while (!unsure_->held) io.run_one();
  cancel.emit(asio::cancellation_type::terminal);
  unsure_->held->apply(unsure_->held_applied);
  io.poll();
  EXPECT_FALSE(ended);
  unsure_->held->finish({});
  io.run();
  EXPECT_TRUE(ended);
  EXPECT_EQ(versionOf("cart"), 1U);
  EXPECT_EQ(put("cart", body("next")).definition.version, 2U) << "and others go on";
}

TEST_P(CatalogTest, ChangesFromManyThreadsAreAllThereAndToldInOrder) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 10;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  std::atomic<bool> done = false;
  std::thread reader([&] {
    std::uint64_t seen = 0;
    while (!done) {
      const auto found = catalog_->find("shared");
      if (!found) continue;
      if (found->definition.version < seen) ++failed;
      seen = found->definition.version;
    }
  });
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      FakeCheck check;
      for (int round = 0; round < kRounds; ++round) {
        const std::string text = body(fmt::format("code {} {}", thread, round));
        const auto own = run(catalog_->put(idOf(fmt::format("t{}", thread)), text, check));
        const auto shared = run(catalog_->put(idOf("shared"), text, check));
        if (!own || (!shared && shared.error().code() != Code::Conflict)) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  EXPECT_EQ(failed, 0);
  for (int thread = 0; thread < kThreads; ++thread) {
    EXPECT_EQ(versionOf(fmt::format("t{}", thread)), static_cast<std::uint64_t>(kRounds));
  }
  const auto stored = run(readFunction(*store_, idOf("shared"), defaults_));
  EXPECT_EQ(**stored, *catalog_->find("shared"));
  // Versions of each function were told in their order.
  std::map<std::string, int> last;
  for (const std::string& text : told_) {
    const std::size_t space = text.find(" v");
    const int version = std::stoi(text.substr(space + 2));
    EXPECT_EQ(version, ++last[text.substr(0, space)]);
  }
}

std::string nameOf(const ::testing::TestParamInfo<Backend>& backend) {
  return backend.param == Backend::Memory ? "Memory" : "Sqlite";
}

INSTANTIATE_TEST_SUITE_P(Stores, CatalogTest, ::testing::Values(Backend::Memory, Backend::Sqlite),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Stores, SharedCatalogTest,
                         ::testing::Values(Backend::Memory, Backend::Sqlite), nameOf);

}  // namespace
}  // namespace nimbus::function
