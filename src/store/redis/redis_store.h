#pragma once
// The Store in Redis 7, one server or a Redis Cluster.
//
// A commit is one call of a script, which checks everything before its first write. Of each
// partition one commit is under way at a time, and the next is sent when it has ended: so a
// redirected one cannot be overtaken, and one that builds on another knows how that ended. Commits
// of different partitions share every write to the server.

#include "base/clock.h"
#include "base/result.h"
#include "redis/client.h"
#include "store/store.h"

#include <memory>

namespace nimbus::store::redis {

struct Options {
  nimbus::redis::Client::Options client;
  // For tests: goes by this clock instead of that of Redis. Must outlive the store.
  const Clock* clock = nullptr;
  // Commits that may wait; further ones are refused (Unavailable).
  std::size_t max_waiting = 200'000;
};

struct Statistics {
  std::uint64_t commits = 0;  // applied
  std::uint64_t failed = 0;   // neither applied nor refused: Redis was away, or an answer was lost
};

class RedisStore final : public Store {
 public:
  // Unavailable if Redis does not answer; InvalidArgument if it is too old, or set up to throw data
  // away when its memory is full.
  static Result<std::unique_ptr<RedisStore>> open(Options options);
  ~RedisStore() override;
  RedisStore(const RedisStore&) = delete;
  RedisStore& operator=(const RedisStore&) = delete;

  Description describe() const override;
  Timestamp now() const override;
  Task<Result<std::vector<Answer>>> read(Partition partition, std::vector<Query> queries) override;
  Task<Result<DirectoryPage>> readDirectory(std::string directory, std::string after,
                                            std::string prefix, std::size_t limit) override;
  std::unique_ptr<Watch> watch(Partition partition, std::function<void()> changed) override;
  Task<Result<Swept>> sweep(Millis budget) override;
  Task<Result<>> check() override;

  Statistics statistics() const;

 private:
  class Core;

  explicit RedisStore(std::shared_ptr<Core> core);
  PendingCommit begin(CommitOrder order) override;

  const std::shared_ptr<Core> core_;
};

}  // namespace nimbus::store::redis
