// How a Connection carries an EventStream.
#include "base/log.h"
#include "http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <array>
#include <exception>

namespace nimbus::http {

namespace asio = boost::asio;
using boost::system::error_code;

// Shared with the two things that go on beside the connection's task while it streams.
struct Connection::Streaming {
  explicit Streaming(std::shared_ptr<EventStream> carried) : events(std::move(carried)) {}

  std::shared_ptr<EventStream> events;
  asio::cancellation_signal cancel_producer;
  std::array<char, 256> ignored_bytes{};
  bool is_watching = false;   // a read is under way, to notice that the client leaves
  bool is_producing = false;  // the producer has not ended
  bool has_client = true;
  bool is_chunked = false;
};

// The connection's side of an EventStream, which only this file uses.
class StreamWriter {
 public:
  static std::string take(EventStream& events) { return events.take(); }
  static bool hasWaiting(const EventStream& events) { return !events.waiting_.empty(); }
  static Task<> waitForWork(EventStream& events) { return events.waitForWork(); }
  static void wake(EventStream& events) { events.wakeConnection(); }
  static void comment(EventStream& events) { events.comment(); }
};

void Connection::heartbeat() {
  sent_ = lane_->now();
  StreamWriter::comment(*streaming_->events);
}

void Connection::endStream() {
  if (streaming_) streaming_->events->end();
}

Task<> Connection::stream(Response response) {
  // cutOff() ends a stream by closing the socket. The task itself must run on to the end, because
  // the watch and the producer refer to this connection.
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());

  auto streaming = std::make_shared<Streaming>(std::move(response.stream));
  streaming->is_chunked = work_->request.version == 11;
  streaming_ = streaming;
  const std::size_t head_bytes = work_->out.size();
  if (!co_await flush()) streaming->has_client = false;
  watchClient(streaming);
  if (response.producer) startProducer(streaming, std::move(response.producer));
  if (lane_->isStopping()) streaming->events->end();

  const std::size_t sent = head_bytes + co_await sendEvents(*streaming);

  streaming->events->end();
  streaming->cancel_producer.emit(asio::cancellation_type::terminal);
  error_code ignored;
  if (!streaming->has_client) {
    is_broken_ = true;
    socket_.close(ignored);
  } else {
    socket_.cancel(ignored);
  }
  phase_ = Phase::Handling;
  while (streaming->is_watching || streaming->is_producing) {
    co_await StreamWriter::waitForWork(*streaming->events);
  }
  streaming_.reset();
  report(response.status, sent);
}

// Until the stream has ended and everything was sent, or the client is gone.
Task<std::size_t> Connection::sendEvents(Streaming& streaming) {
  EventStream& events = *streaming.events;
  std::size_t sent = 0;
  sent_ = lane_->now();
  while (streaming.has_client) {
    phase_ = Phase::Streaming;
    if (!StreamWriter::hasWaiting(events)) {
      if (events.isEnded()) break;
      co_await StreamWriter::waitForWork(events);
      continue;
    }
    const std::string text = StreamWriter::take(events);
    if (streaming.is_chunked) {
      fmt::format_to(std::back_inserter(work_->out), "{:x}\r\n{}\r\n", text.size(), text);
    } else {
      work_->out += text;
    }
    sent += work_->out.size();
    sent_ = lane_->now();
    if (!co_await flush()) streaming.has_client = false;
  }
  if (streaming.has_client && streaming.is_chunked) {
    work_->out += "0\r\n\r\n";
    co_await flush();
  }
  co_return sent;
}

// A client has nothing to say while it listens, so a read that ends means that it left.
void Connection::watchClient(const std::shared_ptr<Streaming>& streaming) {
  streaming->is_watching = true;
  auto read = [this, streaming](const error_code& failure, std::size_t /*count*/) {
    streaming->is_watching = false;
    if (!failure) {
      watchClient(streaming);
      return;
    }
    if (failure != asio::error::operation_aborted) {
      streaming->has_client = false;
      streaming->events->end();
    }
    StreamWriter::wake(*streaming->events);
  };
  const auto bytes = asio::buffer(streaming->ignored_bytes);
  if (tls_) {
    tls_->async_read_some(bytes, std::move(read));
  } else {
    socket_.async_read_some(bytes, std::move(read));
  }
}

namespace {

// A coroutine of its own, so that the function object lives as long as the task it makes.
Task<> produce(EventProducer producer, std::shared_ptr<EventStream> events) {
  co_await producer(*events);
}

}  // namespace

void Connection::startProducer(const std::shared_ptr<Streaming>& streaming,
                               EventProducer producer) {
  streaming->is_producing = true;
  auto ended = [streaming](const std::exception_ptr& failure) {
    streaming->is_producing = false;
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const boost::system::system_error& error) {
      if (error.code() != asio::error::operation_aborted) {
        log::error("an event stream failed", {{"reason", error.what()}});
      }
    } catch (const std::exception& error) {
      log::error("an event stream failed", {{"reason", error.what()}});
    } catch (...) {
      log::error("an event stream failed");
    }
    streaming->events->end();
  };
  asio::co_spawn(socket_.get_executor(), produce(std::move(producer), streaming->events),
                 asio::bind_cancellation_slot(streaming->cancel_producer.slot(), std::move(ended)));
}

}  // namespace nimbus::http
