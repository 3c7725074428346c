#pragma once
// What the tests of a dispatcher share: tasks that carry their own work, latches that own every
// interleaving, and a journal of what happened. Nothing here sleeps to prove something; what must
// happen is waited for with a deadline that only a broken dispatcher reaches.

#include <gmock/gmock.h>
#include <nimbus/dispatch/dispatcher.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nimbus::dispatch {

// How long a test waits for what must happen.
inline constexpr Duration kLong = std::chrono::seconds(30);

// Asks again and again, until `is_so` says yes or the time is over.
template <typename Predicate>
bool eventually(Predicate&& is_so) {
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

// Closed until it is opened. Copies are the same latch.
class Latch {
 public:
  Latch() : state_(std::make_shared<State>()) {}

  void open() const {
    {
      const std::lock_guard lock(state_->mutex);
      state_->open = true;
    }
    state_->changed.notify_all();
  }

  bool wait(Duration patience = kLong) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, patience, [&] { return state_->open; });
  }

  bool isOpen() const {
    const std::lock_guard lock(state_->mutex);
    return state_->open;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  std::shared_ptr<State> state_;
};

// What happened, in order. Copies are the same journal.
class Journal {
 public:
  Journal() : state_(std::make_shared<State>()) {}

  void add(std::string entry) const {
    {
      const std::lock_guard lock(state_->mutex);
      state_->entries.push_back(std::move(entry));
    }
    state_->changed.notify_all();
  }

  std::vector<std::string> entries() const {
    const std::lock_guard lock(state_->mutex);
    return state_->entries;
  }

  std::size_t size() const { return entries().size(); }

  bool has(const std::string& entry) const {
    const auto all = entries();
    return std::find(all.begin(), all.end(), entry) != all.end();
  }

  bool waitForSize(std::size_t count) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, kLong, [&] { return state_->entries.size() >= count; });
  }

  bool waitFor(const std::string& entry) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, kLong, [&] {
      return std::find(state_->entries.begin(), state_->entries.end(), entry) !=
             state_->entries.end();
    });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> entries;
  };
  std::shared_ptr<State> state_;
};

// What a task does; its payload.
using Work = std::function<TaskOutcome(const Task& task, std::stop_token stop)>;

inline TaskOutcome runPayload(const Task& task, std::stop_token stop) {
  const Work* const work = std::any_cast<Work>(&task.payload);
  if (work == nullptr) return TaskOutcome::ok(task.payload);
  return (*work)(task, std::move(stop));
}

inline Task makeTask(std::string id, std::string session, Work work) {
  Task task;
  task.id = std::move(id);
  task.session_id = std::move(session);
  task.payload = std::move(work);
  return task;
}

inline bool waitForStop(const std::stop_token& stop) {
  const Latch stopped;
  const std::stop_callback opens(stop, [stopped] { stopped.open(); });
  return stopped.wait();
}

class DispatchTest : public ::testing::Test {
 protected:
  DispatchTest() {
    config_.pool_size = 1;
    config_.quantum_time = std::chrono::hours(1);  // turns end by count, however slow the machine
  }

  ~DispatchTest() override {
    for (const Latch& latch : latches_) latch.open();
    if (dispatcher_) dispatcher_->shutdown();
  }

  // Opened at the end of the test at the latest.
  Latch latch() { return latches_.emplace_back(); }

  Dispatcher& start() {
    dispatcher_ = std::make_unique<Dispatcher>(config_, Dispatcher::Handler(runPayload));
    return *dispatcher_;
  }

  Dispatcher& startAsync(Dispatcher::AsyncHandler handler) {
    dispatcher_ = std::make_unique<Dispatcher>(config_, std::move(handler));
    return *dispatcher_;
  }

  Dispatcher& dispatcher() { return *dispatcher_; }

  // Writes its id into the journal. However slow the machine is, it is in time.
  Task noting(std::string id, std::string session) const {
    Task task = makeTask(std::move(id), std::move(session),
                         [journal = journal_](const Task& noted, const std::stop_token&) {
                           journal.add(noted.id);
                           return TaskOutcome::ok();
                         });
    task.timeout = Duration::zero();
    return task;
  }

  // Writes its id into the journal, then runs until `latch` is open, whatever the stop_token says.
  Task blocking(std::string id, std::string session, Latch latch) const {
    return makeTask(std::move(id), std::move(session),
                    [journal = journal_, latch](const Task& task, const std::stop_token&) {
                      journal.add(task.id);
                      latch.wait();
                      return TaskOutcome::ok();
                    });
  }

  Task failing(std::string id, std::string session, std::string message = "no") const {
    return makeTask(std::move(id), std::move(session),
                    [journal = journal_, message](const Task& task, const std::stop_token&) {
                      journal.add(task.id);
                      return TaskOutcome::fail(message);
                    });
  }

  Task obedient(std::string id, std::string session) const {
    return makeTask(std::move(id), std::move(session),
                    [journal = journal_](const Task& task, const std::stop_token& stop) {
                      journal.add(task.id);
                      waitForStop(stop);
                      return TaskOutcome::ok();
                    });
  }

  SubmitStatus submit(Task task) { return dispatcher_->submit(std::move(task)); }

  // Puts the only worker into a task of a session of its own, until the latch is opened.
  Latch occupy() {
    const Latch release = latch();
    EXPECT_EQ(submit(blocking("occupied", "occupier", release)), SubmitStatus::Accepted);
    EXPECT_TRUE(journal_.waitFor("occupied"));
    return release;
  }

  TaskResult resultOf(const std::string& id) {
    auto result = dispatcher_->wait(id, kLong);
    EXPECT_TRUE(result.has_value()) << id;
    return result.value_or(TaskResult());
  }

  TaskError::Code errorOf(const std::string& id) {
    const TaskResult result = resultOf(id);
    EXPECT_TRUE(result.error.has_value()) << id;
    return result.error.value_or(TaskError()).code;
  }

  DispatcherConfig config_;
  Journal journal_;

 private:
  std::vector<Latch> latches_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

}  // namespace nimbus::dispatch
