#pragma once
// What a store has to answer, said a second time: plain code written from the comments of the port,
// sharing nothing with the backends but the arithmetic of limiters and integers. It runs a batch
// operation by operation on a copy, which is thrown away when one is refused.
//
// Where the port promises less than one exact answer (which version a record gets after it expired,
// or must be above, by how much a revision grows) the model checks what is promised and goes on
// with what it saw.

#include "store/store.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace nimbus::store::conformance {

struct ModelRecord {
  std::string value;
  Version version = 0;
  std::optional<Timestamp> expires_at;
  Timestamp updated_at;
};

struct ModelLog {
  Seq last_seq = 0;
  std::vector<Entry> entries;  // by seq
  std::uint64_t changes = 0;
  // The revision the store last showed, and `changes` at that moment.
  std::uint64_t seen_revision = 0;
  std::uint64_t seen_changes = 0;
};

struct ModelQueue {
  std::vector<QueueItem> items;
  Seq last_position = 0;
};

struct ModelPartition {
  using Key = std::pair<std::string, std::string>;

  std::map<Key, ModelRecord> records;  // by space and key; those that expired, too
  // By space: the highest version that surely was removed, and the highest that may have been, with
  // what had expired at the last commit.
  std::map<std::string, Version> erased;
  std::map<std::string, Version> expired;
  std::map<std::string, ModelLog> logs;
  std::map<std::string, Lease> leases;
  std::map<std::string, std::uint64_t> epochs;
  std::map<std::string, ModelQueue> queues;
  std::map<std::string, std::int64_t> limiters;

  const ModelRecord* live(const std::string& space, const std::string& key, Timestamp now) const;
  // The highest version among the records of the space that have expired by now.
  Version lapsed(const std::string& space, Timestamp now) const;
};

class Model {
 public:
  // Each compares what the store answered with what it had to: what is wrong, or nothing.
  std::string commit(const Partition& partition, const std::optional<Fence>& fence,
                     const Batch& batch, Timestamp now, const Result<Applied>& answered);
  std::string read(const Partition& partition, const Query& query, Timestamp now,
                   const Answer& answered);
  std::string readDirectory(const std::string& directory, const std::string& after,
                            const std::string& prefix, std::size_t limit,
                            const Result<DirectoryPage>& answered);

  // What is there now, for those who make up the next batch.
  const ModelPartition& at(const Partition& partition) { return partitions_[partition]; }

 private:
  struct Listed {
    std::optional<std::string> value;
    // An entry written with a batch that was then refused may have stayed or not.
    std::optional<std::string> maybe;
  };

  void list(const std::vector<Listing>& listings, bool applied);

  std::map<Partition, ModelPartition> partitions_;
  std::map<std::string, std::map<std::string, Listed>> directories_;
};

}  // namespace nimbus::store::conformance
