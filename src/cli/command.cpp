#include "cli/command.h"

#include "base/json_text.h"

#include <algorithm>
#include <ostream>

namespace nimbus::cli {

std::optional<std::string> Arguments::one(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::optional<std::string> Context::variable(std::string_view name) const {
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [&](const auto& variable) { return variable.first == name; });
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

void Context::error(std::string_view what, std::string_view hint) const {
  err << (colour ? "\x1b[1;31merror:\x1b[0m " : "error: ") << what << '\n';
  if (!hint.empty()) err << (colour ? "\x1b[36mhint:\x1b[0m " : "hint: ") << hint << '\n';
}

void Context::warning(std::string_view what) const {
  err << (colour ? "\x1b[1;33mwarning:\x1b[0m " : "warning: ") << what << '\n';
}

}  // namespace nimbus::cli
