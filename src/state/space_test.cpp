// A session's state in memory (Space) and in the store (applyInStore) are two ways to the same
// answers: whatever is done to both, each answers as the other, and what the one hands to the store
// is what it holds itself. Versions are each one's own: a key that is new may get a higher one here
// than there, but no key gets one twice.
//
//   NIMBUS_SEED=n        begins with that schedule
//   NIMBUS_SCHEDULES=n   how many

#include "state/space.h"

#include "base/random.h"
#include "base/testing/manual_clock.h"
#include "state/stored.h"
#include "store/memory/memory_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <set>

namespace nimbus::state {
namespace {

namespace asio = boost::asio;
using Kind = Operation::Kind;

const store::Partition kDirect("session", {"f", "direct"});
const store::Partition kThroughSpace("session", {"f", "space"});

template <typename T>
const T& pick(SeededRandom& random, const std::vector<T>& from) {
  return from[random.below(from.size())];
}

Operation someOperation(SeededRandom& random) {
  static const std::vector<std::string> kKeys = {"a", "b", "c", "ä", "d*", "", "bad\n"};
  static const std::vector<std::string> kValues = {"1",
                                                   "-1",
                                                   "9223372036854775807",
                                                   "\"text\"",
                                                   "[1, 2]",
                                                   "{}",
                                                   "01",
                                                   "nonsense",
                                                   "1.5",
                                                   "\"" + std::string(60, 'x') + "\""};
  static const std::vector<std::optional<double>> kTtls = {std::nullopt, 0.0,   -1.0, 0.5,
                                                           2.0,          100.0, -2.0};
  Operation operation;
  operation.kind = static_cast<Kind>(random.below(15));
  const auto key = [&] {
    return kKeys[random.below(20) == 0 ? random.below(kKeys.size()) : random.below(5)];
  };
  operation.key = key();
  operation.ttl = pick(random, kTtls);
  operation.delta = static_cast<std::int64_t>(random.below(7)) - 3;
  if (random.below(5) == 0) operation.delta = random.below(2) == 0 ? INT64_MAX : -INT64_MAX;
  operation.pattern = pick(random, std::vector<std::string>{"*", "?", "[ab]", "d\\*", "x"});
  const bool many = operation.kind == Kind::SetMany || operation.kind == Kind::GetMany;
  if (many) {
    for (std::uint64_t i = random.below(4); i > 0; --i) operation.keys.push_back(key());
  }
  if (operation.kind == Kind::SetMany) {
    for (std::size_t i = 0; i < operation.keys.size(); ++i)
      operation.values.push_back(pick(random, kValues));
  }
  if (operation.kind == Kind::Set || operation.kind == Kind::SetWithVersion) {
    if (random.below(30) != 0) operation.values.push_back(pick(random, kValues));
  }
  return operation;
}

// Whatever an operation answers, but for versions, as text; parts that its kind does not use are
// left out.
std::string shown(Kind kind, const Result<Answer>& answer) {
  if (!answer) return std::string(codeName(answer.error().code()));
  switch (kind) {
    case Kind::Get:
    case Kind::GetWithVersion:
    case Kind::GetMany: {
      std::set<std::string> found;
      for (const Found& one : answer->found) found.insert(one.key + "=" + one.value);
      return fmt::format("{}", fmt::join(found, " "));
    }
    case Kind::Incr:
    case Kind::Decr:
    case Kind::Clear:
      return fmt::format("{}", answer->number);
    case Kind::Delete:
    case Kind::Exists:
      return answer->flag ? "true" : "false";
    case Kind::Keys:
      return fmt::format("{}", fmt::join(answer->keys, " "));
    case Kind::Ttl:
      return fmt::format("{}", answer->ttl);
    case Kind::SetMany:
      return fmt::format("{} written", answer->versions.size());
    default:
      return "written";
  }
}

// The versions that one of the two gives and shows.
class Versions {
 public:
  Version of(const std::string& key) const {
    const auto found = now_.find(key);
    return found != now_.end() ? found->second : 0;
  }

  // Each write of a key gives it a version it has never had; reads show the one it has.
  void note(const Operation& operation, const Result<Answer>& answer) {
    if (!answer) {
      if (answer.error().code() == Code::VersionConflict) {
        EXPECT_EQ(answer.error().field("current_version", -1),
                  static_cast<std::int64_t>(of(operation.key)));
      }
      return;
    }
    for (const Found& one : answer->found) EXPECT_EQ(one.version, of(one.key)) << one.key;
    switch (operation.kind) {
      case Kind::SetMany:
        for (std::size_t i = 0; i < operation.keys.size(); ++i) {
          give(operation.keys[i], answer->versions[i]);
        }
        break;
      case Kind::Delete:
        now_.erase(operation.key);
        break;
      case Kind::Clear:
        now_.clear();
        break;
      default:
        if (isWrite(operation.kind)) give(operation.key, answer->version);
        break;
    }
  }

  void keepOnly(const Space& space) {
    std::erase_if(now_, [&](const auto& one) { return !space.entries().contains(one.first); });
  }

  Version highestOfWhatIsGone() const {
    Version highest = 0;
    for (const auto& [key, version] : highest_) {
      if (!now_.contains(key)) highest = std::max(highest, version);
    }
    return highest;
  }

 private:
  void give(const std::string& key, Version version) {
    EXPECT_GT(version, highest_[key]) << key;
    highest_[key] = version;
    now_[key] = version;
  }

  std::map<std::string, Version> now_;
  std::map<std::string, Version> highest_;
};

class SpacePropertyTest : public ::testing::Test {
 protected:
  template <typename T>
  T finish(Task<T> task) {
    auto result = asio::co_spawn(context_, std::move(task), asio::use_future);
    context_.restart();
    context_.run();
    return result.get();
  }

  // What changed becomes a commit, as after a call.
  void commit(Space& space) {
    const Changes changes = space.takeChanges();
    if (changes.empty()) return;
    store::Batch batch;
    appendTo(batch, changes, space);
    store::PendingCommit pending = store_.commit(kThroughSpace, std::nullopt, std::move(batch));
    const auto applied = finish(pending.done());
    ASSERT_TRUE(applied) << applied.error().message();
  }

  // The way of a call: the instance works on a copy, and its changes come back.
  void acceptFrom(Space& space, Space& copy, const Rules& rules) {
    const Changes changes = copy.takeChanges();
    const Result<> accepted = space.accept(changes, rules, time_.now());
    ASSERT_TRUE(accepted) << accepted.error().message();
    if (changes.empty()) return;
    store::Batch batch;
    appendTo(batch, changes, space);
    store::PendingCommit pending = store_.commit(kThroughSpace, std::nullopt, std::move(batch));
    const auto applied = finish(pending.done());
    ASSERT_TRUE(applied) << applied.error().message();
  }

  Space loaded(const store::Partition& partition) {
    auto answers = finish(store_.read(partition, loadQueries()));
    return *finish(loadSpace(store_, partition, *std::move(answers)));
  }

  static std::string textOf(const Space& space) {
    std::string text = fmt::format("{} bytes", space.bytes());
    for (const auto& [key, entry] : space.entries()) {
      text += fmt::format("\n{}={}@{} until {}", key, entry.value, entry.version,
                          entry.expires_at ? entry.expires_at->time_since_epoch().count() : 0);
    }
    return text;
  }

  void runSchedule(std::uint64_t seed) {
    SeededRandom random(seed);
    for (const store::Partition& partition : {kDirect, kThroughSpace}) {
      store::Batch batch;
      batch.operations.emplace_back(store::op::DropPartition{});
      store::PendingCommit dropped = store_.commit(partition, std::nullopt, std::move(batch));
      ASSERT_TRUE(finish(dropped.done()));
    }
    Rules rules;
    rules.default_ttl = random.below(2) == 0 ? std::optional(Millis(3000)) : std::nullopt;
    rules.max_value_bytes = random.below(2) == 0 ? 50 : 0;
    rules.max_keys = random.below(2) == 0 ? 3 : 0;
    rules.max_total_bytes = random.below(2) == 0 ? 40 : 0;
    rules.enabled = random.below(20) != 0;
    Space space = loaded(kThroughSpace);
    Versions here;
    Versions there;
    for (int call = 0; call < 20 && !HasFailure(); ++call) {
      space.prune(time_.now());
      Space copy = space;
      const bool through_instance = random.below(2) == 0;
      Space& worked_on = through_instance ? copy : space;
      for (std::uint64_t i = random.below(6); i > 0; --i) {
        Operation operation = someOperation(random);
        Operation same = operation;
        if (operation.kind == Kind::SetWithVersion) {
          const std::uint64_t choice = random.below(4);
          if (choice == 0) operation.version = same.version = 0;
          if (choice == 1) operation.version = same.version = 1'000'000;
          if (choice == 2) {
            operation.version = here.of(operation.key);
            same.version = there.of(operation.key);
          }
        }
        const Result<Answer> in_memory = worked_on.apply(operation, rules, time_.now());
        const Result<Answer> in_store = finish(applyInStore(store_, kDirect, same, rules));
        ASSERT_EQ(shown(operation.kind, in_memory), shown(operation.kind, in_store))
            << nameOf(operation.kind) << " of " << operation.key << "\n"
            << textOf(space);
        here.note(operation, in_memory);
        there.note(same, in_store);
        if (HasFailure()) return;
      }
      if (through_instance) {
        acceptFrom(space, copy, rules);
      } else {
        commit(space);
      }
      if (HasFatalFailure()) return;
      if (random.below(3) == 0) time_.advance(Millis(random.below(1500)));
      if (random.below(3) == 0) ASSERT_TRUE(finish(store_.sweep(Millis(100))));
      space.prune(time_.now());
      here.keepOnly(space);
      there.keepOnly(space);
      const Space stored = loaded(kThroughSpace);
      ASSERT_EQ(textOf(space), textOf(stored)) << "what was committed is what is in memory";
      EXPECT_GE(space.floor(), here.highestOfWhatIsGone());
      EXPECT_GE(stored.floor(), here.highestOfWhatIsGone());
      if (random.below(5) == 0) space = stored;
    }
  }

  ManualClock time_;
  store::memory::MemoryStore store_{time_};
  asio::io_context context_;
};

std::optional<std::uint64_t> fromEnvironment(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::optional(std::strtoull(text, nullptr, 10)) : std::nullopt;
}

TEST_F(SpacePropertyTest, MemoryAndStoreAnswerAlike) {
  const std::uint64_t first =
      fromEnvironment("NIMBUS_SEED").value_or(SystemRandom().next() % 1'000'000'000);
  const std::uint64_t many = fromEnvironment("NIMBUS_SCHEDULES").value_or(100);
  std::printf("NIMBUS_SEED=%llu\n", static_cast<unsigned long long>(first));
  for (std::uint64_t seed = first; seed < first + many && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("NIMBUS_SEED={} NIMBUS_SCHEDULES=1", seed));
    runSchedule(seed);
  }
}

TEST(SpaceTest, WhatAnInstanceMayNotSendIsRefusedWhole) {
  const Timestamp now{Millis(1000)};
  Rules rules;
  rules.max_keys = 2;
  Space space(4);
  space.load("a", {"1", 7, std::nullopt, std::nullopt});
  const auto refuses = [&](const Changes& changes) {
    Space copy = space;
    const Result<> accepted = copy.accept(changes, rules, now);
    EXPECT_EQ(copy.entries().size(), 1U);
    EXPECT_EQ(copy.entries().begin()->second.version, 7U);
    return !accepted.has_value();
  };
  const Changes::Write good{"b", "2", 5, std::nullopt};
  EXPECT_TRUE(refuses({.writes = {good, {"a", "2", 7, std::nullopt}}})) << "a version it has";
  EXPECT_TRUE(refuses({.writes = {{"b", "2", 4, std::nullopt}}})) << "a version below the floor";
  EXPECT_TRUE(refuses({.writes = {good, good}})) << "a key twice";
  EXPECT_TRUE(refuses({.writes = {good}, .removals = {{"b", 5}}})) << "a key in two lists";
  EXPECT_TRUE(refuses({.writes = {{"b", "{", 5, std::nullopt}}})) << "no JSON";
  EXPECT_TRUE(refuses({.writes = {good, {"c", "2", 5, std::nullopt}}})) << "too many keys";
  EXPECT_TRUE(refuses({.touches = {{"b", 5, std::nullopt}}})) << "nothing to touch";
  EXPECT_TRUE(refuses({.writes = {{"", "2", 5, std::nullopt}}})) << "no key";
  Space copy = space;
  EXPECT_TRUE(copy.accept({.writes = {good}}, rules, now));
  EXPECT_EQ(copy.entries().size(), 2U);
}

}  // namespace
}  // namespace nimbus::state
