#pragma once
// The text in which /metrics speaks.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::cli {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

// Lines that make no sense are left out.
std::vector<Sample> readExposition(std::string_view text);

}  // namespace nimbus::cli
