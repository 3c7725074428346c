// What durable commits cost, against what the disk and SQLite can do, in one run.
//
//   store_bench DIRECTORY
//     all figures; exit 1 if one misses its target
//   store_bench --load FILE PRODUCERS COMMITS_PER_TRANSACTION SECONDS
//     one load, in a process of its own so that none inherits another's heap; prints its figures
//
// Every comparison alternates its sides and takes the median of the rounds: the machine is noisy,
// and noise then falls on both.

#include "bare.h"
#include "base/assert.h"
#include "base/clock.h"
#include "store/sqlite/sqlite_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::bench {
namespace {

namespace asio = boost::asio;
using Steady = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr double kSeconds = 1.5;
constexpr int kSessions = 1000;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double cpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::unique_ptr<store::sqlite::SqliteStore> openStore(const std::filesystem::path& path,
                                                      std::size_t commits_per_transaction) {
  static const SystemClock kClock;
  store::sqlite::Options options;
  options.path = path;
  options.writer.max_tasks_per_transaction = commits_per_transaction;
  auto opened = store::sqlite::SqliteStore::open(std::move(options), kClock);
  NIMBUS_ASSERT(opened, "the directory is writable");
  return *std::move(opened);
}

struct Load {
  double commits_per_second = 0;
  double cpu_per_100k = 0;
  double p50_us = 0;
  double p99_us = 0;
};

// Producers that each wait for durability before the next commit.
class Producers {
 public:
  Producers(store::Store& store, double seconds)
      : store_(store),
        end_(Steady::now() +
             std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds))) {
  }

  Load run(int count) {
    const auto start = Steady::now();
    const double cpu = cpuSeconds();
    for (int i = 0; i < count; ++i) {
      asio::co_spawn(io_, produce(static_cast<unsigned>(i)), asio::detached);
    }
    io_.run();
    const double took = std::chrono::duration<double>(Steady::now() - start).count();
    const auto commits = static_cast<double>(micros_.size());
    std::sort(micros_.begin(), micros_.end());
    return {.commits_per_second = commits / took,
            .cpu_per_100k = (cpuSeconds() - cpu) * 1e5 / commits,
            .p50_us = micros_[micros_.size() / 2],
            .p99_us = micros_[micros_.size() * 99 / 100]};
  }

 private:
  // One record of 100 bytes in one of a thousand sessions.
  Task<> produce(unsigned seed) {
    std::mt19937 random(seed);
    const std::string value(100, 'x');
    while (Steady::now() < end_) {
      const std::string session = std::to_string(random() % kSessions);
      store::Batch batch;
      batch.operations.emplace_back(store::op::Put{
          .space = "state", .key = "n", .value = value, .expiry = {}, .expected = std::nullopt});
      store::Partition partition("session", {"bench", session});
      const auto start = Steady::now();
      auto pending = store_.commit(std::move(partition), std::nullopt, std::move(batch));
      const auto durable = co_await pending.durable();
      NIMBUS_ASSERT(durable, "the disk has room");
      micros_.push_back(std::chrono::duration<double, std::micro>(Steady::now() - start).count());
    }
  }

  store::Store& store_;
  Steady::time_point end_;
  asio::io_context io_{1};
  std::vector<double> micros_;
};

// Runs a load in a process of its own.
Load measure(const std::filesystem::path& path, int producers, std::size_t per_transaction,
             double seconds = kSeconds) {
  const std::string command = fmt::format("/proc/{}/exe --load {} {} {} {}", ::getpid(),
                                          path.string(), producers, per_transaction, seconds);
  FILE* const child = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  NIMBUS_ASSERT(child != nullptr, "a process can be started");
  Load load;
  const int read = std::fscanf(child, "%lf %lf %lf %lf", &load.commits_per_second,
                               &load.cpu_per_100k, &load.p50_us, &load.p99_us);
  NIMBUS_ASSERT(::pclose(child) == 0 && read == 4, "the load ran");
  return load;
}

bool report(const char* what, double ratio, const char* relation, double target, bool met) {
  fmt::print("{:<62} {:>8.2f}   {} {:<5} {}\n\n", what, ratio, relation, target,
             met ? "met" : "MISSED");
  return met;
}

bool groupCommit(const std::filesystem::path& directory) {
  std::vector<double> group;
  std::vector<double> single;
  Load last_group;
  Load last_single;
  for (int round = 0; round < kRounds; ++round) {
    last_group = measure(directory / "group.db", 64, 4096);
    last_single = measure(directory / "single.db", 64, 1);
    group.push_back(last_group.commits_per_second);
    single.push_back(last_single.commits_per_second);
  }
  fmt::print("64 producers, each waiting for durability\n");
  fmt::print(
      "  group commit                 {:>9.0f} commits/s  p50 {:>6.0f} us  p99 {:>6.0f} us  "
      "{:.2f} CPU s/100k\n",
      median(group), last_group.p50_us, last_group.p99_us, last_group.cpu_per_100k);
  fmt::print(
      "  one transaction per commit   {:>9.0f} commits/s  p50 {:>6.0f} us  p99 {:>6.0f} us  "
      "{:.2f} CPU s/100k\n",
      median(single), last_single.p50_us, last_single.p99_us, last_single.cpu_per_100k);
  const double ratio = median(group) / median(single);
  return report("group commit / one transaction per commit", ratio, ">=", 12, ratio >= 12);
}

bool ceiling(const std::filesystem::path& directory) {
  std::vector<double> ours;
  std::vector<double> bare;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(measure(directory / "many.db", 1000, 4096).commits_per_second);
    bare.push_back(bareUpsertsPerSecond(directory, 500, kSeconds));
  }
  fmt::print("1000 producers against a bare SQLite loop with 500 upserts per transaction\n");
  fmt::print("  store                        {:>9.0f} commits/s\n", median(ours));
  fmt::print("  bare loop                    {:>9.0f} upserts/s\n", median(bare));
  const double ratio = median(ours) / median(bare);
  return report("store / bare loop", ratio, ">=", 0.3, ratio >= 0.3);
}

bool loneCommit(const std::filesystem::path& directory) {
  std::vector<double> ours;
  std::vector<double> bare;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(measure(directory / "lone.db", 1, 4096).p50_us);
    bare.push_back(bareFdatasyncMicros(directory, 2000));
  }
  fmt::print("one producer, against a bare overwrite and fdatasync of 4 KiB\n");
  fmt::print("  lone commit                  {:>9.0f} us p50\n", median(ours));
  fmt::print("  overwrite + fdatasync        {:>9.0f} us p50\n", median(bare));
  const double ratio = median(ours) / median(bare);
  return report("lone commit / fdatasync", ratio, "<=", 2.5, ratio <= 2.5);
}

// Two processes on one file, at the same time.
std::array<double, 2> shareFile(const std::filesystem::path& path) {
  std::array<double, 2> rates{};
  std::array<std::thread, 2> waiters;
  for (std::size_t i = 0; i < 2; ++i) {
    waiters[i] = std::thread([&rates, &path, i] {
      rates[i] = measure(path, 64, 4096, 2 * kSeconds).commits_per_second;
    });
  }
  for (auto& waiter : waiters) waiter.join();
  return rates;
}

bool twoProcesses(const std::filesystem::path& directory) {
  std::vector<double> fairness;
  std::array<double, 2> last{};
  for (int round = 0; round < kRounds; ++round) {
    last = shareFile(directory / "shared.db");
    fairness.push_back(std::min(last[0], last[1]) / std::max(last[0], last[1]));
  }
  fmt::print("two processes with 64 producers each on one file\n");
  fmt::print("  last round                   {:>9.0f} and {:.0f} commits/s\n", last[0], last[1]);
  const double ratio = median(fairness);
  return report("slower / faster process", ratio, ">=", 0.8, ratio >= 0.8);
}

int load(const std::vector<std::string>& args) {
  const auto store = openStore(args[1], std::stoul(args[3]));
  const Load load = Producers(*store, std::stod(args[4])).run(std::stoi(args[2]));
  fmt::print("{} {} {} {}\n", load.commits_per_second, load.cpu_per_100k, load.p50_us, load.p99_us);
  return 0;
}

int all(const std::filesystem::path& parent) {
  const auto directory = parent / fmt::format("store_bench.{}", ::getpid());
  std::filesystem::create_directories(directory);
  bool met = groupCommit(directory);
  met = ceiling(directory) && met;
  met = loneCommit(directory) && met;
  met = twoProcesses(directory) && met;
  std::filesystem::remove_all(directory);
  return met ? 0 : 1;
}

}  // namespace
}  // namespace nimbus::bench

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 5 && args[0] == "--load") return nimbus::bench::load(args);
  if (args.size() == 1) return nimbus::bench::all(args[0]);
  fmt::print(stderr, "usage: store_bench DIRECTORY\n");
  return 2;
}
