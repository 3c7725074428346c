// What a call does with the event log of its session: app = function id, user = "_", session = the
// session's key. What it appends is committed with the call; what it reads is what was durable, and
// all that calls of the session before it did is waited for.

#include "base/json_text.h"
#include "events/call_append.h"
#include "runtime/frame.h"
#include "session/function_host.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace nimbus::session {
namespace {

constexpr std::int64_t kMostRecent = 1000;

events::SessionName logOf(const Call& call) {
  return {call.function->id, std::string(events::kFunctionUser), *call.session_key};
}

void failEvents(Ending& ending, const std::string& why) {
  ending.kind = Ending::Kind::Raised;
  ending.failure = FunctionFailure{"EventError", why, ""};
}

void writeRecent(std::string& out, std::uint64_t request, std::int64_t id,
                 const Result<std::vector<std::string>>& events) {
  runtime::FrameWriter writer(out, runtime::FrameType::State, request,
                              1 + (events ? events->size() : 0));
  fmt::format_to(std::back_inserter(out), R"({{"id":{},"success":{})", id, events.has_value());
  if (!events) {
    out += R"(,"error":)";
    appendJsonString(out, codeName(events.error().code()));
    out += R"(,"message":)";
    appendJsonString(out, events.error().message());
  }
  out += '}';
  writer.endSegment();
  if (events) {
    for (const std::string& event : *events) writer.segment(event);
  }
  writer.finish();
}

}  // namespace

// Settles a call of ours, in the same way as those that wait for their answers.
Task<Result<>> FunctionHost::whenDurable(CallPtr call, GatePtr gate) {
  CallPtr probe(new Call);
  probe->function = call->function;
  probe->request_id = call->request_id;
  probe->session_key = call->session_key;
  gate->settle(probe);
  co_await probe->settled.wait();
  if (probe->outcome.error) co_return *probe->outcome.error;
  co_return Result<>();
}

bool FunctionHost::appendsEvents(const Pool::Running& running) const {
  const Ending& ending = running.ending;
  const bool raised = ending.kind == Ending::Kind::Raised;
  return ending.kind == Ending::Kind::Returned ||
         (raised && running.call->function->on_error == OnError::Keep);
}

dispatch::Signal<bool> FunctionHost::planEvents(Pool::Running& running, ActivationPtr activation) {
  dispatch::Signal<bool> planned;
  if (!appendsEvents(running)) {
    planned.set(false);
  } else if (!activation) {
    failEvents(running.ending, "a call without a session has no event log");
    planned.set(false);
  } else {
    group_.add(planEvents(running, std::move(activation), planned));
  }
  return planned;
}

// `running` lies with the call, which waits for `planned`.
Task<> FunctionHost::planEvents(Pool::Running& running, ActivationPtr activation,
                                dispatch::Signal<bool> planned) {
  Ending& ending = running.ending;
  // If what came before is lost, so is this call; the gate of its own commit will say so.
  static_cast<void>(co_await whenDurable(running.call, activation->newest));
  Result<events::CallAppend> append = co_await events::planCallAppend(
      node_.store, node_.random, logOf(*running.call), std::move(ending.events));
  if (append) {
    ending.append = *std::move(append);
  } else {
    failEvents(ending, append.error().message());
  }
  planned.set(true);
}

Task<> FunctionHost::settleAfterIntent(CallPtr call, GatePtr durable, events::Intent intent) {
  const Result<> committed = co_await whenDurable(call, durable);
  if (committed) {
    const Result<> done = co_await events::carryOut(node_.store, logOf(*call), std::move(intent));
    // It will be carried out by upkeep; the call itself is durable.
    if (!done) {
      call->fail(Error(done.error().code(), done.error().message(), nimbus::Outcome::Applied));
      co_return;
    }
  }
  durable->settle(call);
}

Task<> FunctionHost::replyRecentEvents(std::shared_ptr<runtime::Instance> instance,
                                       std::uint64_t request, std::int64_t id, std::int64_t count,
                                       CallPtr call) {
  Result<std::vector<std::string>> recent =
      Error(Code::InvalidArgument, "a call without a session has no event log");
  const auto found = call->session_key ? activations_.find(*call->session_key) : activations_.end();
  if (count < 1 || count > kMostRecent) {
    recent = Error(Code::InvalidArgument, fmt::format("1 to {} events can be read", kMostRecent));
  } else if (found != activations_.end()) {
    const GatePtr newest = found->second->newest;
    const Result<> durable = co_await whenDurable(call, newest);
    if (durable) {
      recent =
          co_await events::recentEvents(node_.store, logOf(*call), static_cast<std::size_t>(count));
    } else {
      recent = durable.error();
    }
  }
  writeRecent(instance->outgoing(), request, id, recent);
  instance->flushSoon();
}

}  // namespace nimbus::session
