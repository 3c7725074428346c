#include "cli/input.h"

#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <istream>
#include <iterator>
#include <system_error>

namespace nimbus::cli {

std::optional<std::string> readWholeFile(const std::string& path, Context& context) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.is_open() && !file.bad() && errno != EISDIR) return text;
  context.error(fmt::format("{}: {}", printable(path), std::generic_category().message(errno)));
  return std::nullopt;
}

std::optional<std::string> readInput(const std::string& given, Context& context) {
  if (given == "-") {
    return std::string((std::istreambuf_iterator<char>(context.in)),
                       std::istreambuf_iterator<char>());
  }
  if (given.starts_with('@')) return readWholeFile(given.substr(1), context);
  return given;
}

std::optional<std::string> readJson(const std::string& given, std::string_view option,
                                    Context& context) {
  auto text = readInput(given, context);
  if (!text) return std::nullopt;
  if (const auto sound = checkJson(*text); !sound) {
    context.error(fmt::format("{} is no JSON: {}", option, sound.error().message()),
                  R"(text needs its quotes, and the shell quotes around them: '"hello"')");
    return std::nullopt;
  }
  return text;
}

}  // namespace nimbus::cli
