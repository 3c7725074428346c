// An event-based actor per session.

#include "contender.h"

#include <caf/all.hpp>

#include <unordered_map>

namespace nimbus::bench {
namespace {

class CafActors final : public Contender {
 public:
  CafActors(unsigned workers, const Names& names, Counter& counter) : system_(configured(workers)) {
    for (const std::string& name : names) {
      actors_.emplace(name, system_.spawn([&counter]() -> caf::behavior {
        return {[&counter](int) { counter.done.fetch_add(1, std::memory_order_relaxed); }};
      }));
    }
  }
  ~CafActors() override {
    for (auto& [name, actor] : actors_) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  CafActors(const CafActors&) = delete;
  CafActors& operator=(const CafActors&) = delete;

  void submit(const std::string& session) override {
    caf::anon_send(actors_.find(session)->second, 1);
  }

 private:
  caf::actor_system_config& configured(unsigned workers) {
    config_.set("scheduler.max-threads", static_cast<std::uint64_t>(workers));
    return config_;
  }

  caf::actor_system_config config_;
  caf::actor_system system_;
  std::unordered_map<std::string, caf::actor> actors_;
};

}  // namespace

std::unique_ptr<Contender> makeCafActors(unsigned workers, const Names& names, Counter& counter) {
  return std::make_unique<CafActors>(workers, names, counter);
}

}  // namespace nimbus::bench
