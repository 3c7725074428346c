#pragma once
// The HTTP/1.1 server.
//
// A connection belongs to one of the threads it is given, for life: requests of one connection are
// answered in order and never run side by side, handlers run on the connection's thread.

#include "base/result.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "base/threads.h"
#include "http/authorizer.h"
#include "http/head_parser.h"
#include "http/observer.h"
#include "http/router.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace nimbus::http {

struct TlsFiles {
  std::string certificate_chain;  // PEM
  std::string private_key;        // PEM
};

struct ServerOptions {
  std::string address = "127.0.0.1";  // an IP address; names are not looked up
  std::uint16_t port = 0;             // 0: any free one, see Server::port()

  HeadLimits head;
  std::size_t max_body_bytes = 1024 * 1024;

  // Over all threads. One more is told 503 and closed.
  std::size_t max_connections = 10'000;

  // Time is looked at in steps of at most a second, so each of these may be late by as much. How
  // long a drain takes is always measured by the system's clock.
  std::chrono::milliseconds idle_timeout{60'000};    // between requests
  std::chrono::milliseconds header_timeout{10'000};  // from a head's first byte to its last
  std::chrono::milliseconds body_timeout{10'000};    // without a byte of the body
  std::chrono::milliseconds body_total_timeout{300'000};
  std::chrono::milliseconds write_timeout{30'000};  // without the client taking a byte
  std::chrono::milliseconds linger_timeout{2'000};  // for a refused client to read why
  std::chrono::milliseconds heartbeat{15'000};      // a comment on event streams that are silent

  // TLS 1.2 or later if given, else plain TCP.
  std::unique_ptr<TlsFiles> tls;

  // One line per request, whatever the log's level.
  bool access_log = false;
};

// What the server asks and tells others. All must outlive it; null: everyone may, nobody looks, and
// time is the system's.
struct ServerHooks {
  Authorizer* authorizer = nullptr;
  Observer* observer = nullptr;
  // For tests. Who gives a clock calls Server::sweep() after moving it: no timer looks at it.
  const SteadyClock* clock = nullptr;
};

// A handler that waits is cancelled (asio::cancellation_type::terminal) when its client closes the
// connection, or only its own end of it, and the handler has been running for as long as it takes
// the server to look at the time: a second at most. Its request is then observed with status 499,
// unless it answers nevertheless.
class Server {
 public:
  // Binds and listens; clients wait until start(). Fails if the address cannot be had or the TLS
  // files cannot be used. `threads` and `router` must outlive the server.
  static Result<std::unique_ptr<Server>> open(ServerOptions options, Threads& threads,
                                              const Router& router, ServerHooks hooks = {});

  // stop() must have returned, if start() was called.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The port it listens on.
  std::uint16_t port() const;

  void start();

  // Looks at every deadline now, and tries again to accept if that has failed. What it ends may
  // still be ending when this returns. Only with a clock of one's own: else the server does it.
  Task<> sweep();

  // Stops accepting and closes idle connections at once. Requests being answered have until `drain`
  // has passed; their answers say `Connection: close`. Event streams are ended. Then whatever is
  // left is cut off and its handlers are cancelled. Returns when no connection is open; a handler
  // that ignores its cancellation is left behind and logged, it can no longer answer.
  // Call once, on any executor.
  Task<> stop(std::chrono::milliseconds drain);

  std::size_t connections() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nimbus::http
