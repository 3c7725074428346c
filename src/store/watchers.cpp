#include "store/watchers.h"

#include <atomic>
#include <list>
#include <map>
#include <mutex>

namespace nimbus::store {

struct Watchers::State {
  using Callbacks = std::list<std::function<void()>>;

  // Held while callbacks run: that is what makes the end of a watch wait for its callback.
  std::mutex mutex;
  std::map<std::string, Callbacks, std::less<>> by_partition;
  std::atomic<std::size_t> count = 0;  // so that a store nobody watches takes no lock
};

class Watchers::Registration final : public Watch {
 public:
  Registration(std::shared_ptr<State> state, std::string partition, std::function<void()> changed)
      : state_(std::move(state)), partition_(std::move(partition)) {
    const std::lock_guard lock(state_->mutex);
    State::Callbacks& callbacks = state_->by_partition[partition_];
    place_ = callbacks.insert(callbacks.end(), std::move(changed));
    ++state_->count;
  }
  ~Registration() override {
    const std::lock_guard lock(state_->mutex);
    const auto entry = state_->by_partition.find(partition_);
    entry->second.erase(place_);
    if (entry->second.empty()) state_->by_partition.erase(entry);
    --state_->count;
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  std::shared_ptr<State> state_;
  std::string partition_;
  State::Callbacks::iterator place_;
};

Watchers::Watchers() : state_(std::make_shared<State>()) {}

std::unique_ptr<Watch> Watchers::add(const Partition& partition, std::function<void()> changed) {
  return std::make_unique<Registration>(state_, partition.name(), std::move(changed));
}

void Watchers::notify(std::string_view partition) const {
  if (empty()) return;
  const std::lock_guard lock(state_->mutex);
  const auto entry = state_->by_partition.find(partition);
  if (entry == state_->by_partition.end()) return;
  for (const auto& changed : entry->second) changed();
}

void Watchers::notifyAll() const {
  if (empty()) return;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [partition, callbacks] : state_->by_partition) {
    for (const auto& changed : callbacks) changed();
  }
}

bool Watchers::empty() const {
  return state_->count.load() == 0;
}

}  // namespace nimbus::store
