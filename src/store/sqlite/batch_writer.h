#pragma once
// Applies one batch inside the writer's transaction: reads what it is about, checks every
// condition, and only then writes. So a batch that is refused has left no trace, and many batches
// can share a transaction without one undoing another.

#include "base/result.h"
#include "store/batch.h"
#include "store/partition.h"
#include "store/sqlite/database.h"
#include "store/sqlite/lease_table.h"
#include "store/sqlite/limiter_table.h"
#include "store/sqlite/log_table.h"
#include "store/sqlite/queue_table.h"
#include "store/sqlite/record_table.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace nimbus::store::sqlite {

class BatchWriter {
 public:
  // `connection` must outlive the BatchWriter.
  BatchWriter(Connection& connection, RecordTable::Options options, DeferredPartitions& deferred);

  // A refusal leaves the transaction as it was. After an error of the database itself
  // (isDatabaseError) it must be rolled back.
  Result<Applied> apply(const Partition& partition, const std::optional<Fence>& fence,
                        const Batch& batch, Timestamp now);

  Result<> beginTransaction() { return records_.beginTransaction(); }
  // Writes what the batches have left to its end. They must live until then.
  Result<> finishTransaction() { return records_.finishTransaction(); }
  void committed() { records_.committed(); }

  // What readers ask about must be in its table.
  Result<> settle(std::string_view partition) { return records_.settle(partition); }
  Result<> settleAll() { return records_.settleAll(); }
  bool hasDeferred() const { return records_.hasDeferred(); }

  // Nothing that was read or written before may be relied on: another process has written, or the
  // transaction was given up.
  void forgetAll() { records_.forgetAll(); }

  // Removes up to `limit` of the records that have expired, and goes one step around the limiters.
  struct SweepStep {
    std::uint64_t removed = 0;
    bool more = false;  // records that have expired, or limiters not looked at in this round
  };
  Result<SweepStep> sweep(Timestamp now, std::uint64_t limit);

 private:
  // What an operation is about, as it was before the batch.
  using Before = std::variant<std::monostate, RecordBefore, EntryBefore, LeaseBefore, ItemBefore,
                              std::int64_t>;

  Result<Applied> write(const Batch& batch);
  Result<> writeListings(const std::vector<Listing>& listings);
  Result<> dropPartition();

  struct Load;
  struct CheckCondition;
  struct CheckOperation;
  struct Write;

  std::string_view partition_;
  Timestamp now_;
  std::vector<Before> before_;

  RecordTable records_;
  LogTable logs_;
  LeaseTable leases_;
  QueueTable queues_;
  LimiterTable limiters_;
  Statement list_;
  Statement unlist_;
};

}  // namespace nimbus::store::sqlite
