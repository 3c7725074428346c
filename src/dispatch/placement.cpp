#include "dispatch/placement.h"

#include <numeric>
#include <utility>

namespace nimbus::dispatch {

Placer::Placer(Placement strategy, std::vector<unsigned> weights, std::size_t max_sessions)
    : strategy_(strategy),
      weights_(std::move(weights)),
      max_sessions_(max_sessions),
      total_weight_(std::accumulate(weights_.begin(), weights_.end(), 0.0)),
      ring_(strategy == Placement::ConsistentHash ? weights_ : std::vector<unsigned>()),
      credit_(weights_.size()) {}

std::optional<std::size_t> Placer::place(std::uint64_t hash,
                                         const std::function<std::size_t(std::size_t)>& sessions) {
  std::size_t worker = weights_.size();
  switch (strategy_) {
    case Placement::ConsistentHash:
      worker = byHash(hash, sessions);
      break;
    case Placement::RoundRobin:
      worker = inTurn(sessions);
      break;
    case Placement::LeastLoaded:
      worker = byLoad(sessions);
      break;
  }
  if (worker == weights_.size()) return std::nullopt;
  return worker;
}

std::size_t Placer::byHash(std::uint64_t hash,
                           const std::function<std::size_t(std::size_t)>& sessions) {
  double total = 1;  // the new one
  for (std::size_t i = 0; i < weights_.size(); ++i) total += static_cast<double>(sessions(i));
  const auto hasRoom = [&](std::size_t worker) {
    const std::size_t count = sessions(worker);
    const double share = total * weights_[worker] / total_weight_;
    return !isFull(count) && static_cast<double>(count) < kSlack * share;
  };
  const std::size_t found = ring_.find(hash, hasRoom);
  if (found != weights_.size()) return found;
  // Everyone with room is above its share: the others are full.
  return ring_.find(hash, [&](std::size_t worker) { return !isFull(sessions(worker)); });
}

// Everyone with room earns by its weight; who has most pays for all. With equal weights that is one
// after the other, with others it is as even as can be.
std::size_t Placer::inTurn(const std::function<std::size_t(std::size_t)>& sessions) {
  std::size_t richest = weights_.size();
  double earned = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (isFull(sessions(i)) || weights_[i] == 0) continue;
    credit_[i] += weights_[i];
    earned += weights_[i];
    if (richest == weights_.size() || credit_[i] > credit_[richest]) richest = i;
  }
  if (richest != weights_.size()) credit_[richest] -= earned;
  return richest;
}

std::size_t Placer::byLoad(const std::function<std::size_t(std::size_t)>& sessions) const {
  std::size_t best = weights_.size();
  double best_load = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::size_t count = sessions(i);
    if (isFull(count) || weights_[i] == 0) continue;
    const double load = static_cast<double>(count) / weights_[i];
    if (best == weights_.size() || load < best_load) {
      best = i;
      best_load = load;
    }
  }
  return best;
}

}  // namespace nimbus::dispatch
