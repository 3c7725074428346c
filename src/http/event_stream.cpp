#include "http/event_stream.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <utility>

namespace nimbus::http {

namespace asio = boost::asio;

namespace {

// A line break inside a field would end it: each line becomes a field of its own. CR, LF and CRLF
// are all line breaks to the receiver.
void appendField(std::string& out, std::string_view name, std::string_view text) {
  while (true) {
    const std::size_t end = text.find_first_of("\r\n");
    out += name;
    out += ": ";
    out += text.substr(0, end);
    out += '\n';
    if (end == std::string_view::npos) return;
    const bool is_pair = text[end] == '\r' && end + 1 < text.size() && text[end + 1] == '\n';
    text.remove_prefix(end + (is_pair ? 2 : 1));
  }
}

std::string_view firstLine(std::string_view text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace

// Timers that never expire: cancelling one wakes whoever waits on it.
struct EventStream::Signals {
  explicit Signals(const asio::any_io_executor& executor)
      : work(executor, asio::steady_timer::time_point::max()),
        room(executor, asio::steady_timer::time_point::max()),
        ended(executor, asio::steady_timer::time_point::max()) {}

  asio::steady_timer work;
  asio::steady_timer room;
  asio::steady_timer ended;
};

EventStream::EventStream(const asio::any_io_executor& executor)
    : signals_(std::make_unique<Signals>(executor)) {}

EventStream::~EventStream() = default;

void EventStream::append(const Event& event) {
  // An id or type with a line break would forge fields.
  if (!event.id.empty()) appendField(waiting_, "id", firstLine(event.id));
  if (!event.type.empty()) appendField(waiting_, "event", firstLine(event.type));
  appendField(waiting_, "data", event.data);
  waiting_ += '\n';
  wakeConnection();
}

Task<bool> EventStream::send(Event event) {
  if (ended_) co_return false;
  if (waiting_.size() < kMaxWaiting) {
    append(event);
    co_return true;
  }
  const std::string data(event.data);
  const std::string id(event.id);
  const std::string type(event.type);
  while (!ended_ && waiting_.size() >= kMaxWaiting) {
    co_await signals_->room.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  if (ended_) co_return false;
  append({.data = data, .id = id, .type = type});
  co_return true;
}

bool EventStream::trySend(const Event& event) {
  if (ended_ || waiting_.size() >= kMaxWaiting) return false;
  append(event);
  return true;
}

Task<> EventStream::waitForEnd() {
  while (!ended_) co_await signals_->ended.async_wait(asio::as_tuple(asio::use_awaitable));
}

void EventStream::end() {
  ended_ = true;
  signals_->room.cancel();
  signals_->ended.cancel();
  wakeConnection();
}

std::string EventStream::take() {
  signals_->room.cancel();
  return std::exchange(waiting_, {});
}

Task<> EventStream::waitForWork() {
  while (!work_) co_await signals_->work.async_wait(asio::as_tuple(asio::use_awaitable));
  work_ = false;
}

void EventStream::comment() {
  if (!ended_ && waiting_.empty()) waiting_ += ":\n\n";
  wakeConnection();
}

void EventStream::wakeConnection() {
  work_ = true;
  signals_->work.cancel();
}

}  // namespace nimbus::http
