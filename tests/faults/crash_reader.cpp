// Opens what crash_writer left, as a restarted server would, and says what is there.
//
//   crash_reader DATABASE FIRST_PRODUCER PRODUCERS
//
// Prints "P N" per producer: the last number it holds. Exits 1 and says why if the parts of a batch
// disagree, a number is missing, or the database cannot be opened or is damaged.

#include "base/clock.h"
#include "crash_layout.h"
#include "store/sqlite/sqlite_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>

#include <string>

namespace nimbus::faults {
namespace {

namespace asio = boost::asio;

// The number a record holds: its digits up to the padding; 0 if there is none.
std::uint64_t numberIn(const std::optional<store::Record>& record) {
  return record ? std::stoull(record->value) : 0;
}

std::vector<store::Query> questions() {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{kFirstSpace, kKey});
  queries.emplace_back(store::query::GetRecord{kSecondSpace, kKey});
  queries.emplace_back(store::query::GetLogInfo{kLog});
  queries.emplace_back(store::query::GetQueueInfo{kQueue});
  queries.emplace_back(store::query::GetUsage{kFloorSpace});
  return queries;
}

// Every number from 1 on is in the log, once and in order.
Task<Result<>> checkLog(store::Store& store, store::Partition partition, std::uint64_t last) {
  for (store::Seq next = 1; next <= last;) {
    store::query::ScanLog scan{.log = kLog, .from = next, .limit = 1000};
    NIMBUS_CO_TRY(const auto page, co_await store::ask<store::EntryPage>(store, partition, scan));
    if (page.items.empty())
      co_return Error(Code::Internal, fmt::format("entry {} is missing", next));
    for (const store::Entry& entry : page.items) {
      if (entry.seq != next || entry.id != std::to_string(next)) {
        co_return Error(Code::Internal, fmt::format("entry {} is '{}'", next, entry.id));
      }
      ++next;
    }
  }
  co_return Result<>();
}

Task<Result<std::uint64_t>> lastNumber(store::Store& store, int producer) {
  const store::Partition partition = partitionOf(producer);
  NIMBUS_CO_TRY(const auto answers, co_await store.read(partition, questions()));
  const std::uint64_t first = numberIn(std::get<std::optional<store::Record>>(answers[0]));
  const std::uint64_t second = numberIn(std::get<std::optional<store::Record>>(answers[1]));
  const auto& log = std::get<store::LogInfo>(answers[2]);
  const auto& queue = std::get<store::QueueInfo>(answers[3]);
  const auto& floor = std::get<store::Usage>(answers[4]).floor;
  if (first != second || first != floor || first != log.last_seq || first != log.entries ||
      first != queue.waiting) {
    co_return Error(
        Code::Internal,
        fmt::format("torn: records {} and {}, floor {}, log {} with {} entries, queue {}", first,
                    second, floor, log.last_seq, log.entries, queue.waiting));
  }
  NIMBUS_CO_CHECK(co_await checkLog(store, partition, first));
  co_return first;
}

Task<int> report(store::Store& store, int first, int count) {
  for (int producer = first; producer < first + count; ++producer) {
    const auto last = co_await lastNumber(store, producer);
    if (!last) {
      fmt::print(stderr, "producer {}: {}\n", producer, last.error().message());
      co_return 1;
    }
    fmt::print("{} {}\n", producer, *last);
  }
  co_return 0;
}

int run(const std::vector<std::string>& args) {
  const std::filesystem::path path = args[0];
  {
    auto connection =
        store::sqlite::Connection::open(path, store::sqlite::Connection::Mode::ReadWrite);
    const auto verdict = connection ? connection->text("PRAGMA integrity_check")
                                    : Result<std::string>(std::move(connection).error());
    if (!verdict || *verdict != "ok") {
      fmt::print(stderr, "damaged: {}\n", verdict ? *verdict : verdict.error().message());
      return 1;
    }
  }
  const SystemClock clock;
  store::sqlite::Options options;
  options.path = path;
  auto store = store::sqlite::SqliteStore::open(std::move(options), clock);
  if (!store) {
    fmt::print(stderr, "{}\n", store.error().message());
    return 1;
  }
  asio::io_context io(1);
  auto code =
      asio::co_spawn(io, report(**store, std::stoi(args[1]), std::stoi(args[2])), asio::use_future);
  io.run();
  return code.get();
}

}  // namespace
}  // namespace nimbus::faults

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 3) return nimbus::faults::run(args);
  fmt::print(stderr, "usage: crash_reader DATABASE FIRST_PRODUCER PRODUCERS\n");
  return 2;
}
