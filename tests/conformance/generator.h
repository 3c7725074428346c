#pragma once
// Makes up batches and queries over so few names that they meet all the time: expected versions
// that fit and that do not, versions given that are new and that are not, tokens of today and of
// yesterday, ids that repeat, malformed batches.

#include "base/random.h"
#include "model.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <vector>

namespace nimbus::store::conformance {

class Generator {
 public:
  // Directory keys begin with `names`, which sets them apart from those of others: no order is
  // promised between commits to several partitions.
  Generator(Random& random, std::string names) : random_(random), names_(std::move(names)) {}

  // A batch for a partition that, as far as is known, holds `data`.
  Batch batch(const ModelPartition& data, Timestamp now);
  std::optional<Fence> fence(const ModelPartition& data);
  // A read that pages, narrows and turns around.
  Query query(const ModelPartition& data, Timestamp now);

  const std::string& names() const { return names_; }

  // All names that batches use.
  static Batch everyName();

  bool chance(std::uint64_t percent) { return random_.below(100) < percent; }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }

 private:
  std::string pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

  Operation operation(const ModelPartition& data, Timestamp now);
  Operation recordOperation(const ModelPartition& data, Timestamp now);
  Operation logOperation(const ModelPartition& data);
  Operation leaseOperation(const ModelPartition& data);
  Operation queueOperation(const ModelPartition& data, Timestamp now);
  Condition condition(const ModelPartition& data);

  std::optional<Version> expected(Version current);
  std::optional<Version> given(const ModelPartition& data, const ModelPartition::Key& key);
  Version last(const ModelPartition& data, const ModelPartition::Key& key);
  std::optional<Timestamp> soon(Timestamp now);
  Expiry expiry(Timestamp now);
  std::vector<Term> terms();
  Token token(const ModelPartition& data, const std::string& lease);
  std::optional<Millis> ttl();

  Random& random_;
  std::string names_;
};

}  // namespace nimbus::store::conformance
