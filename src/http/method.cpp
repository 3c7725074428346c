#include "http/method.h"

#include <array>

namespace nimbus::http {
namespace {

constexpr std::array<std::string_view, kMethodCount> kNames = {
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"};

}  // namespace

std::string_view methodName(Method method) {
  return kNames.at(static_cast<std::size_t>(method));
}

std::optional<Method> parseMethod(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Method>(i);
  }
  return std::nullopt;
}

}  // namespace nimbus::http
