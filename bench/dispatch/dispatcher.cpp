#include "contender.h"

#include <nimbus/dispatch.h>

namespace nimbus::bench {
namespace {

enum class Ids { No, Yes };

class WithDispatcher final : public Contender {
 public:
  WithDispatcher(unsigned workers, Counter& counter, Ids ids)
      : ids_(ids), dispatcher_(config(workers), [&](const dispatch::Task&, const std::stop_token&) {
          counter.done.fetch_add(1, std::memory_order_relaxed);
          return dispatch::TaskOutcome::ok();
        }) {}

  void submit(const std::string& session) override {
    dispatch::Task task;
    task.session_id = session;
    if (ids_ == Ids::Yes) task.id = std::to_string(++last_id_);
    dispatcher_.submit(std::move(task));
  }

 private:
  static dispatch::DispatcherConfig config(unsigned workers) {
    dispatch::DispatcherConfig config;
    config.pool_size = workers;
    config.queue_size = 0;  // the others have no bound either
    return config;
  }

  const Ids ids_;
  std::uint64_t last_id_ = 0;
  dispatch::Dispatcher dispatcher_;
};

}  // namespace

std::unique_ptr<Contender> makeDispatcher(unsigned workers, const Names&, Counter& counter) {
  return std::make_unique<WithDispatcher>(workers, counter, Ids::No);
}

std::unique_ptr<Contender> makeNamedDispatcher(unsigned workers, const Names&, Counter& counter) {
  return std::make_unique<WithDispatcher>(workers, counter, Ids::Yes);
}

}  // namespace nimbus::bench
