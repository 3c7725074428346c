#include "server/run_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/steady_clock.h"
#include "base/threads.h"
#include "base/version.h"
#include "deployment/deployments.h"
#include "deployment/folder.h"
#include "function/catalog.h"
#include "gateway/admin_key.h"
#include "gateway/authorization.h"
#include "gateway/functions.h"
#include "gateway/health.h"
#include "gateway/http_metrics.h"
#include "gateway/invocations.h"
#include "gateway/pages.h"
#include "gateway/sessions.h"
#include "http/router.h"
#include "http/server.h"
#include "runtime/keeper.h"
#include "server/data_directory.h"
#include "server/exit_deadline.h"
#include "server/instance_id.h"
#include "server/listen_address.h"
#include "server/open_store.h"
#include "server/store_upkeep.h"
#include "session/calls.h"

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
#include <filesystem>
#include <future>
#include <memory>
#include <utility>

namespace nimbus::server {
namespace {

namespace asio = boost::asio;

// How long after the drain the process may take to be gone; a second is promised.
constexpr Millis kAfterDrain{800};

class CallActivity final : public gateway::Activity {
 public:
  explicit CallActivity(const session::Calls& calls) : calls_(calls) {}
  std::size_t sessions() const override { return calls_.counts().activations.load(); }
  std::vector<std::string> connectedChannels() const override { return {}; }

 private:
  const session::Calls& calls_;
};

// The threads must not run anything of what is destroyed before them.
class StopThreads {
 public:
  explicit StopThreads(Threads& threads) : threads_(threads) {}
  ~StopThreads() { threads_.stop(); }
  StopThreads(const StopThreads&) = delete;
  StopThreads& operator=(const StopThreads&) = delete;

 private:
  Threads& threads_;
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
  options.body_total_timeout = config.body_total_timeout;
  options.write_timeout = config.write_timeout;
  options.access_log = config.access_log;
  if (!config.tls_cert_file.empty()) {
    options.tls = std::make_unique<http::TlsFiles>();
    options.tls->certificate_chain = config.tls_cert_file;
    options.tls->private_key = config.tls_key_file;
  }
  return options;
}

// The one showing of a new key is not a log line: logs are kept, copied and read by others, and may
// be set to say nothing.
Result<> addAdministrator(gateway::Authorization& authorization, const std::string& directory,
                          Random& random, std::ostream& err) {
  NIMBUS_TRY(const auto admin, gateway::openAdminKey(directory, random));
  authorization.addKey(admin.key, {"administrator", {"admin"}});
  if (admin.is_new) {
    err << "The administrator key, shown only this once: " << admin.key << "\nIt is kept in "
        << admin.path << std::endl;
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

// Sets the deadline when it is told to stop.
Task<> serveUntilSignal(http::Server& server, session::Calls& calls, StoreUpkeep& upkeep,
                        Millis drain, std::unique_ptr<ExitDeadline>& deadline) {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  const int signal = co_await signals.async_wait(asio::use_awaitable);
  log::info("stopping", {{"signal", signal}, {"drain_ms", drain.count()}});
  deadline = std::make_unique<ExitDeadline>(drain + kAfterDrain);
  endAtNextSignal(signals);
  co_await server.stop(drain);
  co_await calls.stop();
  co_await upkeep.stop();
}

// Runs one task to its end; for what must be done before there is a server.
template <typename T>
T runToEnd(asio::io_context& context, Task<T> task) {
  auto result = asio::co_spawn(context, std::move(task), asio::use_future);
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) context.run_one();
  return result.get();
}

function::Defaults functionDefaults(const StateConfig& config) {
  function::Defaults defaults;
  defaults.state.enabled = config.enabled;
  defaults.state.default_ttl = config.default_ttl;
  defaults.state.max_state_size = config.max_state_size;
  defaults.state.max_keys = static_cast<std::uint64_t>(config.max_keys);
  defaults.state.session_affinity = config.affinity_enabled;
  defaults.state.session_timeout = config.session_timeout;
  return defaults;
}

void addOwnMetrics(Metrics& metrics) {
  metrics.addProcessMetrics();
  metrics.gauges("nimbus_build_info", "What runs; always 1.", {{"version"}})
      .with({std::string(version())})
      .set(1);
}

std::string instanceId(const GatewayConfig& config, const Clock& clock, Random& random) {
  if (config.instance_id != "auto") return config.instance_id;
  return makeInstanceId(hostName(), ::getpid(), clock.now(), random);
}

gateway::Authorization::Options whoMay(const ServerConfig& config, const RunOptions& options) {
  gateway::Authorization::Options allowed;
  allowed.authenticate = options.authenticate;
  if (config.public_metrics) allowed.public_scopes.insert("metrics:read");
  return allowed;
}

void sayReady(std::ostream& out, const ServerConfig& config, const std::string& address) {
  const std::string_view scheme = config.tls_cert_file.empty() ? "http" : "https";
  out << "nimbus ready on " << scheme << "://" << address << std::endl;
}

void logReady(const ServerConfig& config, const std::string& instance_id, const Threads& threads,
              const store::Description& kept) {
  log::info("ready", {{"instance", instance_id},
                      {"version", version()},
                      {"threads", threads.size()},
                      {"data", config.data},
                      {"store", kept.backend},
                      {"durability", store::durabilityName(kept.durability)}});
}

// What openStore() would refuse too, but only after the disk was touched.
Result<> checkStore(const GatewayConfig& config) {
  if (config.store_backend != StoreBackend::Sqlite) {
    return Error(Code::InvalidArgument,
                 "this version keeps its data in SQLite only; leave --store and "
                 "gateway.store.backend out, or set them to sqlite");
  }
  if (!config.sqlite_wal_mode) {
    return Error(Code::InvalidArgument,
                 "gateway.store.sqlite.walMode: the store cannot do without its write-ahead log; "
                 "leave the setting out");
  }
  return {};
}

}  // namespace

Result<> checkRun(const Config& config, const RunOptions& options) {
  NIMBUS_CHECK(checkStore(config.gateway));
  NIMBUS_TRY(const auto listen, parseListenAddress(config.server.listen));
  if (options.authenticate || listen.is_loopback) return {};
  return Error(Code::Forbidden,
               fmt::format("--no-auth would let everyone who reaches {} do everything; listen on "
                           "127.0.0.1, or leave --no-auth out",
                           config.server.listen));
}

Result<> runServer(const Config& config, const RunOptions& options, Output output) {
  log::configure(config.log.level, config.log.format);
  NIMBUS_CHECK(checkRun(config, options));
  NIMBUS_TRY(const auto listen, parseListenAddress(config.server.listen));
  // Before all that may hang while it ends, so that it ends after them.
  std::unique_ptr<ExitDeadline> deadline;

  ::umask(S_IRWXG | S_IRWXO);  // whatever we keep is nobody else's, wherever it is kept
  NIMBUS_CHECK(openDataDirectory(config.server.data));
  raiseDescriptorLimit(config.server.max_connections);
  NIMBUS_TRY(const auto keeper, runtime::Keeper::start());  // while there are no threads
  SystemClock clock;
  SystemSteadyClock steady_clock;
  SystemRandom random;
  const std::string instance_id = instanceId(config.gateway, clock, random);

  Metrics metrics;
  addOwnMetrics(metrics);
  asio::io_context main_context(1);
  NIMBUS_TRY(const auto store, openStore(config, clock, metrics));
  StoreUpkeep upkeep(*store, main_context.get_executor(), {});

  NIMBUS_TRY(const auto sdk, deployment::findSdk());
  // Before the threads: what waits for a compiler when they are stopped goes with them.
  deployment::NativeBuild native(*keeper, sdk / "cpp/include");
  Threads threads(static_cast<std::size_t>(config.server.threads));
  keeper->listen(threads.executor(0));
  session::Calls calls({instance_id, *store, *keeper, steady_clock, random}, threads);
  calls.addTo(metrics);
  const StopThreads stop_threads(threads);
  deployment::Interpreters interpreters(
      *keeper, {sdk, deployment::findProgram({"/usr/bin/python3", "python3"}),
                deployment::findProgram({"node", "nodejs"})});
  function::Catalog catalog(*store, random, functionDefaults(config.state));
  deployment::Deployments deployments({catalog, calls, interpreters, native},
                                      std::filesystem::absolute(config.server.data) / "code");
  const auto find = [&](std::string_view id) { return deployments.find(id); };

  const CallActivity activity(calls);
  gateway::Authorization authorization(whoMay(config.server, options));
  gateway::Health health(instance_id, {upkeep, activity, steady_clock});
  gateway::Pages pages(metrics);
  gateway::Functions functions(deployments, catalog, calls);
  gateway::Invocations invocations(calls, find, instance_id);
  gateway::Sessions sessions(calls, *store, find, instance_id);
  http::Router router;
  health.addRoutes(router);
  functions.addRoutes(router);
  invocations.addRoutes(router);
  sessions.addRoutes(router);
  pages.addRoutes(router);
  pages.describe(router);
  gateway::HttpMetrics http_metrics(metrics, router);

  NIMBUS_TRY(const auto server, http::Server::open(httpOptions(config.server, listen), threads,
                                                   router, {&authorization, &http_metrics}));
  NIMBUS_CHECK(runToEnd(main_context, upkeep.start()));
  NIMBUS_CHECK(runToEnd(main_context, deployments.start()));
  if (options.functions) {
    runToEnd(main_context, deployment::deployFolders(deployments, *options.functions));
  }
  // Last of all that can fail: a start that does not succeed must not use up the one showing.
  if (options.authenticate) {
    if (auto added = addAdministrator(authorization, config.server.data, random, output.err);
        !added) {
      runToEnd(main_context, upkeep.stop());
      return added;
    }
  }

  // Signals are caught before anyone can be told that the server is ready to be sent one.
  std::exception_ptr failure;
  asio::co_spawn(main_context,
                 serveUntilSignal(*server, calls, upkeep, config.server.drain, deadline),
                 [&](const std::exception_ptr& thrown) { failure = thrown; });
  main_context.poll();
  calls.start();
  server->start();
  sayReady(output.out, config.server, hostAndPort(listen.address, server->port()));
  logReady(config.server, instance_id, threads, store->describe());
  main_context.run();
  if (failure) return Error(Code::Internal, "the server failed while it was stopped");
  log::info("stopped");
  return {};
}

}  // namespace nimbus::server
