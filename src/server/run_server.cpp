#include "server/run_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/steady_clock.h"
#include "base/task_group.h"
#include "base/threads.h"
#include "base/version.h"
#include "cluster/members.h"
#include "cluster/peers.h"
#include "deployment/deployments.h"
#include "deployment/folder.h"
#include "function/catalog.h"
#include "gateway/admin_key.h"
#include "gateway/async_invocations.h"
#include "gateway/audit.h"
#include "gateway/authorization.h"
#include "gateway/devices.h"
#include "gateway/event_transfer.h"
#include "gateway/events.h"
#include "gateway/forwarding.h"
#include "gateway/functions.h"
#include "gateway/health.h"
#include "gateway/http_metrics.h"
#include "gateway/instances.h"
#include "gateway/invocations.h"
#include "gateway/key_ring.h"
#include "gateway/keys.h"
#include "gateway/pages.h"
#include "gateway/peer_principal.h"
#include "gateway/rate_limits.h"
#include "gateway/session_control.h"
#include "gateway/sessions.h"
#include "gateway/shared_admin_key.h"
#include "gateway/state_operations.h"
#include "http/router.h"
#include "http/server.h"
#include "runtime/keeper.h"
#include "server/cluster_address.h"
#include "server/data_directory.h"
#include "server/event_upkeep.h"
#include "server/exit_deadline.h"
#include "server/instance_id.h"
#include "server/listen_address.h"
#include "server/notify.h"
#include "server/open_store.h"
#include "server/store_upkeep.h"
#include "session/calls.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
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
#include <optional>
#include <utility>

namespace nimbus::server {
namespace {

namespace asio = boost::asio;

// How long after the drain the process may take to be gone; a second is promised.
constexpr Millis kAfterDrain{800};

// Other nodes have what they asked for by then.
constexpr Millis kPeersDrain{50};
// How long other nodes may take to hear that this one leaves.
constexpr Millis kTellPatience{300};
// How much longer than a lease and a drain a request waits for the owner of its session.
constexpr Millis kOwnerPatience{2'000};

// Made ahead, so that a new instance need not wait for one.
constexpr std::size_t kSpareCells = 2;

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

http::ServerOptions peerOptions(const ServerConfig& config, const ListenAddress& listen) {
  http::ServerOptions options;
  options.address = listen.address;
  options.port = listen.port;
  // What a client may send, and what nodes say of it.
  options.head.max_header_bytes = config.max_header_bytes + 16UL * 1024;
  options.max_body_bytes = config.max_body_bytes;
  options.max_connections = static_cast<std::size_t>(config.max_connections);
  return options;
}

// The one showing of a new key is not a log line: logs are kept, copied and read by others, and may
// be set to say nothing.
void showNewKey(const gateway::AdminKey& admin, std::ostream& err) {
  if (!admin.is_new) return;
  err << "The administrator key, shown only this once: " << admin.key << "\nIt is kept in "
      << admin.path << std::endl;
}

Result<> addAdministrator(gateway::Authorization& authorization, const std::string& directory,
                          Random& random, std::ostream& err) {
  NIMBUS_TRY(const auto admin, gateway::openAdminKey(directory, random));
  authorization.addAdministrator(gateway::hashKey(admin.key));
  showNewKey(admin, err);
  return {};
}

// Of a store that instances with directories of their own share: the first makes the key.
Task<Result<>> addSharedAdministrator(gateway::Authorization& authorization, store::Store& store,
                                      std::string directory, Random& random, std::ostream& err) {
  NIMBUS_CO_TRY(const auto shared,
                co_await gateway::openSharedAdminKey(store, std::move(directory), random));
  if (shared.own) {
    authorization.addAdministrator(gateway::hashKey(shared.own->key));
    showNewKey(*shared.own, err);
  }
  authorization.addAdministrator(shared.hash);
  co_return Result<>();
}

// Whoever sends a second signal does not want to wait for the drain.
void endAtNextSignal(asio::signal_set& signals) {
  signals.async_wait([](const boost::system::error_code& failure, int signal) {
    if (failure) return;
    log::warn("a second signal: ending at once", {{"signal", signal}});
    std::_Exit(128 + signal);
  });
}

// What other nodes are to have goes to them, while calls that have begun go on.
Task<> leaveToOthers(cluster::Members& members, gateway::Forwarding& forwarding,
                     session::Calls& calls, Millis patience) {
  co_await members.beginToLeave();
  if (!members.hasOthers()) co_return;
  co_await forwarding.tellOthers(kTellPatience);
  co_await calls.handOver(patience);
}

// Until nobody asks this node any more.
Task<> leaveForGood(cluster::Members& members, gateway::Forwarding& forwarding) {
  co_await members.leave();
  if (!members.hasOthers()) co_return;
  co_await forwarding.tellOthers(kTellPatience);
  // What was on its way is told that this is no owner.
  asio::steady_timer timer(co_await asio::this_coro::executor, kPeersDrain);
  co_await timer.async_wait(asio::use_awaitable);
}

// What is told to stop, and that which must outlast it.
struct Serving {
  TaskGroup& following;
  http::Server& server;
  http::Server& peer_server;
  session::Calls& calls;
  cluster::Members& members;
  gateway::Forwarding& forwarding;
  StoreUpkeep& upkeep;
  gateway::Audit& audit;
  EventUpkeep& event_upkeep;
};

// Sets the deadline when it is told to stop.
Task<> serveUntilSignal(Serving serving, Millis drain, std::unique_ptr<ExitDeadline>& deadline) {
  const auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  const int signal = co_await signals.async_wait(asio::use_awaitable);
  log::info("stopping", {{"signal", signal}, {"drain_ms", drain.count()}});
  notifyManager("STOPPING=1");
  deadline = std::make_unique<ExitDeadline>(drain + kAfterDrain);
  endAtNextSignal(signals);
  serving.following.cancel();
  TaskGroup leaving(executor, "leaving");
  leaving.add(leaveToOthers(serving.members, serving.forwarding, serving.calls, drain));
  co_await serving.server.stop(drain);
  co_await leaving.join();
  co_await serving.following.join();
  co_await serving.calls.stop();
  co_await serving.audit.stop();
  co_await serving.event_upkeep.stop();
  co_await leaveForGood(serving.members, serving.forwarding);
  co_await serving.peer_server.stop(kPeersDrain);
  co_await serving.upkeep.stop();
}

// Runs one task to its end; for what must be done before there is a server.
template <typename T>
T runToEnd(asio::io_context& context, Task<T> task) {
  context.restart();  // it has stopped if an earlier task left nothing to do
  auto result = asio::co_spawn(context, std::move(task), asio::use_future);
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) context.run_one();
  return result.get();
}

// Finds out whether functions can be run in a sandbox, and says so if they cannot.
Task<Result<std::string>> reasonForNoSandbox(runtime::Cells& cells, deployment::Paths paths,
                                             DefaultIsolation wanted) {
  const Result<> tried = co_await deployment::tryCells(cells, paths);
  if (tried) co_return std::string();
  const std::string reason = tried.error().message();
  if (wanted == DefaultIsolation::Sandbox) {
    co_return Error(Code::Unavailable,
                    fmt::format("functions.isolation is sandbox, which this machine does not "
                                "permit: {}",
                                reason));
  }
  if (wanted == DefaultIsolation::Auto) {
    log::warn(
        "functions run as plain processes, because this machine does not permit a sandbox; they "
        "can read what the server can (see docs/security.md)",
        {{"reason", reason}});
  }
  co_return reason;
}

session::Cache cacheOf(const StateConfig& config) {
  constexpr std::size_t kMiB = 1024UL * 1024;
  return {config.cache_ttl, static_cast<std::size_t>(config.memory_mb) * kMiB};
}

function::Defaults functionDefaults(const Config& all, std::string no_sandbox) {
  const StateConfig& config = all.state;
  function::Defaults defaults;
  const bool sandbox = all.functions.isolation != DefaultIsolation::Process && no_sandbox.empty();
  defaults.isolation = sandbox ? function::Isolation::Sandbox : function::Isolation::Process;
  defaults.no_sandbox = std::move(no_sandbox);
  defaults.may_use_network = all.functions.network;
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

void addStoreMetrics(Metrics& metrics, const store::Description& kept) {
  metrics
      .gauges("nimbus_store_info",
              "Where data is kept, and what an answered write survives; always 1.",
              {{"backend"}, {"durability"}})
      .with({kept.backend, std::string(store::durabilityName(kept.durability))})
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

gateway::RateLimit perMinute(int requests) {
  return gateway::RateLimit::perMinute(static_cast<std::uint64_t>(requests));
}

gateway::RateLimits::Options rateLimits(const RateLimitConfig& config) {
  gateway::RateLimits::Options options;
  options.per_address = perMinute(config.per_ip);
  options.per_function = perMinute(config.per_function);
  return options;
}

gateway::AuditLog::Options auditOptions(const AuditConfig& config) {
  return {static_cast<std::uint64_t>(config.max_entries)};
}

std::string urlOf(const ServerConfig& config, const std::string& address) {
  return fmt::format("{}://{}", config.tls_cert_file.empty() ? "http" : "https", address);
}

void sayReady(std::ostream& out, const std::string& url) {
  out << "nimbus ready on " << url << std::endl;
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
  NIMBUS_TRY(const auto sdk, deployment::findSdk());
  const deployment::Paths paths = {sdk, deployment::findProgram({"/usr/bin/python3", "python3"}),
                                   deployment::findProgram({"node", "nodejs"})};
  NIMBUS_TRY(const auto code, openCodeDirectory(config.server.data));
  // Before all that runs tasks: what waits for a cell when it ends goes with it.
  runtime::Cells cells(*keeper, {code, deployment::seenInCells(paths)}, kSpareCells);
  SystemClock clock;
  SystemSteadyClock steady_clock;
  SystemRandom random;
  const std::string instance_id = instanceId(config.gateway, clock, random);

  Metrics metrics;
  addOwnMetrics(metrics);
  asio::io_context main_context(1);
  NIMBUS_TRY(const auto store, openStore(config, clock, metrics));
  addStoreMetrics(metrics, store->describe());
  StoreUpkeep upkeep(*store, main_context.get_executor(), {});

  // Before the threads: what waits for a compiler when they are stopped goes with them.
  deployment::NativeBuild native(cells, sdk / "cpp/include");
  deployment::Dependencies dependencies(
      *keeper, paths,
      {std::filesystem::path(code) / ".dependencies", config.functions.wheels,
       config.functions.install_timeout, config.functions.unused_dependencies});
  Threads threads(static_cast<std::size_t>(config.server.threads));
  keeper->listen(threads.executor(0));
  // Known to calls before it is made: nothing asks before the server starts.
  std::optional<deployment::Deployments> deployments;
  const auto find = [&](std::string_view id) { return deployments->find(id); };
  cluster::Members members({instance_id, std::string(version()), config.cluster.lease},
                           {*store, steady_clock, random}, main_context.get_executor());
  cluster::Peers peers;
  gateway::Forwarding forwarding({members, peers, steady_clock},
                                 {config.cluster.lease + config.server.drain + kOwnerPatience});
  session::Calls::Parts call_parts{instance_id,
                                   *store,
                                   *keeper,
                                   steady_clock,
                                   random,
                                   find,
                                   config.server.keep_results,
                                   config.server.keep_parked,
                                   config.server.keep_answers,
                                   cacheOf(config.state)};
  if (hasOwners(config)) call_parts.members = &members;
  call_parts.forward = [&](cluster::Moved moved, session::CallPtr call, Millis delay) {
    return forwarding.handOver(std::move(moved), std::move(call), delay);
  };
  call_parts.operate = [&](cluster::Moved moved, session::CallPtr call) {
    return forwarding.operate(std::move(moved), std::move(call));
  };
  session::Calls calls(std::move(call_parts), threads);
  members.tell([&calls] {
    return cluster::Members::Figures{calls.counts().activations.load(),
                                     calls.counts().instances.load()};
  });
  members.onChange([&peers, &store](const cluster::View& before, const cluster::View& now) {
    for (const cluster::Member& member : before.members) {
      if (now.find(member.key) != nullptr) continue;
      // Who has left before its lease ended still answers what it was asked, or its sockets are
      // closed with its process. Who was not heard of may never answer.
      if (store->now() < member.lease_until) {
        peers.dropIdle(member.address);
      } else {
        peers.drop(member.address);
      }
    }
  });
  forwarding.addTo(metrics);
  calls.addTo(metrics);
  const StopThreads stop_threads(threads);
  deployment::Interpreters interpreters(
      cells, paths, config.functions.network ? runtime::Network::Hosts : runtime::Network::None);
  NIMBUS_TRY(auto no_sandbox,
             runToEnd(main_context, reasonForNoSandbox(cells, paths, config.functions.isolation)));
  if (no_sandbox.empty()) native.confine();
  function::Catalog catalog(*store, random, functionDefaults(config, std::move(no_sandbox)));
  deployment::Deployments::Parts deployment_parts{catalog, calls,        interpreters,
                                                  native,  dependencies, clock};
  deployment_parts.has_others = [&members] { return members.hasOthers(); };
  deployments.emplace(std::move(deployment_parts), code);

  const CallActivity activity(calls);
  const auto default_limit = perMinute(config.rate_limit.per_key);
  gateway::KeyRing key_ring(*store, steady_clock, default_limit);
  gateway::RateLimits limits(*store, steady_clock, rateLimits(config.rate_limit));
  gateway::AuditLog audit_log(*store, random, auditOptions(config.audit));
  gateway::Audit audit(audit_log, steady_clock, main_context.get_executor());
  gateway::Authorization authorization(whoMay(config.server, options),
                                       {key_ring, limits, audit, *store});
  key_ring.addTo(metrics);
  limits.addTo(metrics);
  audit.addTo(metrics);
  authorization.addTo(metrics);
  gateway::Health health(instance_id, {upkeep, activity, steady_clock});
  gateway::Pages pages(metrics);
  gateway::Functions functions(*deployments, catalog, calls);
  gateway::Invocations invocations(calls, find, instance_id);
  gateway::AsyncInvocations async_invocations(calls);
  gateway::Sessions sessions(calls, *store, find, instance_id, forwarding);
  gateway::Keys keys(key_ring, *store, random, default_limit);
  gateway::Devices devices({key_ring, *store, limits, random});
  gateway::Events events(*store, random);
  EventUpkeep event_upkeep(*store, events.sessions(), main_context.get_executor());
  gateway::SessionControl session_control(calls, *store, find, forwarding);
  gateway::EventTransfer event_transfer(*store, random);
  gateway::StateOperations state_operations(calls, find);
  gateway::Instances instances(members, *store);
  http::Router router;
  health.addRoutes(router);
  functions.addRoutes(router);
  invocations.addRoutes(router);
  async_invocations.addRoutes(router);
  sessions.addRoutes(router);
  keys.addRoutes(router);
  devices.addRoutes(router);
  audit.addRoutes(router);
  events.addRoutes(router);
  session_control.addRoutes(router);
  event_transfer.addRoutes(router);
  instances.addRoutes(router);
  state_operations.addRoutes(router);
  pages.addRoutes(router);
  pages.describe(router);
  forwarding.watch(router);
  audit.watch(router);  // around it: an act is recorded where it was asked for
  gateway::HttpMetrics http_metrics(metrics, router);

  NIMBUS_TRY(const auto server, http::Server::open(httpOptions(config.server, listen), threads,
                                                   router, {&authorization, &http_metrics}));
  gateway::PeerAuthorizer peer_authorizer(members.secret());
  NIMBUS_TRY(const auto peer_listen, peerListenAddress(config.cluster, listen));
  NIMBUS_TRY(const auto peer_server, http::Server::open(peerOptions(config.server, peer_listen),
                                                        threads, router, {&peer_authorizer}));
  NIMBUS_CHECK(runToEnd(main_context, upkeep.start()));
  NIMBUS_CHECK(runToEnd(main_context, deployments->start()));
  const std::string address = hostAndPort(listen.address, server->port());
  const Result<> joined = runToEnd(
      main_context, members.join(peerAddress(config.cluster, peer_listen, peer_server->port()),
                                 urlOf(config.server, address)));
  if (!joined && hasOwners(config)) {
    runToEnd(main_context, upkeep.stop());
    return joined;
  }
  if (!joined)
    log::warn("other servers do not know of this one", {{"reason", joined.error().message()}});
  if (options.functions) {
    runToEnd(main_context, deployment::deployFolders(*deployments, *options.functions));
  }
  // Last of all that can fail: a start that does not succeed must not use up the one showing.
  if (options.authenticate) {
    auto added =
        usesRedis(config)
            ? runToEnd(main_context, addSharedAdministrator(authorization, *store,
                                                            config.server.data, random, output.err))
            : addAdministrator(authorization, config.server.data, random, output.err);
    if (!added) {
      runToEnd(main_context, members.leave());
      runToEnd(main_context, upkeep.stop());
      return added;
    }
  }

  TaskGroup following(main_context.get_executor(), "functions of other nodes");
  // Signals are caught before anyone can be told that the server is ready to be sent one.
  std::exception_ptr failure;
  asio::co_spawn(main_context,
                 serveUntilSignal({following, *server, *peer_server, calls, members, forwarding,
                                   upkeep, audit, event_upkeep},
                                  config.server.drain, deadline),
                 [&](const std::exception_ptr& thrown) { failure = thrown; });
  main_context.poll();
  calls.start();
  audit.start();
  event_upkeep.start();
  if (joined) {
    members.start();
    peer_server->start();
  }
  following.add(deployments->follow());
  server->start();
  sayReady(output.out, urlOf(config.server, address));
  notifyManager("READY=1");
  logReady(config.server, instance_id, threads, store->describe());
  main_context.run();
  if (failure) return Error(Code::Internal, "the server failed while it was stopped");
  log::info("stopped");
  return {};
}

}  // namespace nimbus::server
