#include "server/run_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/steady_clock.h"
#include "base/threads.h"
#include "base/version.h"
#include "gateway/admin_key.h"
#include "gateway/authorization.h"
#include "gateway/health.h"
#include "gateway/http_metrics.h"
#include "gateway/pages.h"
#include "http/router.h"
#include "http/server.h"
#include "server/data_directory.h"
#include "server/exit_deadline.h"
#include "server/instance_id.h"
#include "server/listen_address.h"
#include "server/open_store.h"
#include "server/store_upkeep.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <utility>

namespace nimbus::server {
namespace {

namespace asio = boost::asio;

// How long after the drain the process may take to be gone; a second is promised.
constexpr Millis kAfterDrain{800};

class NoActivity final : public gateway::Activity {
 public:
  std::size_t sessions() const override { return 0; }
  std::vector<std::string> connectedChannels() const override { return {}; }
};

// Each connection is a descriptor; the usual soft limit of 1024 is for programs that select().
void raiseDescriptorLimit(int max_connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kOwn = 64;  // files, database, epoll
  if (limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < static_cast<rlim_t>(max_connections) + kOwn) {
    log::warn("fewer files may be open than server.max_connections needs; see `ulimit -n`",
              {{"max_open_files", limit.rlim_cur}, {"max_connections", max_connections}});
  }
}

http::ServerOptions httpOptions(const ServerConfig& config, const ListenAddress& listen) {
  http::ServerOptions options;
  options.address = listen.address;
  options.port = listen.port;
  options.head.max_header_bytes = config.max_header_bytes;
  options.max_body_bytes = config.max_body_bytes;
  options.max_connections = static_cast<std::size_t>(config.max_connections);
  options.idle_timeout = config.idle_timeout;
  options.header_timeout = config.header_timeout;
  options.body_timeout = config.body_timeout;
  options.write_timeout = config.write_timeout;
  options.access_log = config.access_log;
  if (!config.tls_cert_file.empty()) {
    options.tls = std::make_unique<http::TlsFiles>();
    options.tls->certificate_chain = config.tls_cert_file;
    options.tls->private_key = config.tls_key_file;
  }
  return options;
}

Result<> addAdministrator(gateway::Authorization& authorization, const std::string& directory,
                          Random& random) {
  NIMBUS_TRY(const auto admin, gateway::openAdminKey(directory, random));
  authorization.addKey(admin.key, {"administrator", {"admin"}});
  if (admin.is_new) {
    log::info("made the administrator key; it is shown only this once",
              {{"key", admin.key}, {"file", admin.path}});
  }
  return {};
}

// Whoever sends a second signal does not want to wait for the drain.
void endAtNextSignal(asio::signal_set& signals) {
  signals.async_wait([](const boost::system::error_code& failure, int signal) {
    if (failure) return;
    log::warn("a second signal: ending at once", {{"signal", signal}});
    std::_Exit(128 + signal);
  });
}

// Returns the deadline it has set, which also covers what its caller has to end.
Task<std::unique_ptr<ExitDeadline>> serveUntilSignal(http::Server& server, StoreUpkeep& upkeep,
                                                     Millis drain) {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  const int signal = co_await signals.async_wait(asio::use_awaitable);
  log::info("stopping", {{"signal", signal}, {"drain_ms", drain.count()}});
  auto deadline = std::make_unique<ExitDeadline>(drain + kAfterDrain);
  endAtNextSignal(signals);
  co_await server.stop(drain);
  co_await upkeep.stop();
  co_return deadline;
}

// Runs one task to its end; for what must be done before there is a server.
Result<> runToEnd(asio::io_context& context, Task<Result<>> task) {
  auto result = asio::co_spawn(context, std::move(task), asio::use_future);
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) context.run_one();
  return result.get();
}

}  // namespace

Result<> checkRun(const Config& config, const RunOptions& options) {
  NIMBUS_TRY(const auto listen, parseListenAddress(config.server.listen));
  if (options.authenticate || listen.is_loopback) return {};
  return Error(Code::Forbidden,
               fmt::format("--no-auth would let everyone who reaches {} do everything; listen on "
                           "127.0.0.1, or leave --no-auth out",
                           config.server.listen));
}

Result<> runServer(const Config& config, const RunOptions& options, std::ostream& out) {
  log::configure(config.log.level, config.log.format);
  NIMBUS_CHECK(checkRun(config, options));
  NIMBUS_TRY(const auto listen, parseListenAddress(config.server.listen));
  ::umask(S_IRWXG | S_IRWXO);  // whatever we keep is nobody else's, wherever it is kept
  NIMBUS_CHECK(openDataDirectory(config.server.data));
  raiseDescriptorLimit(config.server.max_connections);

  SystemClock clock;
  SystemSteadyClock steady_clock;
  SystemRandom random;
  const std::string instance_id = config.gateway.instance_id == "auto"
                                      ? makeInstanceId(hostName(), ::getpid(), clock.now(), random)
                                      : config.gateway.instance_id;
  if (options.functions) {
    log::warn("--functions has no effect yet: this version runs no functions");
  }

  Metrics metrics;
  metrics.addProcessMetrics();
  metrics.gauges("nimbus_build_info", "What runs; always 1.", {{"version"}})
      .with({std::string(version())})
      .set(1);

  gateway::Authorization::Options allowed;
  allowed.authenticate = options.authenticate;
  if (config.server.public_metrics) allowed.public_scopes.insert("metrics:read");
  gateway::Authorization authorization(std::move(allowed));
  if (options.authenticate) {
    NIMBUS_CHECK(addAdministrator(authorization, config.server.data, random));
  }

  asio::io_context main_context(1);
  NIMBUS_TRY(const auto store, openStore(config, clock, metrics));
  StoreUpkeep upkeep(*store, main_context.get_executor(), {});
  NoActivity activity;
  gateway::Health health(instance_id, {upkeep, activity, steady_clock});
  gateway::Pages pages(metrics);
  http::Router router;
  health.addRoutes(router);
  pages.addRoutes(router);
  pages.describe(router);
  gateway::HttpMetrics http_metrics(metrics, router);

  Threads threads(static_cast<std::size_t>(config.server.threads));
  NIMBUS_TRY(const auto server, http::Server::open(httpOptions(config.server, listen), threads,
                                                   router, {&authorization, &http_metrics}));
  NIMBUS_CHECK(runToEnd(main_context, upkeep.start()));
  // Signals are caught before anyone can be told that the server is ready to be sent one.
  std::unique_ptr<ExitDeadline> deadline;
  std::exception_ptr failure;
  asio::co_spawn(main_context, serveUntilSignal(*server, upkeep, config.server.drain),
                 [&](const std::exception_ptr& thrown, std::unique_ptr<ExitDeadline> started) {
                   failure = thrown;
                   deadline = std::move(started);
                 });
  main_context.poll();

  server->start();
  const std::string_view scheme = config.server.tls_cert_file.empty() ? "http" : "https";
  out << "nimbus ready on " << scheme << "://" << hostAndPort(listen.address, server->port())
      << std::endl;
  const store::Description kept = store->describe();
  log::info("ready", {{"instance", instance_id},
                      {"version", version()},
                      {"threads", threads.size()},
                      {"data", config.server.data},
                      {"store", kept.backend},
                      {"durability", store::durabilityName(kept.durability)}});
  main_context.run();
  if (failure) return Error(Code::Internal, "the server failed while it was stopped");
  threads.stop();
  log::info("stopped");
  return {};
}

}  // namespace nimbus::server
