#pragma once
// Words to write batches with: commit(put("s", "k", "v"), append("l", "e1")).

#include "store/batch.h"

#include <concepts>
#include <string>
#include <utility>
#include <vector>

namespace nimbus::store::conformance {

inline op::Put put(std::string space, std::string key, std::string value = "value") {
  return {std::move(space), std::move(key), std::move(value), {}, {}};
}
inline op::Erase erase(std::string space, std::string key) {
  return {std::move(space), std::move(key), {}};
}
inline op::EraseSpace eraseSpace(std::string space) {
  return {std::move(space)};
}
inline op::Add add(std::string space, std::string key, std::int64_t delta) {
  return {.space = std::move(space), .key = std::move(key), .delta = delta, .expected = {}};
}
inline op::Touch touch(std::string space, std::string key, std::optional<Timestamp> expires_at) {
  return {std::move(space), std::move(key), expires_at, {}};
}

inline op::Append append(std::string log, std::string id, std::vector<Term> terms = {},
                         std::string value = "value", std::string fingerprint = "print") {
  return {std::move(log), std::move(id), std::move(value), std::move(terms),
          std::move(fingerprint)};
}
inline op::Amend amend(std::string log, std::string id, std::vector<Term> terms = {},
                       std::string value = "amended") {
  return {std::move(log), std::move(id), std::move(value), std::move(terms), {}};
}
inline op::Remove remove(std::string log, std::string id) {
  return {std::move(log), std::move(id), {}};
}
inline op::RemoveRange removeRange(std::string log, Seq from, Seq to) {
  return {std::move(log), from, to};
}
inline op::RemoveTerm removeTerm(std::string log, std::string index, std::string value) {
  return {std::move(log), {std::move(index), std::move(value)}};
}
inline op::DropLog dropLog(std::string log) {
  return {std::move(log)};
}

inline op::Acquire acquire(std::string lease, std::string holder,
                           std::optional<Millis> ttl = std::nullopt, std::uint64_t nonce = 7) {
  return {std::move(lease), std::move(holder), nonce, ttl, {}};
}
inline op::Acquire takeOver(op::Acquire acquire, Token token) {
  acquire.take_over = token;
  return acquire;
}
inline op::Renew renew(std::string lease, Token token, std::optional<Millis> ttl = std::nullopt) {
  return {std::move(lease), token, ttl};
}
inline op::Release release(std::string lease, Token token) {
  return {std::move(lease), token};
}

inline op::Push push(std::string queue, std::string id, std::string payload = "payload") {
  return {std::move(queue), std::move(id), std::move(payload), {}};
}
inline op::Push schedule(std::string queue, std::string id, Timestamp due_at) {
  return {std::move(queue), std::move(id), "payload", due_at};
}
inline op::Join join(std::string queue, std::string id) {
  return {std::move(queue), std::move(id)};
}
inline op::Defer defer(std::string queue, std::string id, Timestamp not_before = {}) {
  return {std::move(queue), std::move(id), not_before};
}
inline op::Complete complete(std::string queue, std::string id) {
  return {std::move(queue), std::move(id)};
}
inline op::Park park(std::string queue, std::string id, std::string reason = "reason") {
  return {std::move(queue), std::move(id), std::move(reason)};
}
inline op::Revive revive(std::string queue, std::string id) {
  return {std::move(queue), std::move(id)};
}

inline op::Take take(std::string limiter, std::chrono::microseconds interval, std::uint64_t burst,
                     std::uint64_t cost = 1) {
  return {std::move(limiter), interval, burst, cost};
}

inline Listing list(std::string directory, std::string key, std::string value = "value") {
  return {std::move(directory), std::move(key), std::move(value)};
}
inline Listing unlist(std::string directory, std::string key) {
  return {std::move(directory), std::move(key), {}};
}

template <typename O>
O expecting(O operation, Version version) {
  operation.expected = version;
  return operation;
}
// The version that the record takes.
template <typename O>
O withVersion(O operation, Version version) {
  operation.version = version;
  return operation;
}
// The highest version that what is removed was given.
template <typename O>
O withLast(O operation, Version last) {
  operation.last = last;
  return operation;
}
template <typename O>
O expiring(O operation, std::optional<Timestamp> at) {
  operation.expiry = {.at = at, .keep_existing = false};
  return operation;
}
// Expires then if the write creates the record, and else when it would have anyway.
template <typename O>
O expiringIfNew(O operation, std::optional<Timestamp> at) {
  operation.expiry = {.at = at, .keep_existing = true};
  return operation;
}

template <typename... Parts>
Batch batch(Parts... parts) {
  Batch batch;
  const auto add = [&batch](auto part) {
    using Part = decltype(part);
    if constexpr (std::same_as<Part, Listing>) {
      batch.listings.push_back(std::move(part));
    } else if constexpr (std::convertible_to<Part, Condition>) {
      batch.conditions.emplace_back(std::move(part));
    } else {
      batch.operations.emplace_back(std::move(part));
    }
  };
  (add(std::move(parts)), ...);
  return batch;
}

}  // namespace nimbus::store::conformance
