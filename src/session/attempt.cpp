#include "session/attempt.h"

#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace nimbus::session {
namespace {

using Status = InvocationRecord::Status;

// Part of a pause by which it is longer at random.
constexpr double kJitter = 0.1;
// An answer that says so, or more, is a failure.
constexpr int kFailing = 400;

Millis pauseAfter(std::uint32_t attempts, const Retry& retry, Random& random) {
  const double exact = static_cast<double>(retry.initial.count()) *
                       std::pow(std::max(retry.factor, 1.0), attempts - 1);
  const double most = std::min(exact, static_cast<double>(retry.max.count()));
  const double jitter = kJitter * static_cast<double>(random.below(1000)) / 1000;
  return Millis(static_cast<std::int64_t>(most * (1 + jitter)));
}

}  // namespace

Attempt::Attempt(Node& node, const LineHost& host, std::string id, InvocationRecord record)
    : node_(node), host_(host), id_(std::move(id)), record_(std::move(record)) {}

void Attempt::addTo(store::Batch& batch, const Call& call) {
  if (!isItsOwn(call)) return;
  const Timestamp now = node_.store.now();
  const Retry& retry = call.function->retry;
  ++record_.attempts;
  record_.note(call.outcome);
  if (call.is_cancelled) {
    record_.status = Status::Cancelled;
    end(batch, now);
  } else if (!call.outcome.error && call.outcome.status_code >= kFailing) {
    fail(batch, now);
  } else if (!call.outcome.error) {
    record_.status = Status::Succeeded;
    end(batch, now);
  } else if (record_.attempts < retry.max_attempts) {
    not_before_ = now + pauseAfter(record_.attempts, retry, node_.random);
    record_.status = Status::Retrying;
    decision_ = Decision::Again;
    batch.operations.emplace_back(store::op::Defer{kCallQueue, id_, not_before_});
    batch.operations.emplace_back(putInvocation(id_, record_, std::nullopt));
  } else {
    giveUp(batch, call, now);
  }
}

bool Attempt::isItsOwn(const Call& call) const {
  if (call.is_cancelled || !call.outcome.error) return true;
  const Code code = call.outcome.error->code();
  const bool was_cut_off = code == Code::FunctionCrashed && host_.isStopping();
  return !was_cut_off && code != Code::Unavailable;
}

void Attempt::end(store::Batch& batch, Timestamp now) {
  record_.finished_at = now;
  decision_ = Decision::Over;
  batch.operations.emplace_back(store::op::Complete{kCallQueue, id_});
  batch.operations.emplace_back(putInvocation(id_, record_, now + node_.keep_results));
}

void Attempt::fail(store::Batch& batch, Timestamp now) {
  record_.status = Status::Failed;
  record_.finished_at = now;
  decision_ = Decision::Failed;
  putAside(batch, now, fmt::format("status {}", record_.status_code));
}

void Attempt::putAside(store::Batch& batch, Timestamp now, std::string reason) {
  batch.operations.emplace_back(store::op::Park{kCallQueue, id_, std::move(reason)});
  batch.operations.emplace_back(putInvocation(id_, record_, now + node_.keep_parked));
}

void Attempt::giveUp(store::Batch& batch, const Call& call, Timestamp now) {
  record_.status = Status::Parked;
  record_.finished_at = now;
  const bool goes_aside = call.function->on_poison == OnPoison::Park || !call.session_key;
  decision_ = goes_aside ? Decision::Parked : Decision::Held;
  if (goes_aside) {
    putAside(batch, now, std::string(codeName(call.outcome.error->code())));
  } else {
    batch.operations.emplace_back(putInvocation(id_, record_, std::nullopt));
  }
  log::warn("an asynchronous call was given up", {{"function", call.function->id},
                                                  {"session", call.session_key.value_or("")},
                                                  {"request_id", id_},
                                                  {"attempts", record_.attempts},
                                                  {"code", codeName(call.outcome.error->code())}});
}

}  // namespace nimbus::session
