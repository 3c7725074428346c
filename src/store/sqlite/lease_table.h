#pragma once
// Leases: the table `lease`.

#include "base/result.h"
#include "store/batch.h"
#include "store/sqlite/database.h"
#include "store/types.h"

#include <optional>
#include <string>
#include <string_view>

namespace nimbus::store::sqlite {

// A lease as it was before the batch. Nobody holds it if the holder is empty.
struct LeaseBefore {
  bool present = false;
  std::string holder;
  Token token;
  std::optional<Timestamp> expires_at;

  bool isHeldWith(const Token& with) const { return !holder.empty() && token == with; }
};

class LeaseTable {
 public:
  explicit LeaseTable(Connection& connection);

  void begin(std::string_view partition, Timestamp now);

  Result<LeaseBefore> load(std::string_view lease);
  Result<> checkFence(const Fence& fence);

  Result<> check(const op::Acquire& op, const LeaseBefore& before) const;
  Result<> check(const op::Renew& op, const LeaseBefore& before) const;
  static Result<> check(const op::Release& op, const LeaseBefore& before);

  Result<LeaseGranted> acquire(const op::Acquire& op, const LeaseBefore& before);
  Result<LeaseGranted> renew(const op::Renew& op);
  Result<> release(const op::Release& op);

  Result<> dropPartition(std::string_view partition);

 private:
  std::optional<Timestamp> expiry(const std::optional<Millis>& ttl) const;

  Text partition_;
  Timestamp now_;

  Statement load_;
  Statement grant_;
  Statement renew_;
  Statement release_;
  Statement drop_;
};

}  // namespace nimbus::store::sqlite
