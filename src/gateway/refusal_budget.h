#pragma once
// Which refusals are recorded one by one, and which only by their number, so that nobody can fill
// the record by being refused.

#include "base/steady_clock.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::gateway {

// Any thread.
class RefusalBudget {
 public:
  // In every such stretch of time, and for each address, so many are recorded one by one.
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr std::uint64_t kPerAddress = 20;
  static constexpr std::uint64_t kTogether = 200;
  // Of more addresses than this only the sum is kept.
  static constexpr std::size_t kMostAddresses = 200;

  struct Count {
    std::string address;  // empty: of all whose own number was not kept
    std::uint64_t refusals = 0;
  };

  // True: it is to be recorded. False: it was counted.
  bool admit(std::string_view address, SteadyTime now);

  // What was counted since this was last asked.
  std::vector<Count> takeCounts();

 private:
  std::mutex mutex_;  // guards all of what follows
  SteadyTime window_begin_;
  std::uint64_t together_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> recorded_;
  std::map<std::string, std::uint64_t, std::less<>> counted_;
};

}  // namespace nimbus::gateway
