#pragma once
// Which worker a new session gets.

#include "dispatch/ring.h"

#include <nimbus/dispatch/config.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace nimbus::dispatch {

class Placer {
 public:
  // `max_sessions` per worker, 0: no bound.
  Placer(Placement strategy, std::vector<unsigned> weights, std::size_t max_sessions);

  // The number of a worker; nothing if all are full. `sessions` says how many each has.
  std::optional<std::size_t> place(std::uint64_t hash,
                                   const std::function<std::size_t(std::size_t)>& sessions);

 private:
  // How far a worker may be above its share of the sessions before the next on the ring takes one.
  static constexpr double kSlack = 1.15;

  std::size_t byHash(std::uint64_t hash, const std::function<std::size_t(std::size_t)>& sessions);
  std::size_t inTurn(const std::function<std::size_t(std::size_t)>& sessions);
  std::size_t byLoad(const std::function<std::size_t(std::size_t)>& sessions) const;
  bool isFull(std::size_t sessions) const {
    return max_sessions_ != 0 && sessions >= max_sessions_;
  }

  const Placement strategy_;
  const std::vector<unsigned> weights_;
  const std::size_t max_sessions_;
  const double total_weight_;
  const Ring ring_;
  std::vector<double> credit_;  // of each worker, in round robin
};

}  // namespace nimbus::dispatch
