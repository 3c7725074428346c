#pragma once
// The patterns of routes, taken apart: for the router that matches them and the document that
// describes them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::http {

enum class ParameterType : std::uint8_t { Name, Text, Rest };

struct PatternSegment {
  bool is_parameter = false;
  std::string text;    // the literal, or the parameter's name
  std::string suffix;  // ":verb" after a parameter; empty if there is none
  ParameterType type = ParameterType::Text;
};

// Aborts on a malformed pattern: patterns are literals of ours.
std::vector<PatternSegment> parsePattern(std::string_view pattern);

}  // namespace nimbus::http
