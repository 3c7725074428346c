#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nimbus::http {

// Every method a route can have, and the two we know only to refuse them well.
enum class Method : std::uint8_t { Get, Head, Post, Put, Patch, Delete, Options, Trace, Connect };

inline constexpr std::size_t kMethodCount = 9;

std::string_view methodName(Method method);

// Names are case-sensitive; nothing for a method we do not know.
std::optional<Method> parseMethod(std::string_view name);

}  // namespace nimbus::http
