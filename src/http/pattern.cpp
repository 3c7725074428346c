#include "http/pattern.h"

#include "base/assert.h"

#include <algorithm>

namespace nimbus::http {
namespace {

ParameterType parseType(std::string_view name) {
  if (name == "name") return ParameterType::Name;
  if (name == "rest") return ParameterType::Rest;
  NIMBUS_ASSERT(name == "text", "a parameter's type is name, text or rest");
  return ParameterType::Text;
}

PatternSegment parseSegment(std::string_view text) {
  PatternSegment segment;
  if (!text.starts_with('{')) {
    NIMBUS_ASSERT(text.find_first_of("{}%") == std::string_view::npos,
                  "a parameter is a segment of its own");
    segment.text = text;
    return segment;
  }
  const std::size_t close = text.find('}');
  NIMBUS_ASSERT(close != std::string_view::npos, "a parameter ends with '}'");
  const std::string_view inside = text.substr(1, close - 1);
  const std::size_t colon = inside.find(':');
  segment.is_parameter = true;
  segment.text = inside.substr(0, colon);
  segment.suffix = text.substr(close + 1);
  if (colon != std::string_view::npos) segment.type = parseType(inside.substr(colon + 1));
  NIMBUS_ASSERT(!segment.text.empty(), "a parameter has a name");
  NIMBUS_ASSERT(segment.suffix.empty() || segment.suffix.starts_with(':'),
                "only a verb follows a parameter");
  return segment;
}

}  // namespace

std::vector<PatternSegment> parsePattern(std::string_view pattern) {
  NIMBUS_ASSERT(pattern.starts_with('/'), "a pattern begins with '/'");
  std::vector<PatternSegment> segments;
  for (std::size_t begin = 1; begin <= pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', begin), pattern.size());
    segments.push_back(parseSegment(pattern.substr(begin, end - begin)));
    NIMBUS_ASSERT(segments.back().type != ParameterType::Rest || end == pattern.size(),
                  "what takes the rest stands at the end");
    begin = end + 1;
  }
  return segments;
}

}  // namespace nimbus::http
