// Commits without end, and says on stdout what was acknowledged. Made to be killed.
//
//   crash_writer DATABASE FIRST_PRODUCER PRODUCERS full|normal|off
//
// Producer p commits 1, 2, 3, … to a partition of its own, each number in one batch that writes it
// to two records, the floor of a space that has none, a log and a queue. Whatever a crash leaves,
// all five must agree.
//
// Lines: "open" once, "ack P N" when N of producer P is durable, "err P N CODE OUTCOME" when it was
// not; N is then tried again. "check ok" or "check CODE" when the answer of the store's check has
// changed. Lines are written whole and at once, so what was printed before a kill was printed.
//
// Checkpoints are frequent, so that a fault has a chance to fall into one.

#include "base/clock.h"
#include "crash_layout.h"
#include "store/sqlite/sqlite_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace nimbus::faults {
namespace {

namespace asio = boost::asio;

void say(const std::string& line) {
  // Whoever listened is gone: so is the purpose of this program.
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(3);
}

store::Batch numbered(std::uint64_t n) {
  const std::string text = std::to_string(n);
  store::Batch batch;
  store::op::Put first{
      .space = kFirstSpace, .key = kKey, .value = text, .expiry = {}, .expected = {}};
  // A value that grows and shrinks moves pages about; that is where tearing would show.
  store::op::Put second{.space = kSecondSpace,
                        .key = kKey,
                        .value = text + std::string(n * 37 % 2000, '.'),
                        .expiry = {},
                        .expected = {}};
  store::op::Erase floor{.space = kFloorSpace, .key = kKey, .expected = {}, .last = n};
  store::op::Append entry{
      .log = kLog, .id = text, .value = text, .terms = {{"number", text}}, .fingerprint = text};
  store::op::Push item{.queue = kQueue, .id = text, .payload = text, .due_at = {}};
  batch.operations.emplace_back(std::move(first));
  batch.operations.emplace_back(std::move(second));
  batch.operations.emplace_back(std::move(floor));
  batch.operations.emplace_back(std::move(entry));
  batch.operations.emplace_back(std::move(item));
  return batch;
}

Task<> produce(store::Store& store, int producer) {
  const store::Partition partition = partitionOf(producer);
  const store::query::GetLogInfo query{kLog};
  const auto info = co_await store::ask<store::LogInfo>(store, partition, query);
  if (!info) std::_Exit(4);
  asio::steady_timer pause(co_await asio::this_coro::executor);
  for (std::uint64_t n = info->last_seq + 1;;) {
    auto pending = store.commit(partition, std::nullopt, numbered(n));
    const auto durable = co_await pending.durable();
    if (durable) {
      say(fmt::format("ack {} {}\n", producer, n++));
      continue;
    }
    say(fmt::format("err {} {} {} {}\n", producer, n, codeName(durable.error().code()),
                    outcomeName(durable.error().outcome())));
    pause.expires_after(std::chrono::milliseconds(20));
    co_await pause.async_wait(asio::use_awaitable);
  }
}

// What a server's readiness goes by.
Task<> check(store::Store& store) {
  asio::steady_timer pause(co_await asio::this_coro::executor);
  for (std::string last;;) {
    const auto writable = co_await store.check();
    std::string now(writable ? "ok" : codeName(writable.error().code()));
    if (now != last) say(fmt::format("check {}\n", now));
    last = std::move(now);
    pause.expires_after(std::chrono::milliseconds(100));
    co_await pause.async_wait(asio::use_awaitable);
  }
}

store::sqlite::Synchronous synchronous(const std::string& name) {
  if (name == "off") return store::sqlite::Synchronous::Off;
  if (name == "normal") return store::sqlite::Synchronous::Normal;
  return store::sqlite::Synchronous::Full;
}

int run(const std::vector<std::string>& args) {
  const SystemClock clock;
  store::sqlite::Options options;
  options.path = args[0];
  options.synchronous = synchronous(args[3]);
  options.writer.checkpoint_after_frames = 50;
  auto store = store::sqlite::SqliteStore::open(std::move(options), clock);
  if (!store) {
    fmt::print(stderr, "{}\n", store.error().message());
    return 1;
  }
  say("open\n");
  asio::io_context io(1);
  const int first = std::stoi(args[1]);
  for (int i = 0; i < std::stoi(args[2]); ++i) {
    asio::co_spawn(io, produce(**store, first + i), asio::detached);
  }
  asio::co_spawn(io, check(**store), asio::detached);
  io.run();
  return 0;
}

}  // namespace
}  // namespace nimbus::faults

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 4) return nimbus::faults::run(args);
  fmt::print(stderr, "usage: crash_writer DATABASE FIRST_PRODUCER PRODUCERS full|normal|off\n");
  return 2;
}
