#pragma once

#include "http/method.h"

#include <chrono>
#include <cstdint>
#include <string_view>

namespace nimbus::http {

// A request that was answered, or whose answer could not be sent.
struct Exchange {
  std::string_view route;  // the pattern, so a bounded set; empty if no route was found
  Method method = Method::Get;
  int status = 0;                       // 499: its client left, and it was cancelled
  std::chrono::nanoseconds duration{};  // from the complete head to the finished answer
  std::uint64_t bytes_in = 0;           // head and body
  std::uint64_t bytes_out = 0;
  std::string_view request_id;
};

// Sees what the server does; metrics are made of it. Called on every thread of the server at once,
// in the middle of its work: it must be quick and must not throw.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void onConnectionOpened() {}
  virtual void onConnectionClosed() {}
  virtual void onRequest(const Exchange& exchange) = 0;
};

}  // namespace nimbus::http
