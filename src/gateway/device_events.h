#pragma once
// What was sent to a device and waits to be fetched, from any process.
//
// Events of a device are a log of the store. They are numbered without gaps, so what was dropped
// before a device could fetch it is counted by the numbers that are missing.

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "store/store.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::gateway {

// Any thread. `store` must outlive it.
class DeviceEvents {
 public:
  static constexpr std::uint64_t kMostKept = 1000;
  static constexpr std::chrono::hours kKeptFor{24};

  explicit DeviceEvents(store::Store& store) : store_(store) {}

  // `event` is an object in JSON, with `created_at`; its number is the answer. Durable then.
  Task<Result<store::Seq>> append(std::string device, std::string id, std::string event);

  struct Poll {
    store::Seq since = 0;
    std::optional<store::Seq> ack;
    std::size_t limit = 100;
    Millis wait{0};
  };
  struct Fetched {
    std::vector<std::string> events;  // as JSON
    store::Seq cursor = 0;            // up to here: to be given as `since`, or acknowledged
    std::uint64_t dropped = 0;        // before these, and never fetched
  };
  // The events after `since`, and after all that was acknowledged. If there are none it waits for
  // some, in its own time. InvalidArgument if `since` or `ack` are of no event there was.
  Task<Result<Fetched>> poll(std::string device, Poll poll);

  // Forgets all.
  Task<Result<>> remove(std::string device);

 private:
  Task<Result<Fetched>> fetch(std::string device, Poll poll);
  Task<Result<>> acknowledge(std::string device, store::Seq seq,
                             std::optional<store::Record> before);

  store::Store& store_;
};

}  // namespace nimbus::gateway
