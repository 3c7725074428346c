#pragma once
// What a handler may know of its call.

#include <nimbus/function/json.h>
#include <time.h>

#include <algorithm>
#include <optional>

namespace nimbus {

class Context {
 public:
  explicit Context(std::string text) : json_(Json::ofTrustedText(std::move(text))) {}

  std::string requestId() const { return json_["request_id"].asString(""); }
  std::string functionId() const { return json_["function_id"].asString(""); }
  std::int64_t version() const { return json_["version"].asInt(0); }
  // Nothing in a stateless call.
  std::optional<std::string> sessionKey() const {
    const Json& key = json_["session_key"];
    return key.isNull() ? std::nullopt : std::optional(key.asString());
  }
  std::int64_t sessionSeq() const { return json_["session_seq"].asInt(0); }
  std::int64_t attempt() const { return json_["attempt"].asInt(1); }
  std::int64_t deadlineMs() const { return json_["deadline_ms"].asInt(0); }  // Unix time
  std::string traceparent() const { return json_["traceparent"].asString(""); }

  // How long the call may still take; 0 if its time is over.
  std::int64_t remainingMs() const {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const std::int64_t now_ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
    return std::max<std::int64_t>(0, deadlineMs() - now_ms);
  }

  // All of it, as the server sent it.
  const Json& json() const { return json_; }

 private:
  Json json_;
};

}  // namespace nimbus
