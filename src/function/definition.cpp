#include "function/definition.h"

#include "base/time_text.h"
#include "function/bundle.h"
#include "function/settings_reader.h"
#include "function/settings_writer.h"

#include <fmt/format.h>

namespace nimbus::function {
namespace {

bool isScript(Runtime runtime) {
  return runtime == Runtime::Python || runtime == Runtime::Node;
}

std::string_view defaultHandler(Runtime runtime) {
  return runtime == Runtime::Exec ? "main" : "main.handle";
}

// A runtime that waits without a thread per call can run many at once.
std::uint32_t defaultConcurrency(Runtime runtime) {
  return runtime == Runtime::Node ? 16 : 1;
}

void followRuntime(Definition& definition) {
  if (!definition.given.contains("handler")) {
    definition.handler = defaultHandler(definition.runtime);
  }
  if (!definition.given.contains("concurrency")) {
    definition.concurrency = defaultConcurrency(definition.runtime);
  }
}

Result<> checkHandler(const Definition& definition) {
  const std::string& handler = definition.handler;
  if (!isScript(definition.runtime)) {
    if (auto sound = checkPath(handler); !sound) {
      return wrongField("handler", "must name a file of the code: " + sound.error().message());
    }
    return {};
  }
  const std::size_t dot = handler.rfind('.');
  if (dot == handler.npos || dot == 0 || dot + 1 == handler.size()) {
    return wrongField("handler", "must be FILE.SYMBOL, such as main.handle");
  }
  return {};
}

// What the fields must be to each other.
Result<> crossCheck(const Definition& definition) {
  NIMBUS_CHECK(checkHandler(definition));
  if (definition.max_instances < definition.min_instances) {
    return wrongField("max_instances",
                      fmt::format("is {}, less than min_instances, which is {}",
                                  definition.max_instances, definition.min_instances));
  }
  if (definition.retry.max < definition.retry.initial) {
    return wrongField("retry.max_ms",
                      fmt::format("is {}, less than retry.initial_ms, which is {}",
                                  definition.retry.max.count(), definition.retry.initial.count()));
  }
  return {};
}

Error cannot(std::string field, std::string why) {
  return Error(Code::Unprocessable, std::move(why)).with("field", std::move(field));
}

// What the server can do for the function.
Result<> checkIsolation(const Definition& definition, const Defaults& server) {
  if (definition.isolation == Isolation::Microvm) {
    return cannot("isolation", "isolation microvm is not built into this server");
  }
  if (definition.isolation != Isolation::Sandbox) return {};
  if (!server.no_sandbox.empty()) {
    return cannot("isolation",
                  fmt::format("isolation sandbox is not possible on this server ({}); leave it out "
                              "or choose process",
                              server.no_sandbox));
  }
  if (definition.network && !server.may_use_network) {
    return cannot("network",
                  "this server gives functions in a sandbox no network; its operator can, with the "
                  "setting functions.network");
  }
  return {};
}

// A stored definition holds only what was said.
Definition blank(const FunctionId& id, const Defaults& defaults) {
  Definition definition(id);
  definition.state = defaults.state;
  definition.isolation = defaults.isolation;
  return definition;
}

}  // namespace

std::string_view runtimeName(Runtime runtime) {
  return kRuntimes.at(static_cast<std::size_t>(runtime));
}

Result<Definition> update(const std::optional<Definition>& current, const FunctionId& id,
                          std::string_view body, const Defaults& defaults) {
  Definition next = current ? *current : blank(id, defaults);

  NIMBUS_TRY(const JsonValue object, parseJson(body));
  SettingsReader reader(object, next.given);
  reader.refuse({"id", "version", "code_hash", "created_at", "updated_at"});
  const bool has_files = reader.has("files");
  const bool has_archive = reader.has("archive_base64");
  eachField(next, defaults, reader);
  NIMBUS_CHECK(reader.finish());

  if (has_files && has_archive) {
    return wrongField("archive_base64", "and files are two ways to give the code; give one");
  }
  if (!next.given.contains("runtime")) {
    return wrongField("runtime", "is missing: a new function is python, node, native or exec");
  }
  if (!current && !has_files && !has_archive) {
    return wrongField("files", "or archive_base64 must be there: a new function needs code");
  }
  followRuntime(next);
  NIMBUS_CHECK(crossCheck(next));
  NIMBUS_CHECK(checkIsolation(next, defaults));
  return next;
}

void setRuntime(Definition& definition, Runtime runtime, std::string_view handler) {
  definition.runtime = runtime;
  definition.handler = handler;
  // Versions do not say whether their handler was chosen. One that is as by default was not.
  if (handler == defaultHandler(runtime)) {
    definition.given.erase("handler");
  } else {
    definition.given.insert("handler");
  }
  followRuntime(definition);
}

std::string toJson(const Definition& definition) {
  SettingsWriter settings;
  eachField(definition, Defaults(), settings);
  return fmt::format(
      R"({{"id":"{}","version":{},{},"code_hash":"{}","created_at":"{}","updated_at":"{}"}})",
      definition.id.text(), definition.version, settings.members(), definition.code_hash,
      timeText(definition.created_at), timeText(definition.updated_at));
}

std::string settingsJson(const Definition& definition) {
  SettingsWriter settings(&definition.given);
  eachField(definition, Defaults(), settings);
  return fmt::format("{{{}}}", settings.members());
}

Result<Definition> readSettings(const FunctionId& id, const JsonValue& settings,
                                const Defaults& defaults) {
  Definition definition = blank(id, defaults);
  SettingsReader reader(settings, definition.given);
  eachField(definition, defaults, reader);
  NIMBUS_CHECK(reader.finish());
  followRuntime(definition);
  return definition;
}

}  // namespace nimbus::function
