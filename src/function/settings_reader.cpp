#include "function/settings_reader.h"

#include "base/ids.h"
#include "base/nearest.h"
#include "function/shown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace nimbus::function {
namespace {

// Not far beyond this the kernel starts no process, and says little about why.
constexpr std::size_t kMaxEnvironmentBytes = 65'536;
constexpr std::string_view kOurs = "NIMBUS_";

// Longer names are not typing mistakes, and comparing them takes time.
constexpr std::size_t kLongestName = 64;

bool isVariableName(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

// 1.5, and 2 instead of 2.0.
std::string secondsText(std::uint64_t millis) {
  return fmt::format("{}", static_cast<double>(millis) / 1000);
}

}  // namespace

Error wrongField(std::string_view name, std::string_view what) {
  return Error(Code::InvalidArgument, fmt::format("{} {}", name, what))
      .with("field", std::string(name));
}

SettingsReader::SettingsReader(const JsonValue& object, std::set<std::string, std::less<>>& given)
    : given_(given) {
  if (object.isObject()) {
    begin("", object);
  } else {
    fail(Error(Code::InvalidArgument, "a function is described by a JSON object"));
  }
}

bool SettingsReader::has(std::string_view name) {
  return take(name).has_value();
}

void SettingsReader::refuse(std::initializer_list<std::string_view> names) {
  if (failed_) return;
  for (const std::string_view name : names) {
    if (levels_.back().left.contains(name)) {
      fail(name, "is the server's to say; leave it out");
      return;
    }
  }
}

void SettingsReader::millis(std::string_view name, Millis& out, Range range) {
  if (const auto value = integer(name, range)) out = Millis(*value);
}

void SettingsReader::seconds(std::string_view name, Millis& out, Range range) {
  const auto value = take(name);
  if (!value) return;
  const auto seconds = value->number();
  // What is too little for a millisecond would be read as 0, which means "never".
  const bool sound =
      seconds &&
      (*seconds == 0 || (*seconds >= 0.001 && *seconds <= static_cast<double>(range.max) / 1000));
  if (!sound) {
    fail(name,
         fmt::format("must be 0 or a number of seconds from 0.001 to {}", secondsText(range.max)));
    return;
  }
  out = Millis(std::llround(*seconds * 1000));
  give(name);
}

void SettingsReader::number(std::string_view name, double& out, Range range) {
  const auto value = take(name);
  if (!value) return;
  const auto number = value->number();
  if (!number || *number < static_cast<double>(range.min) ||
      *number > static_cast<double>(range.max)) {
    fail(name, fmt::format("must be a number from {} to {}", range.min, range.max));
    return;
  }
  out = *number;
  give(name);
}

void SettingsReader::flag(std::string_view name, bool& out) {
  const auto value = take(name);
  if (!value) return;
  const auto flag = value->boolean();
  if (!flag) return fail(name, "must be true or false");
  out = *flag;
  give(name);
}

void SettingsReader::text(std::string_view name, std::string& out) {
  const auto value = take(name);
  if (!value) return;
  const auto text = value->string();
  if (!text) return fail(name, "must be text");
  if (auto sound = checkText(path(name), *text); !sound) {
    return fail(std::move(sound).error().with("field", path(name)));
  }
  out = *text;
  give(name);
}

void SettingsReader::environment(std::string_view name,
                                 std::map<std::string, std::string, std::less<>>& out) {
  const auto object = take(name);
  if (!object) return;
  if (!object->isObject()) return fail(name, "must be an object of names and texts");
  std::map<std::string, std::string, std::less<>> variables;
  std::size_t bytes = 0;
  for (const auto& [variable, value] : object->members()) {
    const std::string full = fmt::format("{}.{}", name, shown(variable));
    if (!isVariableName(variable)) {
      return fail(full, "must be named with letters, digits and _, not beginning with a digit");
    }
    if (variable.starts_with(kOurs)) {
      return fail(full, fmt::format("must not begin with {}: those names are the server's", kOurs));
    }
    const auto text = value.string();
    if (!text) return fail(full, "must be text");
    if (text->find('\0') != text->npos) return fail(full, "must not hold a NUL");
    if (!variables.emplace(variable, *text).second) return fail(full, "is given twice");
    bytes += variable.size() + text->size() + 2;  // "NAME=value", and the NUL behind it
    if (bytes > kMaxEnvironmentBytes) {
      return fail(name, fmt::format("must not have more than {} bytes", kMaxEnvironmentBytes));
    }
  }
  out = std::move(variables);
  give(name);
}

bool SettingsReader::open(std::string_view name) {
  const auto object = take(name);
  if (!object) return false;
  if (!object->isObject()) {
    fail(name, "must be an object");
    return false;
  }
  std::string prefix = path(name) + ".";
  std::erase_if(given_, [&](const std::string& known) { return known.starts_with(prefix); });
  begin(std::move(prefix), *object);
  return !failed_;
}

void SettingsReader::leave() {
  if (!failed_) end();
}

Result<> SettingsReader::finish() {
  if (!failed_) end();
  if (failed_) return *std::move(failed_);
  return {};
}

void SettingsReader::begin(std::string prefix, const JsonValue& object) {
  Level level;
  level.prefix = std::move(prefix);
  for (const auto& [name, value] : object.members()) {
    if (level.left.emplace(name, value).second) continue;
    return fail(wrongField(level.prefix + shown(name), "is given twice"));
  }
  levels_.push_back(std::move(level));
}

void SettingsReader::end() {
  const Level& level = levels_.back();
  if (!level.left.empty()) {
    const std::string_view name = level.left.begin()->first;
    std::string what = "is not known";
    if (name.size() <= kLongestName) {
      const std::string_view meant =
          nearest(level.known, [&](std::string_view known) { return editDistance(name, known); });
      what += fmt::format("; did you mean {}{}?", level.prefix, meant);
    }
    return fail(shown(name), what);
  }
  levels_.pop_back();
}

std::optional<JsonValue> SettingsReader::take(std::string_view name) {
  if (failed_) return std::nullopt;
  Level& level = levels_.back();
  level.known.push_back(name);
  const auto found = level.left.find(name);
  if (found == level.left.end()) return std::nullopt;
  const JsonValue value = found->second;
  level.left.erase(found);
  if (value.kind() == JsonValue::Kind::Null) {
    fail(name, "must not be null; leave it out to say nothing");
    return std::nullopt;
  }
  return value;
}

std::optional<std::size_t> SettingsReader::chosen(std::string_view name,
                                                  std::span<const std::string_view> choices) {
  const auto value = take(name);
  if (!value) return std::nullopt;
  const auto text = value->string();
  const auto found = text ? std::find(choices.begin(), choices.end(), *text) : choices.end();
  if (found == choices.end()) {
    fail(name, fmt::format("must be {}", listed(choices)));
    return std::nullopt;
  }
  give(name);
  return static_cast<std::size_t>(std::distance(choices.begin(), found));
}

std::optional<std::uint64_t> SettingsReader::integer(std::string_view name, Range range) {
  const auto value = take(name);
  if (!value) return std::nullopt;
  const auto integer = value->integer();
  if (!integer || *integer < 0 || static_cast<std::uint64_t>(*integer) < range.min ||
      static_cast<std::uint64_t>(*integer) > range.max) {
    fail(name, fmt::format("must be an integer from {} to {}", range.min, range.max));
    return std::nullopt;
  }
  give(name);
  return static_cast<std::uint64_t>(*integer);
}

std::string SettingsReader::path(std::string_view name) const {
  return levels_.empty() ? std::string(name) : levels_.back().prefix + std::string(name);
}

void SettingsReader::fail(std::string_view name, std::string_view what) {
  fail(wrongField(path(name), what));
}

void SettingsReader::fail(Error error) {
  if (!failed_) failed_.emplace(std::move(error));
}

}  // namespace nimbus::function
