#pragma once
// A server on a free port with a few routes that tests need, a way to hold its handlers, and a
// clock that only the test moves.

#include "base/assert.h"
#include "base/testing/manual_steady_clock.h"
#include "base/threads.h"
#include "http/event_stream.h"
#include "http/server.h"
#include "http/testing/raw_client.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <string>

namespace nimbus::http {

// Counts what a server does, and lets a test wait for it.
class Watch : public Observer {
 public:
  void onConnectionOpened() override { opened.release(); }
  void onConnectionClosed() override { closed.release(); }
  void onRequest(const Exchange& /*exchange*/) override {}

  std::counting_semaphore<1000> opened{0};
  std::counting_semaphore<1000> closed{0};
};

class TestServer {
 public:
  explicit TestServer(ServerOptions options = {}, std::size_t thread_count = 1,
                      ServerHooks hooks = {})
      : threads_(thread_count) {
    addRoutes();
    hooks.clock = &clock_;
    auto opened = Server::open(std::move(options), threads_, router, hooks);
    NIMBUS_ASSERT(opened.has_value(), "a test server can listen");
    server = *std::move(opened);
    server->start();
  }
  ~TestServer() {
    if (!is_stopped_) stop(std::chrono::milliseconds(0));
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::uint16_t port() const { return server->port(); }
  Threads& threads() { return threads_; }

  std::future<void> beginStop(std::chrono::milliseconds drain) {
    is_stopped_ = true;
    return boost::asio::co_spawn(threads_.executor(0), server->stop(drain),
                                 boost::asio::use_future);
  }
  void stop(std::chrono::milliseconds drain) { beginStop(drain).get(); }

  // Lets time pass, and has the server look at it. What waits when this is called has waited that
  // much longer when it returns; what the test sent before may not have been read yet.
  void pass(std::chrono::milliseconds time) {
    boost::asio::co_spawn(threads_.executor(0), advance(time), boost::asio::use_future).get();
  }

  // Of GET /held: lets those that wait, and those to come, go on. Any thread.
  void release() { is_released = true; }

  Router router;

 private:
  ManualSteadyClock clock_;
  Threads threads_;  // outlives the server

 public:
  std::unique_ptr<Server> server;
  std::atomic<int> executed = 0;               // of POST /count
  std::counting_semaphore<1000> held{0};       // released by each handler of GET /held as it begins
  std::counting_semaphore<1000> cancelled{0};  // and as it ends by cancellation
  std::atomic<bool> is_released = false;
  std::shared_ptr<EventStream> kept_stream;       // the answer to GET /kept
  std::counting_semaphore<1000> stream_ended{0};  // released by event producers as they end

 private:
  void addRoutes() {
    router.add({.method = Method::Get, .pattern = "/hello", .handler = [](Request& request) {
                  return hello(request);
                }});
    router.add({.method = Method::Post, .pattern = "/echo", .handler = [](Request& request) {
                  return echo(request);
                }});
    Route long_echo{.method = Method::Post,
                    .pattern = "/echo-long",
                    .handler = [](Request& request) { return echo(request); }};
    long_echo.max_body_bytes = 2000;
    router.add(std::move(long_echo));
    router.add({.method = Method::Post, .pattern = "/count", .handler = [this](Request& request) {
                  return count(*this, request);
                }});
    router.add({.method = Method::Get, .pattern = "/throw", .handler = [](Request& request) {
                  return fail(request);
                }});
    router.add({.method = Method::Get, .pattern = "/big", .handler = [](Request& request) {
                  return big(request);
                }});
    router.add({.method = Method::Get, .pattern = "/held", .handler = [this](Request& request) {
                  return hold(*this, request);
                }});
    router.add({.method = Method::Get, .pattern = "/events", .handler = [this](Request& request) {
                  return events(*this, request);
                }});
    router.add({.method = Method::Get, .pattern = "/kept", .handler = [this](Request& request) {
                  return kept(*this, request);
                }});
    router.add({.method = Method::Get,
                .pattern = "/sessions/{key:text}",
                .handler = [](Request& request) { return parameter(request); },
                .scope = "sessions:read"});
  }

  static Task<Result<Response>> hello(Request& /*request*/) { co_return Response::text("hello"); }
  static Task<Result<Response>> echo(Request& request) {
    Response response = Response::json(request.body);
    response.header("Echo-Traceparent", request.traceparent);
    co_return response;
  }
  static Task<Result<Response>> count(TestServer& self, Request& /*request*/) {
    ++self.executed;
    co_return Response::noContent();
  }
  static Task<Result<Response>> fail(Request& request) {
    if (request.query == "kind=error") {
      co_return Error(Code::VersionConflict, "no longer so").with("current_version", 7);
    }
    throw std::runtime_error("secret detail");
  }
  static Task<Result<Response>> big(Request& request) {
    NIMBUS_CO_TRY(const auto size, request.queryParameters().integer("size", {}));
    co_return Response::text(std::string(static_cast<std::size_t>(size.value_or(0)), 'x'));
  }
  static Task<Result<Response>> kept(TestServer& self, Request& /*request*/) {
    co_return Response::events(self.kept_stream);
  }
  static Task<Result<Response>> parameter(Request& request) {
    co_return Response::text(std::string(request.parameters["key"]));
  }
  static Task<Result<Response>> hold(TestServer& self, Request& /*request*/) {
    // By a destructor: a cancelled task may end at any of its waits.
    struct Ending {
      ~Ending() {
        if (!is_regular) self.cancelled.release();
      }
      TestServer& self;
      bool is_regular = false;
    };
    Ending ending{self};
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    self.held.release();
    while (!self.is_released) {
      timer.expires_after(std::chrono::milliseconds(1));
      co_await timer.async_wait(boost::asio::use_awaitable);
    }
    ending.is_regular = true;
    co_return Response::text("released");
  }
  // ?count=N events of ?size=B bytes, or without end until the client leaves.
  static Task<Result<Response>> events(TestServer& self, Request& request) {
    NIMBUS_CO_TRY(const auto wanted, request.queryParameters().integer("count", {}));
    NIMBUS_CO_TRY(const auto size, request.queryParameters().integer("size", {}));
    auto stream = std::make_shared<EventStream>(co_await boost::asio::this_coro::executor);
    const auto bytes = static_cast<std::size_t>(size.value_or(5));
    EventProducer producer = [&self, wanted, bytes](EventStream& events) {
      return produce(self, events, wanted, bytes);
    };
    co_return Response::events(std::move(stream), std::move(producer));
  }
  static Task<> produce(TestServer& self, EventStream& stream, std::optional<std::int64_t> count,
                        std::size_t bytes) {
    const Announce announce{self};
    const std::string data(bytes, 'e');
    for (std::int64_t i = 1; !count || i <= *count; ++i) {
      const std::string id = std::to_string(i);
      const Event event{.data = data, .id = id, .type = "tick"};
      if (!co_await stream.send(event)) co_return;
      if (!count && i == 3) co_await stream.waitForEnd();
    }
  }

  // On the first of the server's threads: of what that one does, each thing is before or after it.
  Task<> advance(std::chrono::milliseconds time) {
    clock_.advance(time);
    co_await server->sweep();
  }

  struct Announce {
    ~Announce() { self.stream_ended.release(); }
    TestServer& self;
  };

  bool is_stopped_ = false;
};

}  // namespace nimbus::http
