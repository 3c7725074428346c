#include "redis/cluster.h"

#include "base/log.h"
#include "base/one_shot.h"
#include "redis/slot.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace nimbus::redis {
namespace {

namespace asio = boost::asio;

// A map is asked for at most this often.
constexpr Millis kPause{100};

class MapRequest final : public Request {
 public:
  void onAnswer(Result<Value> answer) override { done.set(std::move(answer)); }

  OneShot<Result<Value>> done;
};

}  // namespace

Cluster::Cluster(asio::any_io_executor executor, Options options)
    : Client(std::move(executor), std::move(options)) {}

std::vector<Address> Cluster::primaries() const {
  return nodes_;
}

Connection* Cluster::route(const Request& request) {
  if (nodes_.empty()) return nullptr;
  const std::uint16_t owner = request.slot ? owners_.at(*request.slot) : 1;
  if (owner == 0) {
    lookAgain();
    return nullptr;
  }
  return &connectionTo(nodes_.at(owner - 1U));
}

Address Cluster::homeOf(const std::string& channel) const {
  const std::uint16_t owner = owners_.at(slotOf(channel));
  return owner == 0 ? options().addresses.front() : nodes_.at(owner - 1U);
}

void Cluster::onMoved(std::uint16_t slot, const Address& address) {
  auto known = std::find(nodes_.begin(), nodes_.end(), address);
  if (known == nodes_.end()) known = nodes_.insert(nodes_.end(), address);
  owners_.at(slot) = static_cast<std::uint16_t>(known - nodes_.begin() + 1);
  lookAgain();
}

void Cluster::lookAgain() {
  again_ = true;
  if (refreshing_ || stopped()) return;
  refreshing_ = true;
  tasks().add(refresh());
}

// Whoever is known, and whoever we were told of in the beginning.
std::vector<Address> Cluster::candidates() const {
  std::vector<Address> all;
  for (const Address& node : nodes_) {
    const auto found = connections().find(node);
    if (found != connections().end() && found->second->isUp()) all.push_back(node);
  }
  for (const auto* more : {&nodes_, &options().addresses}) {
    for (const Address& node : *more) {
      if (std::find(all.begin(), all.end(), node) == all.end()) all.push_back(node);
    }
  }
  return all;
}

Task<> Cluster::refresh() {
  while (again_ && !stopped()) {
    again_ = false;
    bool learned = false;
    for (const Address& node : candidates()) {
      learned = co_await refreshFrom(node);
      if (learned || stopped()) break;
    }
    again_ = again_ || !learned;
    asio::steady_timer timer(executor(), kPause);
    co_await timer.async_wait(asio::use_awaitable);
  }
  refreshing_ = false;
}

Task<bool> Cluster::refreshFrom(Address node) {
  auto request = std::make_shared<MapRequest>();
  request->bytes = Command("CLUSTER").add("SLOTS").bytes();
  request->node = node;
  request->deadline = std::chrono::steady_clock::now() + Millis(500);
  request->repeatable = true;
  send(request);
  const auto answer = co_await request->done.wait(request);
  co_return answer&& learn(*answer, node);
}

bool Cluster::learn(const Value& slots, const Address& from) {
  std::vector<Address> nodes;
  std::array<std::uint16_t, kSlots> owners{};
  for (const Value& range : slots.items) {
    if (range.items.size() < 3 || range.items[2].items.size() < 2) return false;
    const Value& primary = range.items[2];
    Address address{primary.items[0].text, static_cast<std::uint16_t>(primary.items[1].integer)};
    if (address.host.empty() || address.host == "?") address.host = from.host;
    auto known = std::find(nodes.begin(), nodes.end(), address);
    if (known == nodes.end()) known = nodes.insert(nodes.end(), address);
    const auto owner = static_cast<std::uint16_t>(known - nodes.begin() + 1);
    const auto first = std::clamp<std::int64_t>(range.items[0].integer, 0, kSlots - 1);
    const auto last = std::clamp<std::int64_t>(range.items[1].integer, 0, kSlots - 1);
    for (std::int64_t slot = first; slot <= last; ++slot) {
      owners.at(static_cast<std::size_t>(slot)) = owner;
    }
  }
  if (nodes.empty()) return false;
  const bool changed = owners != owners_ || nodes != nodes_;
  const auto old = std::exchange(nodes_, std::move(nodes));
  owners_ = owners;
  for (const Address& node : old) {
    if (std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end()) drop(node);
  }
  if (changed) {
    log::info("the map of the Redis Cluster is known", {{"primaries", nodes_.size()}});
    resubscribeAll();
  }
  return true;
}

}  // namespace nimbus::redis
