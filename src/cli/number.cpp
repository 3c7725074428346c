#include "cli/number.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace nimbus::cli {

bool readNumber(const Arguments& arguments, const std::string& option, std::int64_t least,
                std::int64_t most, std::int64_t& number, const Context& context) {
  const auto given = arguments.one(option);
  if (!given) return true;
  std::int64_t read = 0;
  const char* const end = given->data() + given->size();
  const auto [stopped, failed] = std::from_chars(given->data(), end, read);
  if (failed == std::errc() && stopped == end && read >= least && read <= most) {
    number = read;
    return true;
  }
  context.error(fmt::format("{} must be a whole number from {} to {}", option, least, most));
  return false;
}

}  // namespace nimbus::cli
