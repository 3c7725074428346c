#pragma once
// What event logs need done while the server runs; see events/upkeep.h. Every instance does it:
// what one has done another finds done.

#include "base/task_group.h"
#include "events/sessions.h"
#include "store/store.h"

#include <boost/asio/any_io_executor.hpp>

namespace nimbus::server {

class EventUpkeep {
 public:
  // Works on `executor`. The others must outlive it.
  EventUpkeep(store::Store& store, events::Sessions& sessions,
              boost::asio::any_io_executor executor);

  void start();
  // Returns when nothing is under way any more.
  Task<> stop();

 private:
  Task<> carryOutIntents();
  Task<> removeExpired();
  Task<> pause(Millis time);

  store::Store& store_;
  events::Sessions& sessions_;
  const boost::asio::any_io_executor executor_;
  TaskGroup tasks_;
};

}  // namespace nimbus::server
