#include "base/log.h"

#include "base/json_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>

namespace nimbus::log {
namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a process has one log
std::atomic<Level> minimum = Level::Info;
std::atomic<Format> chosen = Format::Auto;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

std::string_view levelName(Level level) {
  switch (level) {
    case Level::Debug:
      return "debug";
    case Level::Info:
      return "info";
    case Level::Warn:
      return "warn";
    default:
      return "error";
  }
}

// spdlog owns the stream and its lock; what a line looks like is decided here.
spdlog::logger& sink() {
  static const auto kLogger = [] {
    auto logger = std::make_shared<spdlog::logger>(
        "nimbus", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_pattern("%v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    return logger;
  }();
  return *kLogger;
}

Format resolve(Format format) {
  if (format != Format::Auto) return format;
  static const bool kTerminal = ::isatty(STDERR_FILENO) == 1;
  return kTerminal ? Format::Text : Format::Json;
}

std::string timeText() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto millis = now.time_since_epoch().count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), millis);
}

struct AppendJsonValue {
  std::string& out;
  void operator()(std::string_view text) const { appendJsonString(out, text); }
  void operator()(bool flag) const { out += flag ? "true" : "false"; }
  void operator()(std::int64_t number) const {
    fmt::format_to(std::back_inserter(out), "{}", number);
  }
  void operator()(double number) const {
    if (std::isfinite(number)) {
      fmt::format_to(std::back_inserter(out), "{}", number);
    } else {
      out += "null";  // JSON has no word for it
    }
  }
};

// Text values are quoted only where a reader, or a terminal, would stumble over them.
bool needsQuotes(std::string_view text) {
  if (text.empty() || text.find_first_of(" =") != text.npos) return true;
  return printable(text).size() != text.size();  // something in it had to be escaped
}

std::string formatText(Level level, std::string_view event, Fields fields) {
  std::string line = fmt::format("{} {:<5} {}", timeText(), levelName(level), printable(event));
  for (const Field& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    const auto* text = std::get_if<std::string_view>(&field.value);
    if (text != nullptr && !needsQuotes(*text)) {
      line += *text;
    } else {
      std::visit(AppendJsonValue{line}, field.value);
    }
  }
  return line;
}

std::string formatJson(Level level, std::string_view event, Fields fields) {
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","event":)", timeText(), levelName(level));
  appendJsonString(line, event);
  for (const Field& field : fields) {
    line += ',';
    appendJsonString(line, field.name);
    line += ':';
    std::visit(AppendJsonValue{line}, field.value);
  }
  line += '}';
  return line;
}

}  // namespace

void configure(Level level, Format format) {
  minimum = level;
  chosen = format;
}

bool enabled(Level level) {
  return level >= minimum.load(std::memory_order_relaxed);
}

std::string format(Format format, Level level, std::string_view event, Fields fields) {
  return resolve(format) == Format::Text ? formatText(level, event, fields)
                                         : formatJson(level, event, fields);
}

void write(Level level, std::string_view event, Fields fields) {
  sink().log(spdlog::level::info,
             format(chosen.load(std::memory_order_relaxed), level, event, fields));
}

}  // namespace nimbus::log
