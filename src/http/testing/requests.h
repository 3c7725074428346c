#pragma once
// Requests to the routes of TestServer, as they go over the wire.

#include "http/testing/raw_client.h"

#include <optional>
#include <string>
#include <string_view>

namespace nimbus::http {

inline constexpr std::string_view kHello = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
inline constexpr std::string_view kHeld = "GET /held HTTP/1.1\r\nHost: x\r\n\r\n";

inline std::string echo(std::string_view body) {
  return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

// 0 if there was no answer.
inline int statusOf(const std::optional<RawAnswer>& answer) {
  return answer ? answer->status : 0;
}

}  // namespace nimbus::http
