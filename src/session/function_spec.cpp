#include "session/function_spec.h"

#include "base/json_text.h"

#include <fmt/format.h>

#include <iterator>

namespace nimbus::session {

std::string loadHead(const FunctionSpec& function) {
  std::string head = R"({"function_id":)";
  appendJsonString(head, function.id);
  fmt::format_to(std::back_inserter(head), R"(,"version":{},"handler":)", function.version);
  appendJsonString(head, function.handler);
  head += R"(,"directory":)";
  appendJsonString(head, function.directory);
  if (!function.dependencies.empty()) {
    head += R"(,"dependencies":)";
    appendJsonString(head, function.dependencies);
  }
  head += R"(,"env":{)";
  bool first = true;
  for (const auto& [name, value] : function.env) {
    if (!std::exchange(first, false)) head += ',';
    appendJsonString(head, name);
    head += ':';
    appendJsonString(head, value);
  }
  const state::Rules& rules = function.rules;
  fmt::format_to(std::back_inserter(head),
                 R"(}},"concurrency":{},"memory_mb":{},"state":{{"enabled":{},"default_ttl_ms":{},)"
                 R"("max_value_bytes":{},"max_keys":{},"max_total_bytes":{}}}}})",
                 function.concurrency, function.memory_mb, rules.enabled,
                 rules.default_ttl ? rules.default_ttl->count() : 0, rules.max_value_bytes,
                 rules.max_keys, rules.max_total_bytes);
  return head;
}

}  // namespace nimbus::session
