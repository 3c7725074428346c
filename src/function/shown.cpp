#include "function/shown.h"

#include "base/json_text.h"

namespace nimbus::function {

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 128;
  if (name.size() <= kMost) return printable(name);
  return printable(name.substr(0, kMost)) + "…";
}

}  // namespace nimbus::function
