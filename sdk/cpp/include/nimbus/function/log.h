#pragma once
// Lines of the function's log: `LEVEL message name=value ...`. What is printed to stdout and stderr
// is log, too; these lines also know for sure which call they belong to.

#include <nimbus/function/channel.h>
#include <nimbus/function/json.h>

#include <initializer_list>

namespace nimbus {
namespace native {

// Where the lines of this thread go: set while a call runs on it.
struct LogPlace {
  Channel* channel = nullptr;
  std::uint64_t request = 0;
};
inline constinit thread_local LogPlace log_place;
inline constinit std::atomic<Channel*> log_channel = nullptr;  // of threads without a call

inline constexpr std::size_t kMaxLogLine = 256UL << 10U;

// As it is where that can be told from what follows, quoted otherwise.
inline std::string logValue(const Json& value) {
  if (!value.isString()) return value.text();
  const std::string text = toUtf8(value.asString());
  const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char byte) {
    return isPlain(byte) && byte != ' ' && byte != '=';
  });
  return is_plain ? text : Json(text).text();
}

inline void writeLog(std::string_view level, std::string_view message,
                     std::initializer_list<Member> fields) {
  std::string line(level);
  line += ' ';
  for (const char byte : toUtf8(message)) {
    if (byte == '\n') {
      line += "\\n";
    } else {
      line += byte;
    }
  }
  for (const Member& field : fields) {
    line += " " + toUtf8(field.name) + "=" + logValue(field.value);
  }
  if (line.size() > kMaxLogLine) line.resize(kMaxLogLine);
  line += '\n';
  Channel* const channel = log_place.channel != nullptr ? log_place.channel : log_channel.load();
  if (channel == nullptr) {
    static_cast<void>(!::write(STDOUT_FILENO, line.data(), line.size()));
    return;
  }
  std::string frame;
  appendFrame(frame, FrameType::Log, log_place.request, R"({"stream":"stdout"})", {line});
  channel->send(frame);
}

}  // namespace native

// nimbus::log::info("stored", {{"items", 3}});
namespace log {

inline void debug(std::string_view message, std::initializer_list<Member> fields = {}) {
  native::writeLog("DEBUG", message, fields);
}
inline void info(std::string_view message, std::initializer_list<Member> fields = {}) {
  native::writeLog("INFO", message, fields);
}
inline void warning(std::string_view message, std::initializer_list<Member> fields = {}) {
  native::writeLog("WARNING", message, fields);
}
inline void error(std::string_view message, std::initializer_list<Member> fields = {}) {
  native::writeLog("ERROR", message, fields);
}

}  // namespace log
}  // namespace nimbus
