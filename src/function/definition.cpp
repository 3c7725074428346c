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
  if (definition.isolation == Isolation::Microvm) {
    return Error(Code::Unprocessable, "isolation microvm is not built into this server")
        .with("field", std::string("isolation"));
  }
  return {};
}

}  // namespace

std::string_view runtimeName(Runtime runtime) {
  return kRuntimes.at(static_cast<std::size_t>(runtime));
}

Result<Definition> update(const std::optional<Definition>& current, const FunctionId& id,
                          std::string_view body, const Defaults& defaults) {
  Definition next = current ? *current : Definition(id);
  if (!current) next.state = defaults.state;

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
  Definition definition(id);
  definition.state = defaults.state;
  SettingsReader reader(settings, definition.given);
  eachField(definition, defaults, reader);
  NIMBUS_CHECK(reader.finish());
  followRuntime(definition);
  return definition;
}

}  // namespace nimbus::function
