#pragma once
// Functions to begin with.

#include <span>
#include <string_view>

namespace nimbus::cli {

struct Template {
  std::string_view name;      // "counter"
  std::string_view language;  // python, node or native
  std::string_view file;      // "main.py"
  std::string_view code;
  std::string_view payload;  // to try it with
};

// The first of a name is the one whose language nobody has to say.
std::span<const Template> templates();

// The function.yaml beside every one of them.
std::string_view templateSettings();

}  // namespace nimbus::cli
