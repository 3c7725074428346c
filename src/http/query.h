#pragma once
// The query of a request: `a=1&b=two+words`, where `+` is a space, as in forms.
//
// Parameters are looked up by name when they are asked for; what nobody asks for is ignored. A
// parameter given twice is refused rather than guessed at.

#include "base/result.h"

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::http {

// Bounds of an integer parameter, both included.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = INT64_MAX;
};

// Borrows the raw query, which the server has checked to decode well (Request::query()).
// Every getter answers InvalidArgument, with the field `parameter`, for a value that does not fit.
class Query {
 public:
  explicit Query(std::string_view raw);

  // Decoded; nothing if the parameter is absent, empty text if it has no value.
  Result<std::optional<std::string>> text(std::string_view name) const;

  // Decimal digits with an optional '-'; no '+', space or exponent.
  Result<std::optional<std::int64_t>> integer(std::string_view name, IntegerRange range) const;

  // A finite decimal number such as 1.5.
  Result<std::optional<double>> number(std::string_view name) const;

  // "true", "1" or nothing after the name; "false" or "0".
  Result<bool> flag(std::string_view name) const;

  // `limit` of a list: 1..1000, never clamped.
  Result<std::size_t> limit(std::size_t absent) const;

 private:
  struct Parameter {
    std::string_view name;  // still encoded
    std::string_view value;
  };
  boost::container::small_vector<Parameter, 8> parameters_;
};

// Refuses a query any part of which does not decode.
Result<> checkQuery(std::string_view raw);

}  // namespace nimbus::http
