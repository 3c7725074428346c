#include "store/memory/memory_store.h"

#include "store/memory/partition_data.h"

#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace nimbus::store::memory {
namespace {

// One callback. Commits of several threads may call it at the same moment; it runs once at a time.
class Watcher {
 public:
  explicit Watcher(std::function<void()> changed) : changed_(std::move(changed)) {}

  void call() {
    const std::lock_guard lock(running_);
    if (ended_) return;
    runner_ = std::this_thread::get_id();
    changed_();
    runner_ = std::thread::id();
  }

  // From another thread it waits for a call that is running. From inside the callback it does not:
  // that call is then the last.
  void end() {
    ended_ = true;
    if (runner_ == std::this_thread::get_id()) return;
    const std::lock_guard wait(running_);
  }

 private:
  const std::function<void()> changed_;
  std::mutex running_;
  std::atomic<std::thread::id> runner_;
  std::atomic<bool> ended_ = false;
};

using Watchers = std::multimap<Partition, std::shared_ptr<Watcher>>;

struct WatcherList {
  std::mutex mutex;
  Watchers watchers;
};

// Shares the list with the store, so it may outlive it.
class Registration final : public Watch {
 public:
  Registration(std::shared_ptr<WatcherList> list, Partition partition,
               std::function<void()> changed)
      : list_(std::move(list)) {
    const std::lock_guard lock(list_->mutex);
    place_ = list_->watchers.emplace(std::move(partition),
                                     std::make_shared<Watcher>(std::move(changed)));
  }
  ~Registration() override {
    std::shared_ptr<Watcher> watcher;
    {
      const std::lock_guard lock(list_->mutex);
      watcher = std::move(place_->second);
      list_->watchers.erase(place_);
    }
    watcher->end();
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  std::shared_ptr<WatcherList> list_;
  Watchers::iterator place_;
};

void notify(WatcherList& list, const Partition& partition) {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const std::lock_guard lock(list.mutex);
    const auto [begin, end] = list.watchers.equal_range(partition);
    for (auto place = begin; place != end; ++place) watchers.push_back(place->second);
  }
  for (const auto& watcher : watchers) watcher->call();
}

}  // namespace

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
  const std::shared_ptr<WatcherList> watchers = std::make_shared<WatcherList>();
};

MemoryStore::MemoryStore(const Clock& clock) : state_(std::make_unique<State>(clock)) {}
MemoryStore::~MemoryStore() = default;

Description MemoryStore::describe() const {
  return {"memory", Durability::Memory};
}

Timestamp MemoryStore::now() const {
  return state_->clock.now();
}

PendingCommit MemoryStore::commit(Partition partition, std::optional<Fence> fence, Batch batch) {
  auto pending = std::make_shared<CommitState>();
  if (auto applied = state_->commit(partition, fence, batch); applied) {
    notify(*state_->watchers, partition);
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
  return std::make_unique<Registration>(state_->watchers, std::move(partition), std::move(changed));
}

// All at once: what is in memory is swept sooner than a budget could be looked at.
Task<Result<std::uint64_t>> MemoryStore::sweep(Millis /*budget*/) {
  const std::lock_guard lock(state_->mutex);
  const Timestamp now = state_->clock.now();
  std::uint64_t removed = 0;
  for (auto& [name, data] : state_->partitions) removed += memory::sweep(data, now);
  co_return removed;
}

Task<Result<>> MemoryStore::check() {
  co_return Result<>();
}

}  // namespace nimbus::store::memory
