#include "http/query.h"

#include "http/percent.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace nimbus::http {
namespace {

constexpr std::int64_t kMaxLimit = 1000;

Error unfit(std::string_view name, std::string_view why) {
  return Error(Code::InvalidArgument, fmt::format("query parameter '{}': {}", name, why))
      .with("parameter", std::string(name));
}

// Takes the next `name=value` off the front of `rest`.
std::string_view takePair(std::string_view& rest) {
  const std::size_t end = rest.find('&');
  const std::string_view pair = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return pair;
}

bool isNamed(std::string_view encoded, std::string_view name) {
  if (encoded == name) return true;
  if (encoded.find_first_of("%+") == std::string_view::npos) return false;
  std::string decoded;
  return percentDecode(encoded, Plus::Space, decoded) && decoded == name;
}

}  // namespace

Query::Query(std::string_view raw) {
  for (std::string_view rest = raw; !rest.empty();) {
    const std::string_view pair = takePair(rest);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    parameters_.push_back({pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size()))});
  }
}

Result<std::optional<std::string>> Query::text(std::string_view name) const {
  std::optional<std::string> found;
  for (const Parameter& parameter : parameters_) {
    if (!isNamed(parameter.name, name)) continue;
    if (found) return unfit(name, "given more than once");
    found.emplace();
    NIMBUS_CHECK(percentDecode(parameter.value, Plus::Space, *found));
  }
  return found;
}

Result<std::optional<std::int64_t>> Query::integer(std::string_view name,
                                                   IntegerRange range) const {
  NIMBUS_TRY(const auto given, text(name));
  if (!given) return std::optional<std::int64_t>();
  std::int64_t value = 0;
  const char* const end = given->data() + given->size();
  const auto [stopped, failure] = std::from_chars(given->data(), end, value);
  if (failure != std::errc() || stopped != end || value < range.least || value > range.most) {
    return unfit(name, fmt::format("must be an integer from {} to {}", range.least, range.most))
        .with("least", range.least)
        .with("most", range.most);
  }
  return std::optional(value);
}

Result<std::optional<double>> Query::number(std::string_view name) const {
  NIMBUS_TRY(const auto given, text(name));
  if (!given) return std::optional<double>();
  double value = 0;
  const char* const end = given->data() + given->size();
  const auto [stopped, failure] =
      std::from_chars(given->data(), end, value, std::chars_format::fixed);
  if (failure != std::errc() || stopped != end || !std::isfinite(value)) {
    return unfit(name, "must be a number such as 1.5");
  }
  return std::optional(value);
}

Result<bool> Query::flag(std::string_view name) const {
  NIMBUS_TRY(const auto given, text(name));
  if (!given || *given == "false" || *given == "0") return false;
  if (given->empty() || *given == "true" || *given == "1") return true;
  return unfit(name, "must be true or false");
}

Result<std::size_t> Query::limit(std::size_t absent) const {
  NIMBUS_TRY(const auto given, integer("limit", {.least = 1, .most = kMaxLimit}));
  return given ? static_cast<std::size_t>(*given) : absent;
}

Result<> checkQuery(std::string_view raw) {
  if (raw.find('%') == std::string_view::npos) return {};
  std::string decoded;
  for (std::string_view rest = raw; !rest.empty();) {
    decoded.clear();
    NIMBUS_CHECK(percentDecode(takePair(rest), Plus::Space, decoded));
  }
  return {};
}

}  // namespace nimbus::http
