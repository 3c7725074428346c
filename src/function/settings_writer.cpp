#include "function/settings_writer.h"

namespace nimbus::function {
namespace {

void append(std::string& members, std::string_view name, std::string_view json) {
  if (!members.empty()) members += ',';
  appendJsonString(members, name);
  members += ':';
  members += json;
}

}  // namespace

void SettingsWriter::text(std::string_view name, std::string_view value) {
  std::string json;
  appendJsonString(json, value);
  member(name, json);
}

void SettingsWriter::environment(std::string_view name,
                                 const std::map<std::string, std::string, std::less<>>& value) {
  std::string variables;
  for (const auto& [variable, text] : value) {
    std::string json;
    appendJsonString(json, text);
    append(variables, variable, json);
  }
  member(name, fmt::format("{{{}}}", variables));
}

void SettingsWriter::leave() {
  auto [name, members] = std::move(outer_.back());
  outer_.pop_back();
  const std::string inner = std::exchange(members_, std::move(members));
  if (!inner.empty()) append(members_, name, fmt::format("{{{}}}", inner));
}

void SettingsWriter::member(std::string_view name, std::string_view json) {
  if (only_ != nullptr) {
    std::string path;
    for (const auto& [object, before] : outer_) path += object + ".";
    path += name;
    if (!only_->contains(path)) return;
  }
  append(members_, name, json);
}

}  // namespace nimbus::function
