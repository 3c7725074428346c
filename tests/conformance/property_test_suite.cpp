// Random schedules against a model that predicts every answer, and random threads against what must
// hold in any history.
//
//   NIMBUS_SEED=n        begins with that schedule
//   NIMBUS_SCHEDULES=n   how many, however long they take
//
// The program schedules_tests, which is optimised, runs thousands. Among the other suites, which
// are built for the sanitizers, there are as many as fit into a while, and never fewer than some.

#include "generator.h"
#include "model.h"
#include "suites.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace nimbus::store::conformance {
namespace {

#ifdef NIMBUS_ONLY_SCHEDULES
constexpr std::uint64_t kAtLeast = 4000;
#else
constexpr std::uint64_t kAtLeast = 200;
#endif
constexpr std::uint64_t kAtMost = 4000;
constexpr std::chrono::seconds kAWhile(15);
constexpr std::size_t kClients = 3;

std::optional<std::uint64_t> fromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::stoull(text);
}

std::uint64_t firstSeed() {
  return fromEnvironment("NIMBUS_SEED").value_or(SystemRandom().next() % 1'000'000'000);
}

// One run: some clients, each with a partition of its own, commit in bursts without waiting; after
// each burst every answer is compared, in the order of the commits, and now and then everything is
// read. The clock moves only between bursts, so that it is known when each commit happened.
class Schedule {
 public:
  // What a schedule does to the world around it.
  struct World {
    std::function<void(Millis)> advance;
    std::function<bool()> reopen;
    std::function<Store&()> store;
  };

  Schedule(std::uint64_t seed, World world) : random_(seed), world_(std::move(world)) {
    for (std::size_t i = 0; i < kClients; ++i) {
      const std::string name = std::to_string(seed) + "-" + std::to_string(i);
      sites_.push_back(std::make_unique<Site>(world_.store(), name, random_));
    }
  }

  // What went wrong first, with what came before it.
  std::string run() {
    try {
      runAll();
    } catch (const std::exception& failure) {
      if (wrong_.empty()) wrong_ = failure.what();
    }
    if (wrong_.empty()) return {};
    std::string out = wrong_ + "\nafter:";
    for (const auto& step : history_) out += "\n" + step();
    return out;
  }

 private:
  void runAll() {
    for (int burst = 0; burst < 10 && wrong_.empty(); ++burst) {
      commitBurst();
      if (random_.below(3) == 0) readAll();
      for (int i = 0; i < 3; ++i) readSome();
      moveOn();
    }
    readAll();
    for (const auto& site : sites_) site->client.commit(op::DropPartition{});
  }

  struct Site {
    Site(Store& store, const std::string& name, Random& random)
        : client(store, Partition("property", {name})), generator(random, name) {}

    Client client;
    Generator generator;
  };
  struct Commit {
    Site& site;
    Batch batch;
    std::optional<Fence> fence;
    PendingCommit pending;
  };

  Site& anySite() { return *sites_[random_.below(sites_.size())]; }
  Timestamp now() { return world_.store().now(); }

  void commitBurst() {
    std::vector<Commit> commits;
    for (std::uint64_t left = 1 + random_.below(8); left > 0; --left) {
      Site& site = anySite();
      const ModelPartition& known = model_.at(site.client.partition());
      Batch batch = site.generator.batch(known, now());
      std::optional<Fence> fence = site.generator.fence(known);
      PendingCommit pending = site.client.begin(batch, fence);
      commits.push_back({site, std::move(batch), std::move(fence), std::move(pending)});
    }
    for (Commit& commit : commits) {
      const Result<Applied> answered = commit.site.client.wait(std::move(commit.pending));
      const Partition& partition = commit.site.client.partition();
      const std::string difference =
          model_.commit(partition, commit.fence, commit.batch, now(), answered);
      compare(partition, difference,
              [batch = std::move(commit.batch), fenced = commit.fence.has_value()] {
                return text(batch) + (fenced ? "\n  with a fence" : "");
              });
    }
  }

  void readSome() {
    Site& site = anySite();
    ask(site, {site.generator.query(model_.at(site.client.partition()), now())});
  }

  void readAll() {
    Names names;
    names.collect(Generator::everyName());
    for (const auto& site : sites_) ask(*site, everything(names));
    for (const auto& site : sites_) {
      const std::string& own = site->generator.names();
      const auto page = site->client.tryDirectory("d", "", own, kMaxPage);
      compare(site->client.partition(), model_.readDirectory("d", "", own, kMaxPage, page),
              [] { return "directory"; });
    }
  }

  void ask(Site& site, const std::vector<Query>& queries) {
    const Partition& partition = site.client.partition();
    const std::vector<Answer> answers = site.client.read(queries);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      compare(partition, model_.read(partition, queries[i], now(), answers.at(i)),
              [kind = queries[i].index()] { return "query of kind " + std::to_string(kind); });
    }
  }

  void moveOn() {
    Client& client = sites_.front()->client;
    if (random_.below(3) != 0) world_.advance(Millis(random_.below(4)));
    if (random_.below(12) == 0) world_.advance(kSweptBy);
    if (random_.below(4) == 0) client.sweep();
    if (random_.below(60) == 0 && world_.reopen()) {
      for (const auto& site : sites_) site->client.use(world_.store());
    }
  }

  // `what` was done is only said when something is wrong.
  void compare(const Partition& partition, const std::string& difference,
               std::function<std::string()> what) {
    if (!wrong_.empty()) return;
    history_.push_back([when = now(), name = partition.name(), what = std::move(what)] {
      return text(std::optional(when)) + " " + name + ": " + what();
    });
    wrong_ = difference;
  }

  SeededRandom random_;
  World world_;
  Model model_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::vector<std::function<std::string()>> history_;
  std::string wrong_;
};

TEST_P(PropertyTest, EveryAnswerIsAsPredicted) {
  const std::uint64_t first = firstSeed();
  const auto asked = fromEnvironment("NIMBUS_SCHEDULES");
  const auto deadline = std::chrono::steady_clock::now() + kAWhile;
  const Schedule::World world{[&](Millis by) { advance(by); }, [&] { return reopen(); },
                              [&]() -> Store& { return store(); }};
  std::uint64_t done = 0;
  for (; done < asked.value_or(kAtMost); ++done) {
    const bool enough = !asked && done >= kAtLeast;
    if (enough && std::chrono::steady_clock::now() > deadline) break;
    const std::uint64_t seed = first + done;
    const std::string wrong = Schedule(seed, world).run();
    ASSERT_EQ(wrong, "") << "NIMBUS_SEED=" << seed << " NIMBUS_SCHEDULES=1";
  }
  RecordProperty("schedules", std::to_string(done));
  RecordProperty("first_seed", std::to_string(first));
  std::cout << done << " schedules, from NIMBUS_SEED=" << first << " on" << std::endl;
  EXPECT_GE(done, asked.value_or(kAtLeast));
}

// ---- threads

// What one thread was answered.
struct History {
  std::vector<std::pair<std::string, Version>> versions;  // of a key
  std::map<std::string, std::int64_t> added;              // by key
  std::vector<Seq> seqs;
  std::vector<Token> tokens;
  std::uint64_t pushed = 0;
  std::uint64_t completed = 0;
};

class Worker {
 public:
  Worker(Store& store, const Partition& partition, std::uint64_t seed, std::size_t number)
      : client_(store, partition), random_(seed + number), name_(std::to_string(number)) {}

  void run() {
    for (int round = 0; round < 25; ++round) {
      std::vector<std::pair<Batch, PendingCommit>> pending;
      for (std::uint64_t left = 1 + random_.below(10); left > 0; --left) {
        Batch batch = this->batch();
        PendingCommit commit = client_.begin(batch);
        pending.emplace_back(std::move(batch), std::move(commit));
      }
      for (auto& [batch, commit] : pending) {
        const auto result = client_.wait(std::move(commit));
        if (result) note(batch, *result);
      }
      EXPECT_LE(client_.usage("limited").records, 5U);
      EXPECT_LE(client_.queueInfo("q").waiting, 6U);
    }
  }

  const History& history() const { return history_; }

 private:
  std::string unique() { return name_ + "-" + std::to_string(++counter_); }

  Batch batch() {
    const std::string key(1, static_cast<char>('a' + random_.below(3)));
    switch (random_.below(11)) {
      case 0:
        return conformance::batch(put("s", key), append("l", unique()));
      case 1:
        return conformance::batch(erase("s", key));
      case 2:
        return conformance::batch(add("n", key, static_cast<std::int64_t>(random_.below(9)) - 4),
                                  put("s", key), append("l", unique()));
      case 3:
        return conformance::batch(require::SpaceWithin{"limited", 5, 0}, put("limited", unique()));
      case 4:
        return conformance::batch(require::RecordVersion{"s", key, random_.below(20)},
                                  append("l", unique()), append("l", unique()));
      case 5:
        return conformance::batch(
            takeOver(acquire("owner", name_, Millis(0), random_.next()), Token{1, 1}));
      case 6: {
        last_id_ = unique();
        return conformance::batch(require::QueueWithin{"q", 6}, push("q", last_id_));
      }
      case 7:
        return conformance::batch(complete("q", last_id_.empty() ? "none" : last_id_));
      case 8:
        return conformance::batch(withVersion(put("s", key), 1 + random_.below(60)));
      case 9:
        return conformance::batch(withLast(erase("s", key), random_.below(50)));
      default:
        return conformance::batch(eraseSpace("limited"), add("n", key, 1));
    }
  }

  void note(const Batch& batch, const Applied& applied) {
    for (std::size_t i = 0; i < batch.operations.size(); ++i) {
      if (const auto* put = std::get_if<op::Put>(&batch.operations[i])) {
        history_.versions.emplace_back(put->space + "/" + put->key,
                                       applied.get<RecordWritten>(i).version);
      } else if (const auto* add = std::get_if<op::Add>(&batch.operations[i])) {
        history_.added[add->key] += add->delta;
        history_.versions.emplace_back(add->space + "/" + add->key, applied.get<Added>(i).version);
      } else if (std::holds_alternative<op::Append>(batch.operations[i])) {
        history_.seqs.push_back(applied.get<Appended>(i).seq);
      } else if (std::holds_alternative<op::Acquire>(batch.operations[i])) {
        history_.tokens.push_back(applied.get<LeaseGranted>(i).token);
      } else if (std::holds_alternative<op::Push>(batch.operations[i])) {
        history_.pushed += 1;
      } else if (std::holds_alternative<op::Complete>(batch.operations[i])) {
        history_.completed += 1;
      }
    }
  }

  Client client_;
  SeededRandom random_;
  const std::string name_;
  std::uint64_t counter_ = 0;
  std::string last_id_;
  History history_;
};

TEST_P(PropertyTest, AnyHistoryOfThreadsMakesSense) {
  const std::uint64_t seed = firstSeed();
  SCOPED_TRACE("NIMBUS_SEED=" + std::to_string(seed));
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    workers.push_back(std::make_unique<Worker>(store(), partition(), seed, i));
    threads.emplace_back([worker = workers.back().get()] { worker->run(); });
  }
  for (std::thread& thread : threads) thread.join();

  std::set<std::pair<std::string, Version>> versions;
  std::map<std::string, std::int64_t> sums;
  std::set<Seq> given;
  std::set<std::uint64_t> epochs;
  std::uint64_t waiting = 0;
  for (const auto& worker : workers) {
    const History& history = worker->history();
    std::map<std::string, Version> last;
    for (const auto& [key, version] : history.versions) {
      EXPECT_TRUE(versions.emplace(key, version).second) << key << " had version " << version;
      EXPECT_GT(version, last[key]) << "the commits of a thread keep their order";
      last[key] = version;
    }
    for (const auto& [key, delta] : history.added) sums[key] += delta;
    for (const Seq seq : history.seqs) EXPECT_TRUE(given.insert(seq).second) << seq;
    EXPECT_TRUE(std::is_sorted(history.seqs.begin(), history.seqs.end()));
    for (const Token& token : history.tokens) EXPECT_TRUE(epochs.insert(token.epoch).second);
    waiting += history.pushed - history.completed;
  }
  for (const auto& [key, sum] : sums) EXPECT_EQ(value("n", key), std::to_string(sum));
  EXPECT_EQ(logInfo("l").last_seq, given.size());
  if (!given.empty()) EXPECT_EQ(*given.rbegin(), given.size()) << "seqs have gaps";
  EXPECT_EQ(queueInfo("q").waiting, waiting);
}

}  // namespace
}  // namespace nimbus::store::conformance
