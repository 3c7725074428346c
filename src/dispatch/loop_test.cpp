// Workers on event loops of the program, sessions placed by it, and bounds given with a task.

#include "dispatch/testing/fixture.h"
#include "dispatch/testing/loops.h"

#include <algorithm>
#include <set>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class LoopTest : public DispatchTest {
 protected:
  // After the fixture's destructor has shut the dispatcher down nothing may run any more; here it
  // must still.
  ~LoopTest() override {
    for (const Latch& latch : opened_at_end_) latch.open();
    dispatcher().shutdown();
    loops_.stop();
  }

  void startOnLoops() {
    config_.pool_size = 3;  // the third shares the loop of the first
    config_.place = [](std::string_view session_id, std::size_t) {
      return static_cast<std::size_t>(session_id.front() - 'a');
    };
    loops_.serve(config_);
    loops_.begin(start());
  }

  Task whereItRuns(std::string id, std::string session) {
    return makeTask(std::move(id), std::move(session), [this](const Task&, const std::stop_token&) {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      return TaskOutcome::ok();
    });
  }

  Loops loops_{2};
  std::vector<Latch> opened_at_end_;
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

TEST_F(LoopTest, TasksRunInOrderOnTheThreadOfTheirWorker) {
  startOnLoops();
  for (int i = 0; i < 50; ++i) submit(whereItRuns("t" + std::to_string(i), "b-session"));
  resultOf("t49");
  EXPECT_THAT(threads_, ElementsAre(loops_.threadOf(1)));
}

TEST_F(LoopTest, TheProgramMayChooseTheWorker) {
  startOnLoops();
  submit(whereItRuns("one", "a-1"));
  submit(whereItRuns("two", "a-2"));
  resultOf("one");
  resultOf("two");
  EXPECT_THAT(threads_, ElementsAre(loops_.threadOf(0)));
  EXPECT_EQ(dispatcher().session("a-2")->worker_id, "worker-0");
}

TEST_F(LoopTest, ALongLineLetsOthersHaveTheLoopNowAndThen) {
  config_.queue_size = 0;
  startOnLoops();
  const Latch begun;
  const Latch go;
  opened_at_end_.push_back(go);
  submit(makeTask("first", "a", [&](const Task&, const std::stop_token&) {
    begun.open();
    go.wait();
    return TaskOutcome::ok();
  }));
  ASSERT_TRUE(begun.wait());
  for (int i = 0; i < 1000; ++i) {
    submit(makeTask("n" + std::to_string(i), "a", [this](const Task& task, const std::stop_token&) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
      while (std::chrono::steady_clock::now() < until) {
      }
      journal_.add(task.id);
      return TaskOutcome::ok();
    }));
  }
  submit(noting("neighbour", "c"));  // of another worker on the same loop
  go.open();
  resultOf("n999");
  ASSERT_TRUE(journal_.waitFor("neighbour"));
  const std::vector<std::string> entries = journal_.entries();
  EXPECT_LT(std::find(entries.begin(), entries.end(), "neighbour"),
            std::find(entries.begin(), entries.end(), "n999"));
}

TEST_F(LoopTest, ATaskMayBringItsOwnBound) {
  config_.session_queue_size = 100;
  startOnLoops();
  const Latch go;
  opened_at_end_.push_back(go);
  submit(blocking("running", "a", go));
  ASSERT_TRUE(journal_.waitFor("running"));
  Task only_if_idle = noting("picky", "a");
  only_if_idle.session_queue_size = 1;
  EXPECT_EQ(dispatcher().submit(only_if_idle), SubmitStatus::QueueFull);
  Task one_waits = noting("second", "a");
  one_waits.session_queue_size = 2;
  EXPECT_EQ(dispatcher().submit(one_waits), SubmitStatus::Accepted);
  go.open();
  resultOf("second");
  // The count goes down just after the end is told.
  EXPECT_TRUE(eventually(
      [&] { return dispatcher().submit(Task(only_if_idle)) == SubmitStatus::Accepted; }));
  resultOf("picky");
  EXPECT_THAT(journal_.entries(), ElementsAre("running", "second", "picky"));
}

TEST_F(LoopTest, AShutdownWaitsForTheLoops) {
  startOnLoops();
  for (int i = 0; i < 300; ++i) submit(noting("n" + std::to_string(i), "a"));
  const ShutdownReport report = dispatcher().shutdown();
  EXPECT_THAT(report.not_run, SizeIs(0));
  EXPECT_THAT(journal_.entries(), SizeIs(300));
}

}  // namespace
}  // namespace nimbus::dispatch
