#include "store/store.h"

namespace nimbus::store {

std::string_view durabilityName(Durability durability) {
  switch (durability) {
    case Durability::Disk:
      return "disk";
    case Durability::Replicated:
      return "replicated";
    case Durability::Memory:
      break;
  }
  return "memory";
}

Task<Result<Applied>> PendingCommit::doneOf(PendingCommit pending) {
  NIMBUS_CO_TRY(Applied applied, co_await pending.applied());
  NIMBUS_CO_CHECK(co_await pending.durable());
  co_return applied;
}

Task<Result<std::optional<Record>>> getRecord(Store& store, Partition partition, std::string space,
                                              std::string key) {
  query::GetRecord query{std::move(space), std::move(key)};
  return ask<std::optional<Record>>(store, std::move(partition), std::move(query));
}

}  // namespace nimbus::store
