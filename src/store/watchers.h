#pragma once
// Who wants to hear of changes to which partition. Shared by the backends that notice changes
// themselves.

#include "store/store.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::store {

// Safe from any thread.
class Watchers {
 public:
  Watchers();

  // The Watch may outlive the Watchers.
  std::unique_ptr<Watch> add(const Partition& partition, std::function<void()> changed);

  void notify(std::string_view partition) const;
  void notifyAll() const;
  bool empty() const;

 private:
  class Watcher;
  class Registration;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace nimbus::store
