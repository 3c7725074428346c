#pragma once
// Structured log lines: an event in plain words, and named fields.
//
//   log::info("store opened", {{"path", path}, {"took_ms", took}});
//
// Lines go to stderr: readable text on a terminal, one JSON object per line otherwise. Control
// characters in values are escaped, so that no caller can forge a line.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace nimbus::log {

enum class Level : std::uint8_t { Debug, Info, Warn, Error, Off };
enum class Format : std::uint8_t { Auto, Text, Json };

// A field borrows its text: it is meant to live inside the call that logs it.
struct Field {
  using Value = std::variant<std::string_view, std::int64_t, double, bool>;

  Field(std::string_view key, std::string_view value) : name(key), value(value) {}
  Field(std::string_view key, const char* value) : name(key), value(std::string_view(value)) {}
  Field(std::string_view key, const std::string& value)
      : name(key), value(std::string_view(value)) {}
  template <typename T>
    requires std::is_arithmetic_v<T>
  Field(std::string_view key, T number) : name(key), value(asValue(number)) {}

  std::string_view name;
  Value value;

 private:
  template <typename T>
  static Value asValue(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      return number;
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(number);
    } else {
      return static_cast<std::int64_t>(number);
    }
  }
};

using Fields = std::initializer_list<Field>;

// Call once, before threads start. Until then lines of Info and above are written as text or JSON.
void configure(Level level, Format format);

bool enabled(Level level);
void write(Level level, std::string_view event, Fields fields);

inline void debug(std::string_view event, Fields fields = {}) {
  if (enabled(Level::Debug)) write(Level::Debug, event, fields);
}
inline void info(std::string_view event, Fields fields = {}) {
  if (enabled(Level::Info)) write(Level::Info, event, fields);
}
inline void warn(std::string_view event, Fields fields = {}) {
  if (enabled(Level::Warn)) write(Level::Warn, event, fields);
}
inline void error(std::string_view event, Fields fields = {}) {
  if (enabled(Level::Error)) write(Level::Error, event, fields);
}

// The line as it would be written, without its end: for tests and for sinks of our own.
std::string format(Format format, Level level, std::string_view event, Fields fields);

}  // namespace nimbus::log
