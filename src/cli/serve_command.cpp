#include "base/json_text.h"
#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/configuration.h"

#include <filesystem>
#include <system_error>

namespace nimbus::cli {
namespace {

// --store in terms of settings.
std::optional<std::vector<Settings::Assignment>> storeAssignments(const std::string& store) {
  if (store == "sqlite") return {{{"gateway.store.backend", "sqlite", "--store"}}};
  const bool is_cluster =
      store.starts_with("redis+cluster://") || store.starts_with("rediss+cluster://");
  const bool is_single = store.starts_with("redis://") || store.starts_with("rediss://");
  if (!is_cluster && !is_single) return std::nullopt;
  return {{{"gateway.store.backend", "redis", "--store"},
           {"gateway.store.redis.url", store, "--store"},
           {"gateway.store.redis.cluster", is_cluster ? "true" : "false", "--store"}}};
}

Exit serve(const Arguments& arguments, Context& context) {
  std::vector<Settings::Assignment> assignments;
  if (const auto listen = arguments.one("--listen")) {
    assignments.push_back({"server.listen", *listen, "--listen"});
  }
  if (const auto data = arguments.one("--data")) {
    assignments.push_back({"server.data", *data, "--data"});
  }
  if (const auto store = arguments.one("--store")) {
    const auto chosen = storeAssignments(*store);
    if (!chosen) {
      context.error("--store: there is no store \"" + printable(*store) + "\"",
                    "sqlite, redis://HOST:PORT/DB or redis+cluster://HOST:PORT,HOST:PORT");
      return Exit::Usage;
    }
    assignments.insert(assignments.end(), chosen->begin(), chosen->end());
  }
  ServeOptions options;
  options.authenticate = !arguments.has("--no-auth");
  options.functions = arguments.one("--functions");
  std::error_code ignored;
  if (options.functions && !std::filesystem::is_directory(*options.functions, ignored)) {
    context.error("--functions: \"" + printable(*options.functions) + "\" is no directory");
    return Exit::Usage;
  }

  if (const Exit loaded = loadConfiguration(arguments, context, std::move(assignments));
      loaded != Exit::Ok) {
    return loaded;
  }
  if (const auto allowed = context.backend.checkServe(options); !allowed) {
    context.error(allowed.error().message());
    return Exit::Usage;
  }
  if (const auto served = context.backend.serve(options, {context.out, context.err}); !served) {
    context.error(served.error().message());
    return Exit::Failed;
  }
  return Exit::Ok;
}

}  // namespace

std::vector<Command> serveCommands() {
  using enum Option::Takes;
  Command command;
  command.words = "serve";
  command.summary = "Run the server";
  command.details =
      "Prints one line on standard output when it accepts calls, and logs on standard error.\n"
      "SIGTERM or Ctrl-C lets running calls finish; a second one ends it at once.";
  command.examples = {
      {"nimbus serve", "on 127.0.0.1:8787, with its data in ./nimbus-data"},
      {"nimbus serve --listen 127.0.0.1:0 --data /tmp/try", "on any free port"},
      {"nimbus serve --config /etc/nimbus/nimbus.yaml --set log.level=debug", ""},
  };
  command.options = {
      {"--listen", "Where to listen; port 0 picks a free one", OneValue, "HOST:PORT"},
      {"--data", "Data directory", OneValue, "DIR"},
      {"--store", "sqlite, redis://HOST:PORT/DB or redis+cluster://HOST:PORT,…", OneValue, "STORE"},
      {"--functions", "Deploy the functions in this directory", OneValue, "DIR"},
      {"--no-auth", "Ask nobody for a key; only on a loopback address", Nothing},
  };
  for (Option& option : configurationOptions()) command.options.push_back(std::move(option));
  command.run = serve;
  return {command};
}

}  // namespace nimbus::cli
