#pragma once
// What can go wrong outside our own code, as a value.
//
// The codes are one closed set, shared by every module, every SDK and every HTTP answer, so that an
// error keeps its meaning from the disk to the client. An error also says what became of the
// request: whoever retries must know whether it may already have happened.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nimbus {

enum class Code : std::uint8_t {
  InvalidJson,
  InvalidArgument,
  Unauthenticated,
  Forbidden,
  NotFound,
  MethodNotAllowed,
  Conflict,
  VersionConflict,
  TooLarge,
  UnsupportedMediaType,
  Unprocessable,
  QuotaExceeded,
  RateLimited,
  QueueFull,
  FunctionError,
  Internal,
  FunctionCrashed,
  Unavailable,
  Fenced,
  Timeout,
  InsufficientStorage,
};

// The stable name clients see, such as "version_conflict".
std::string_view codeName(Code code);

// What became of the request that failed.
enum class Outcome : std::uint8_t {
  NotApplied,  // nothing happened; a retry is safe
  Applied,     // it happened, and will not be undone
  Unknown,     // it may have happened; only a look at the data can tell
};

std::string_view outcomeName(Outcome outcome);

class [[nodiscard]] Error {
 public:
  // A fact that helps the receiver act, such as {"current_version", 7}. Rendered into problem+json
  // under its name, so names are part of the public contract.
  struct Field {
    std::string_view name;  // a literal
    std::variant<std::int64_t, std::string> value;
  };

  Error(Code code, std::string message, Outcome outcome = Outcome::NotApplied)
      : code_(code), outcome_(outcome), message_(std::move(message)) {}

  Code code() const { return code_; }
  Outcome outcome() const { return outcome_; }
  const std::string& message() const { return message_; }
  const std::vector<Field>& fields() const { return fields_; }

  // The integer field of that name; `absent` if there is none.
  std::int64_t field(std::string_view name, std::int64_t absent) const;

  // `name` must be a literal.
  Error with(std::string_view name, std::int64_t value) &&;
  Error with(std::string_view name, std::string value) &&;

  // Says what was being done when it failed: "loading session s1: disk I/O error".
  Error in(std::string_view what) &&;

 private:
  Code code_;
  Outcome outcome_;
  std::string message_;
  std::vector<Field> fields_;
};

}  // namespace nimbus
