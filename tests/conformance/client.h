#pragma once
// A store as a test sees it: one partition, and every call waits for its answer.

#include "builders.h"
#include "store/store.h"
#include "text.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace nimbus::store::conformance {

// Runs tasks to their end on the calling thread.
class TaskRunner {
 public:
  template <typename T>
  T run(Task<T> task) {
    std::optional<T> result;
    boost::asio::co_spawn(io_, std::move(task),
                          [&result](const std::exception_ptr& thrown, T value) {
                            if (thrown) std::rethrow_exception(thrown);
                            result.emplace(std::move(value));
                          });
    io_.restart();
    io_.run();
    return *std::move(result);
  }

 private:
  boost::asio::io_context io_;
};

// What a partition may hold: no query lists names, so whoever wants to see all of it collects them.
struct Names {
  std::set<std::string> spaces;
  std::set<std::string> logs;
  std::set<std::string> indexes;
  std::set<std::string> leases;
  std::set<std::string> queues;

  void collect(const Batch& batch);
};

// The queries that show everything under these names.
std::vector<Query> everything(const Names& names);

// One thread.
class Client {
 public:
  Client(Store& store, Partition partition) : store_(&store), partition_(std::move(partition)) {}

  Store& store() { return *store_; }
  const Partition& partition() const { return partition_; }
  // Goes on with another store of the same data.
  void use(Store& store) { store_ = &store; }

  // ---- commits

  PendingCommit begin(Batch batch, std::optional<Fence> fence = std::nullopt);
  Result<Applied> wait(PendingCommit pending) { return runner_.run(pending.done()); }
  Result<Applied> tryCommit(Batch batch, std::optional<Fence> fence = std::nullopt) {
    return wait(begin(std::move(batch), std::move(fence)));
  }

  // What is expected to be applied.
  template <typename... Parts>
  Applied commit(Parts... parts) {
    return applied(batch(std::move(parts)...));
  }
  template <typename... Parts>
  Applied commitWith(Fence fence, Parts... parts) {
    return applied(batch(std::move(parts)...), std::move(fence));
  }
  Applied applied(Batch batch, std::optional<Fence> fence = std::nullopt);

  // The same, for one operation and what it answers.
  RecordWritten written(Operation operation) { return one<RecordWritten>(std::move(operation)); }
  Added added(Operation operation) { return one<Added>(std::move(operation)); }
  std::uint64_t removed(Operation operation) { return one<Removed>(std::move(operation)).count; }
  Appended appended(Operation operation) { return one<Appended>(std::move(operation)); }
  LeaseGranted granted(Operation operation) { return one<LeaseGranted>(std::move(operation)); }
  Queued queued(Operation operation) { return one<Queued>(std::move(operation)); }
  Taken taken(Operation operation) { return one<Taken>(std::move(operation)); }

  // What is expected to be refused, as text(). Checks too that nothing changed and that the error
  // says so.
  template <typename... Parts>
  std::string refused(Parts... parts) {
    return text(refusal(batch(std::move(parts)...)));
  }
  template <typename... Parts>
  std::string refusedWith(Fence fence, Parts... parts) {
    return text(refusal(batch(std::move(parts)...), std::move(fence)));
  }
  template <typename... Parts>
  Error error(Parts... parts) {
    return refusal(batch(std::move(parts)...));
  }
  Error refusal(Batch batch, std::optional<Fence> fence = std::nullopt);

  // ---- reads

  Result<std::vector<Answer>> tryRead(std::vector<Query> queries) {
    return runner_.run(store_->read(partition_, std::move(queries)));
  }
  std::vector<Answer> read(std::vector<Query> queries);

  template <typename T>
  T ask(Query query) {
    std::vector<Query> queries;
    queries.push_back(std::move(query));
    return std::get<T>(read(std::move(queries)).at(0));
  }
  std::string readError(Query query);

  std::optional<Record> get(std::string space, std::string key) {
    return ask<std::optional<Record>>(query::GetRecord{std::move(space), std::move(key)});
  }
  bool exists(std::string space, std::string key) {
    return get(std::move(space), std::move(key)).has_value();
  }
  // The value; "(nothing)" if there is none.
  std::string value(std::string space, std::string key);
  Version version(std::string space, std::string key);  // 0 = absent
  std::vector<std::string> keys(query::ScanRecords query);
  Usage usage(std::string space) { return ask<Usage>(query::GetUsage{std::move(space)}); }

  LogInfo logInfo(std::string log) { return ask<LogInfo>(query::GetLogInfo{std::move(log)}); }
  std::optional<Entry> entry(std::string log, std::string id) {
    return ask<std::optional<Entry>>(query::GetEntry{std::move(log), std::move(id)});
  }
  std::vector<Seq> seqs(std::string log);
  // "term#seq" of what stands under first..last of the index.
  std::vector<std::string> under(query::ScanIndex query);
  std::vector<std::string> under(std::string log, std::string index, std::string term);

  std::optional<Lease> lease(std::string lease) {
    return ask<std::optional<Lease>>(query::GetLease{std::move(lease)});
  }

  QueueInfo queueInfo(std::string queue) {
    return ask<QueueInfo>(query::GetQueueInfo{std::move(queue)});
  }
  std::optional<QueueItem> item(std::string queue, std::string id) {
    return ask<std::optional<QueueItem>>(query::GetItem{std::move(queue), std::move(id)});
  }
  std::vector<std::string> ids(std::string queue, QueuePart part);

  Result<DirectoryPage> tryDirectory(std::string directory, std::string after, std::string prefix,
                                     std::size_t limit) {
    return runner_.run(
        store_->readDirectory(std::move(directory), std::move(after), std::move(prefix), limit));
  }
  DirectoryPage directory(std::string directory, std::string after = "", std::string prefix = "",
                          std::size_t limit = 100);
  // "key=value" of every entry.
  std::vector<std::string> listed(std::string directory);

  // Everything under the names this client has used, as text.
  std::string dump();

  // ---- the store

  Swept sweep(Millis budget = Millis(1000));
  // Until nothing is left; how many in all.
  std::uint64_t sweepAll(Millis budget = Millis(1000));
  Result<> check() { return runner_.run(store_->check()); }

 private:
  template <typename T>
  T one(Operation operation) {
    return applied(batch(std::move(operation))).get<T>(0);
  }

  Store* store_;
  Partition partition_;
  TaskRunner runner_;
  Names names_;
};

}  // namespace nimbus::store::conformance
