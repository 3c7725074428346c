// Calls among several nodes: what is served here, what is handed to others.

#include "cluster/moved.h"
#include "session/calls.h"
#include "session/shard.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace nimbus::session {
namespace {

// How often it is looked whether nodes came or went, and sessions can be let go.
constexpr Millis kLookAtMembers{200};
constexpr Millis kLookWhileLeaving{10};

}  // namespace

Result<> Calls::checkElsewhere(std::string_view function_id, std::string_view session_key) {
  auto owner = node_.members->elsewhere().find(function_id, session_key);
  if (!owner) return {};
  return cluster::movedTo({*std::move(owner), std::string(function_id), std::string(session_key)});
}

Task<Result<bool>> Calls::isOwnedOn(Shard& shard, LineName line) {
  const auto host = shard.hosts.find(line.function_id);
  co_return host != shard.hosts.end() && host->second->surelyOwns(line.key);
}

// Of a line that was found to belong to `owner`.
Task<Result<>> Calls::mustBePlacedHere(std::string owner, LineName line) {
  if (node_.members == nullptr) co_return Result<>();
  NIMBUS_CO_TRY(const cluster::Members::Place place,
                co_await node_.members->place(std::move(owner),
                                              cluster::pointOf(line.function_id, line.key)));
  if (place.is_here) co_return Result<>();
  co_return cluster::movedTo({place.owner, line.function_id, line.key});
}

// What nobody owns, or nobody who is alive, may be dealt with here.
Task<Result<>> Calls::mustBeHere(LineName line) {
  if (node_.members == nullptr || !node_.members->hasOthers()) co_return Result<>();
  Shard& shard = *shards_[shardOf(line.function_id)];
  NIMBUS_CO_TRY(const bool is_owned, co_await on(shard.executor, isOwnedOn(shard, line)));
  if (is_owned) co_return Result<>();
  NIMBUS_CO_TRY(const auto stored,
                co_await store::getRecord(node_.store, linePartition(line.function_id, line.key),
                                          kSessionSpace, kSessionRecord));
  if (!stored) co_return Result<>();
  NIMBUS_CO_TRY(const SessionRecord record, SessionRecord::fromJson(stored->value));
  if (record.owner.empty()) co_return Result<>();
  NIMBUS_CO_TRY(
      const cluster::Members::Place place,
      co_await node_.members->place(record.owner, cluster::pointOf(line.function_id, line.key)));
  if (place.owner != record.owner) co_return Result<>();
  co_return cluster::movedTo({place.owner, line.function_id, line.key});
}

Task<Result<std::uint64_t>> Calls::sendAnywhere(CallPtr call, Millis delay) {
  Result<std::uint64_t> taken = co_await accept(call, delay);
  if (taken || !forward_) co_return taken;
  std::optional<cluster::Moved> moved = cluster::movedIn(taken.error());
  if (!moved) co_return taken;
  co_return co_await forward_(*std::move(moved), std::move(call), delay);
}

Task<Result<>> Calls::retire(std::string function_id) {
  Shard& shard = *shards_[shardOf(function_id)];
  co_return co_await on(shard.executor, retireOn(shard, std::move(function_id)));
}

// ---- Nodes that come and go

Task<Result<std::size_t>> Calls::handOverOn(Shard& shard) {
  std::size_t left = 0;
  for (const auto& [id, host] : shard.hosts) left += host->handOver(FunctionHost::Reason::Leaving);
  co_return left;
}

Task<> Calls::handOver(Millis patience) {
  const SteadyTime deadline = node_.clock.now() + patience;
  while (node_.members != nullptr && node_.members->hasOthers() && node_.clock.now() < deadline) {
    std::size_t left = 0;
    for (const auto& shard : shards_) {
      const auto some = co_await on(shard->executor, handOverOn(*shard));
      if (some) left += *some;
    }
    if (left == 0) co_return;
    co_await pause(kLookWhileLeaving);
  }
}

// What a node has left behind is gone on with by whoever it falls to.
Task<> Calls::followMembers() {
  if (node_.members == nullptr) co_return;
  std::uint64_t seen = node_.members->changes();
  while (true) {
    co_await pause(kLookAtMembers);
    if (std::exchange(seen, node_.members->changes()) == node_.members->changes()) continue;
    co_await resumeWork();
    lookForDue();
  }
}

}  // namespace nimbus::session
