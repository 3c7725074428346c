#include "store/watchers.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace nimbus::store {

// One callback. Several threads may want to call it at the same moment; it runs once at a time.
class Watchers::Watcher {
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

struct Watchers::State {
  std::mutex mutex;
  std::multimap<std::string, std::shared_ptr<Watcher>, std::less<>> by_partition;
  std::atomic<std::size_t> count = 0;  // so that a store nobody watches takes no lock
};

class Watchers::Registration final : public Watch {
 public:
  Registration(std::shared_ptr<State> state, std::string partition, std::function<void()> changed)
      : state_(std::move(state)) {
    const std::lock_guard lock(state_->mutex);
    place_ = state_->by_partition.emplace(std::move(partition),
                                          std::make_shared<Watcher>(std::move(changed)));
    ++state_->count;
  }
  ~Registration() override {
    std::shared_ptr<Watcher> watcher;
    {
      const std::lock_guard lock(state_->mutex);
      watcher = std::move(place_->second);
      state_->by_partition.erase(place_);
      --state_->count;
    }
    watcher->end();
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  std::shared_ptr<State> state_;
  decltype(State::by_partition)::iterator place_;
};

Watchers::Watchers() : state_(std::make_shared<State>()) {}

std::unique_ptr<Watch> Watchers::add(const Partition& partition, std::function<void()> changed) {
  return std::make_unique<Registration>(state_, partition.name(), std::move(changed));
}

void Watchers::notify(std::string_view partition) const {
  if (empty()) return;
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const std::lock_guard lock(state_->mutex);
    const auto [begin, end] = state_->by_partition.equal_range(partition);
    for (auto place = begin; place != end; ++place) watchers.push_back(place->second);
  }
  for (const auto& watcher : watchers) watcher->call();
}

void Watchers::notifyAll() const {
  if (empty()) return;
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [partition, watcher] : state_->by_partition) watchers.push_back(watcher);
  }
  for (const auto& watcher : watchers) watcher->call();
}

bool Watchers::empty() const {
  return state_->count.load() == 0;
}

}  // namespace nimbus::store
