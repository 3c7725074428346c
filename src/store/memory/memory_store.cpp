#include "store/memory/memory_store.h"

#include "store/memory/partition_data.h"
#include "store/rules.h"
#include "store/watchers.h"

#include <map>
#include <mutex>
#include <utility>

namespace nimbus::store::memory {
struct MemoryStore::State {
  explicit State(const Clock& its_clock) : clock(its_clock) {}

  Result<Applied> commit(const Partition& partition, const std::optional<Fence>& fence,
                         const Batch& batch) {
    NIMBUS_CHECK(validate(batch));
    const std::lock_guard lock(mutex);
    const auto place = partitions.try_emplace(partition).first;
    Result<Applied> applied = commit(place->second, fence, batch);
    if (place->second.empty()) partitions.erase(place);
    return applied;
  }

  Result<Applied> commit(PartitionData& data, const std::optional<Fence>& fence,
                         const Batch& batch) {
    const Timestamp now = clock.now();
    NIMBUS_CHECK(memory::check(data, fence, batch, now));
    for (const Listing& listing : batch.listings) list(listing);
    return apply(data, batch, now);
  }

  void list(const Listing& listing) {
    auto& directory = directories[listing.directory];
    if (listing.value) {
      directory[listing.key] = *listing.value;
    } else {
      directory.erase(listing.key);
    }
  }

  const Clock& clock;
  std::mutex mutex;
  std::map<Partition, PartitionData> partitions;
  std::map<std::string, std::map<std::string, std::string>> directories;
  Watchers watchers;
};

MemoryStore::MemoryStore(const Clock& clock) : state_(std::make_unique<State>(clock)) {}
MemoryStore::~MemoryStore() = default;

Description MemoryStore::describe() const {
  return {"memory", Durability::Memory};
}

Timestamp MemoryStore::now() const {
  return state_->clock.now();
}

PendingCommit MemoryStore::begin(CommitOrder order) {
  auto pending = std::make_shared<CommitState>(std::move(order.chained.listener));
  if (order.chained.after && order.chained.after->hasFailed()) {
    pending->refuse(chainBroken());
  } else if (auto applied = state_->commit(order.partition, order.fence, order.batch); applied) {
    state_->watchers.notify(order.partition.name());
    pending->apply(*std::move(applied));
    pending->finish({});
  } else {
    pending->refuse(applied.error());
  }
  return PendingCommit(std::move(pending));
}

Task<Result<std::vector<Answer>>> MemoryStore::read(Partition partition,
                                                    std::vector<Query> queries) {
  for (const Query& query : queries) NIMBUS_CO_CHECK(checkQuery(query));
  const std::lock_guard lock(state_->mutex);
  static const PartitionData kEmpty;
  const auto found = state_->partitions.find(partition);
  const PartitionData& data = found != state_->partitions.end() ? found->second : kEmpty;
  const Timestamp now = state_->clock.now();
  std::vector<Answer> answers;
  answers.reserve(queries.size());
  for (const Query& query : queries) answers.push_back(answer(data, query, now));
  co_return answers;
}

Task<Result<DirectoryPage>> MemoryStore::readDirectory(std::string directory, std::string after,
                                                       std::string prefix, std::size_t limit) {
  NIMBUS_CO_CHECK(checkLimit(limit));
  const std::lock_guard lock(state_->mutex);
  const auto& entries = orEmpty(state_->directories, directory);
  DirectoryPage page;
  for (auto entry = entries.lower_bound(std::max(after, prefix)); entry != entries.end(); ++entry) {
    if (!entry->first.starts_with(prefix)) break;
    if (entry->first <= after) continue;
    if (page.items.size() == limit) {
      page.more = true;
      break;
    }
    page.items.push_back({entry->first, entry->second});
  }
  co_return page;
}

std::unique_ptr<Watch> MemoryStore::watch(Partition partition, std::function<void()> changed) {
  return state_->watchers.add(partition, std::move(changed));
}

// All at once: what is in memory is swept sooner than a budget could be looked at.
Task<Result<Swept>> MemoryStore::sweep(Millis /*budget*/) {
  const std::lock_guard lock(state_->mutex);
  const Timestamp now = state_->clock.now();
  Swept swept;
  for (auto& [name, data] : state_->partitions) swept.removed += memory::sweep(data, now);
  co_return swept;
}

Task<Result<>> MemoryStore::check() {
  co_return Result<>();
}

}  // namespace nimbus::store::memory
