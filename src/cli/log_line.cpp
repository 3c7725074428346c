#include "cli/log_line.h"

#include "cli/text_width.h"

#include <fmt/format.h>

namespace nimbus::cli {

std::string logLine(const JsonValue& line, bool colour) {
  std::string_view time = line.string("time").value_or("");
  if (const std::size_t day = time.find('T'); day != time.npos) time.remove_prefix(day + 1);
  if (time.ends_with('Z')) time.remove_suffix(1);
  const std::string text = shownText(line.string("line").value_or(""));
  const bool is_error = line.string("stream").value_or("") == "stderr";
  if (!colour) return fmt::format("{} {}{}\n", time, is_error ? "! " : "", text);
  return fmt::format("\x1b[2m{}\x1b[0m {}{}\x1b[0m\n", time, is_error ? "\x1b[33m" : "", text);
}

std::string logLine(const std::string& json, bool colour) {
  const auto line = parseJson(json);
  return line ? logLine(*line, colour) : json + "\n";
}

}  // namespace nimbus::cli
