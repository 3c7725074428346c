#include "cli/remote.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "cli/backend.h"
#include "cli/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <istream>
#include <ostream>
#include <utility>

namespace nimbus::cli {
namespace {

constexpr std::string_view kDefaultServer = "http://127.0.0.1:8787";
constexpr std::string_view kPackagedData = "/var/lib/nimbus";  // where the package keeps it

std::optional<std::string> keyIn(const std::filesystem::path& directory) {
  std::ifstream file(directory / "admin.key");
  std::string key;
  if (!(file >> key)) return std::nullopt;
  return key;
}

// The administrator's key of this machine is for servers on this machine, unless its directory was
// named.
std::string keyFor(const client::Url& url, const Arguments& arguments, Context& context) {
  if (const auto key = context.variable("NIMBUS_KEY"); key && !key->empty()) return *key;
  if (const auto named = arguments.one("--data-dir")) return keyIn(*named).value_or("");
  if (!url.isLoopback()) return {};
  Settings::Sources sources;
  sources.environment = context.environment;
  // Whatever is wrong there is not this command's business.
  static_cast<void>(context.backend.settings().load(sources));
  if (auto key = keyIn(context.backend.place().data)) return *key;
  return keyIn(kPackagedData).value_or("");
}

std::string textOf(const JsonValue& problem, std::string_view name) {
  return std::string(problem.string(name).value_or(""));
}

// The function that "/api/v1/functions/ID/…" is about.
std::string_view functionIn(std::string_view target) {
  constexpr std::string_view kFunctions = "/api/v1/functions/";
  if (!target.starts_with(kFunctions)) return {};
  target.remove_prefix(kFunctions.size());
  return target.substr(0, target.find_first_of("/?"));
}

}  // namespace

Remote::Remote(client::Client client, Context& context, std::optional<std::string> output)
    : client_(std::move(client)), context_(context), json_(output == "json") {}

std::string Remote::nearestFunction(std::string_view target) {
  const std::string_view wanted = functionIn(target);
  if (wanted.empty() || wanted.size() > 128) return {};
  client::Request request;
  request.target = "/api/v1/functions?limit=1000";
  const auto answer = client_.send(request);
  if (!answer || !answer->isOk()) return {};
  const auto list = parseJson(answer->body);
  if (!list) return {};
  const auto items = list->member("items");
  if (!items) return {};
  std::vector<std::string> names;
  for (const JsonValue& item : items->elements()) {
    names.emplace_back(item.string("id").value_or(""));
    if (names.back() == wanted) return {};  // it is there: something else is not
  }
  if (names.empty()) return "nothing is deployed there yet: nimbus deploy DIR";
  const std::string_view close =
      nearest(names, [&](std::string_view name) { return editDistance(wanted, name); });
  if (editDistance(wanted, close) > std::max<std::size_t>(2, wanted.size() / 3)) {
    return "`nimbus functions` lists what is there";
  }
  return fmt::format("did you mean {}? `nimbus functions` lists what is there", close);
}

std::string Remote::hintFor(std::string_view code, const client::Answer& answer,
                            std::string_view target) {
  if (code == "unauthenticated") {
    return "put a key into NIMBUS_KEY, or name the server's data directory with --data-dir";
  }
  if (code == "forbidden") return "this key may not do that; `nimbus keys create` makes others";
  if (code == "not_found") return nearestFunction(target);
  const std::string_view seconds = answer.header("Retry-After");
  if (!seconds.empty()) return fmt::format("try again in {} s", seconds);
  return {};
}

void Remote::explain(const Error& error) {
  const bool nobody = error.code() == Code::Unavailable;
  context_.error(error.message(),
                 nobody ? "is it running? `nimbus serve` or `nimbus dev` starts one; --server or "
                          "NIMBUS_URL names another"
                        : "");
}

void Remote::explain(const client::Answer& answer, std::string_view target) {
  if (json_) {
    context_.err << answer.body << '\n';
    return;
  }
  const auto problem = parseJson(answer.body);
  if (!problem || !problem->isObject()) {
    context_.error(fmt::format("{} answered {}", client_.url().text(), answer.status));
    return;
  }
  std::string what = textOf(*problem, "detail");
  if (what.empty()) what = textOf(*problem, "title");
  const std::string code = textOf(*problem, "code");
  std::string trace;
  if (const auto error = problem->member("error"); error && error->isObject()) {
    what = fmt::format("the function raised {}: {}", textOf(*error, "type"),
                       textOf(*error, "message"));
    trace = textOf(*error, "trace");
  }
  context_.error(fmt::format("{} ({})", what, code), hintFor(code, answer, target));
  if (!trace.empty()) context_.err << trace << (trace.ends_with('\n') ? "" : "\n");
}

std::optional<client::Answer> Remote::ask(const client::Request& request) {
  auto answer = client_.send(request);
  if (!answer) {
    explain(answer.error());
    return std::nullopt;
  }
  if (!answer->isOk()) {
    explain(*answer, request.target);
    return std::nullopt;
  }
  return *std::move(answer);
}

std::optional<client::Answer> Remote::get(std::string target) {
  client::Request request;
  request.target = std::move(target);
  return ask(request);
}

Exit Remote::change(const client::Request& request, std::string_view done) {
  const auto answer = ask(request);
  if (!answer) return Exit::Failed;
  if (json_) {
    context_.out << (answer->body.empty() ? "{}" : answer->body) << '\n';
  } else if (!done.empty()) {
    context_.out << done << '\n';
  }
  return Exit::Ok;
}

bool Remote::mayDestroy(const Arguments& arguments, std::string_view question) {
  if (arguments.has("--yes") || !context_.in_is_terminal) return true;
  context_.err << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(context_.in, answer);
  return answer == "y" || answer == "yes";
}

std::vector<Option> remoteOptions(DataOption data) {
  using enum Option::Takes;
  return {
      {"--server", "The server; else NIMBUS_URL, else http://127.0.0.1:8787", OneValue, "URL"},
      {data == DataOption::Usual ? "--data-dir,--data" : "--data-dir",
       "The server's data directory, where its key is; NIMBUS_KEY wins", OneValue, "DIR"},
      {"-o,--output", "table for people, json for programs", OneValue, "FORMAT"},
  };
}

std::optional<client::Client> openClient(const Arguments& arguments, Context& context, Exit& exit) {
  const std::string address =
      arguments.one("--server")
          .value_or(context.variable("NIMBUS_URL").value_or(std::string(kDefaultServer)));
  const auto url = client::parseUrl(address);
  if (!url) {
    context.error(url.error().message(), "--server or NIMBUS_URL");
    exit = Exit::Usage;
    return std::nullopt;
  }
  client::Client::Options options;
  options.key = keyFor(*url, arguments, context);
  if (options.key.find_first_of("\r\n") != std::string::npos) {
    context.error("NIMBUS_KEY holds more than one line", "it is one word that begins with nk_");
    exit = Exit::Usage;
    return std::nullopt;
  }
  return client::Client(*url, std::move(options));
}

std::optional<Remote> openRemote(const Arguments& arguments, Context& context, Exit& exit) {
  const auto output = arguments.one("--output");
  if (output && *output != "json" && *output != "table") {
    context.error(fmt::format("--output: there is no format \"{}\"", printable(*output)),
                  "table or json");
    exit = Exit::Usage;
    return std::nullopt;
  }
  auto client = openClient(arguments, context, exit);
  if (!client) return std::nullopt;
  return std::make_optional<Remote>(*std::move(client), context, output);
}

Command remoteCommand(std::string words, std::string summary, RemoteAction action,
                      std::vector<Option> options, DataOption data) {
  Command command;
  command.words = std::move(words);
  command.summary = std::move(summary);
  command.options = std::move(options);
  for (Option& option : remoteOptions(data)) command.options.push_back(std::move(option));
  command.run = [action](const Arguments& arguments, Context& context) {
    Exit exit = Exit::Ok;
    auto remote = openRemote(arguments, context, exit);
    return remote ? action(*remote, arguments) : exit;
  };
  return command;
}

client::Request post(std::string target, std::string body) {
  client::Request request;
  request.method = "POST";
  request.target = std::move(target);
  request.body = std::move(body);
  return request;
}

client::Request removal(std::string target) {
  client::Request request;
  request.method = "DELETE";
  request.target = std::move(target);
  return request;
}

std::string functionPath(const Arguments& arguments, std::string_view rest) {
  return fmt::format("/api/v1/functions/{}{}", client::encoded(*arguments.one("FUNCTION")), rest);
}

Option yesOption() {
  return {"-y,--yes", "Do not ask"};
}

}  // namespace nimbus::cli
