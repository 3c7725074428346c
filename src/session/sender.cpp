#include "session/sender.h"

#include "base/json_text.h"
#include "base/log.h"
#include "cluster/moved.h"
#include "session/backlog.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::session {
namespace {

// How soon a line is looked at again that could not be loaded, or whose receiver takes nothing.
constexpr Millis kSoon{1'000};

}  // namespace

Sender::Sender(Node& node, std::string function_id, const boost::asio::any_io_executor& executor,
               LineHost& host, Lines& lines)
    : node_(node),
      function_id_(std::move(function_id)),
      executor_(executor),
      host_(host),
      lines_(lines),
      group_(executor, "calls sent by " + function_id_) {}

void Sender::deliver(const std::string& key) {
  if (host_.isStopping() || !sending_.insert(key).second) return;
  group_.add(handOver(key));
}

Task<> Sender::handOver(std::string key) {
  // Not at once: what is to be sent is about to be committed.
  co_await boost::asio::post(executor_, boost::asio::use_awaitable);
  while (!host_.isStopping()) {
    Result<bool> more = true;
    if (const Result<ActivationPtr> activation = co_await lines_.active(key); !activation) {
      more = activation.error();
    } else {
      more = co_await handOverSome(*activation);
    }
    if (more && !*more) break;
    if (more) continue;
    if (cluster::movedIn(more.error())) break;  // its owner delivers it
    log::warn("what a function sent must wait",
              {{"function", function_id_}, {"session", key}, {"error", more.error().message()}});
    boost::asio::steady_timer pause(executor_, kSoon);
    co_await pause.async_wait(boost::asio::use_awaitable);
  }
  sending_.erase(key);
}

// False: nothing is left.
Task<Result<bool>> Sender::handOverSome(ActivationPtr activation) {
  Backlog& backlog = activation->itsBacklog();
  const std::size_t known = backlog.to_send;
  NIMBUS_CO_CHECK(co_await lines_.durable(activation));
  store::query::ScanQueue scan;
  scan.queue = kOutboxQueue;
  scan.limit = kWindow;
  NIMBUS_CO_TRY(const auto page, co_await store::ask<store::ItemPage>(
                                     node_.store, activation->partition, std::move(scan)));
  if (page.items.empty()) {
    backlog.to_send -= std::min(backlog.to_send, known);
    co_return backlog.to_send > 0;
  }
  for (const store::QueueItem& item : page.items) {
    NIMBUS_CO_CHECK(co_await handOverOne(item));
    if (activation->isDoomed()) co_return Error(Code::Fenced, "the session has another owner");
    store::Batch batch;
    batch.operations.emplace_back(store::op::Complete{kOutboxQueue, item.id});
    host_.commit(*activation, std::move(batch));
    if (backlog.to_send > 0) --backlog.to_send;
  }
  co_return true;
}

Task<Result<>> Sender::handOverOne(store::QueueItem item) {
  NIMBUS_CO_TRY(Delivery delivery, decodeSent(item.id, item.payload));
  delivery.call->function = node_.find(delivery.receiver);
  if (!delivery.call->function) {
    log::warn(
        "what a function sent has no receiver",
        {{"function", function_id_}, {"receiver", delivery.receiver}, {"request_id", item.id}});
    co_return co_await keepUnreceived(std::move(delivery));
  }
  delivery.call->timeout = delivery.call->function->timeout;
  NIMBUS_CO_CHECK(co_await node_.send(std::move(delivery.call), delivery.delay));
  co_return Result<>();
}

// It has failed; as long as that is known it can be replayed, when there is a receiver again.
Task<Result<>> Sender::keepUnreceived(Delivery delivery) {
  const Call& call = *delivery.call;
  const Timestamp now = node_.store.now();
  InvocationRecord record;
  record.function_id = delivery.receiver;
  record.session_key = call.session_key;
  record.status = InvocationRecord::Status::Failed;
  record.created_at = now;
  record.finished_at = now;
  Outcome outcome;
  outcome.error = Error(Code::NotFound,
                        fmt::format("there is no function \"{}\"", printable(delivery.receiver)));
  record.note(outcome);
  const LineName line{delivery.receiver,
                      call.session_key ? *call.session_key : laneOf(call.request_id)};
  QueuedRequest request;
  request.payload = call.payload;
  request.traceparent = call.traceparent;
  store::Batch batch;
  batch.conditions.emplace_back(store::require::QueueWithin{kCallQueue, kMostAside});
  batch.operations.emplace_back(
      store::op::Push{kCallQueue, call.request_id, request.toJson(), std::nullopt});
  batch.operations.emplace_back(putInvocation(call.request_id, record, now + node_.keep_parked));
  batch.listings.push_back(listInvocation(call.request_id, line));
  store::PendingCommit commit =
      node_.store.commit(goneInvocations(delivery.receiver), std::nullopt, std::move(batch));
  const auto kept = co_await commit.done();
  if (!kept && kept.error().code() != Code::QuotaExceeded) co_return kept.error();
  co_return Result<>();  // of too many nothing is kept but the line in the log
}

Task<> Sender::stop() {
  group_.cancel();
  co_await group_.join();
}

}  // namespace nimbus::session
