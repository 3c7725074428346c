#pragma once
// Writes the settings of a definition as JSON; a visitor of eachField().

#include "base/clock.h"
#include "base/json_text.h"
#include "function/fields.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::function {

class SettingsWriter {
 public:
  using Given = std::set<std::string, std::less<>>;

  // With `only`, what is not in it is left out. It must outlive the writer.
  explicit SettingsWriter(const Given* only = nullptr) : only_(only) {}

  template <typename Enum, std::size_t N>
  void choice(std::string_view name, Enum value, const std::array<std::string_view, N>& choices) {
    text(name, choices.at(static_cast<std::size_t>(value)));
  }
  template <typename Integer>
  void count(std::string_view name, Integer value, Range /*range*/) {
    member(name, fmt::format("{}", value));
  }
  void millis(std::string_view name, Millis value, Range /*range*/) {
    member(name, fmt::format("{}", value.count()));
  }
  void seconds(std::string_view name, Millis value, Range /*range*/) {
    member(name, fmt::format("{}", static_cast<double>(value.count()) / 1000));
  }
  void number(std::string_view name, double value, Range /*range*/) {
    member(name, fmt::format("{}", value));
  }
  void flag(std::string_view name, bool value) { member(name, value ? "true" : "false"); }
  void text(std::string_view name, std::string_view value);
  void environment(std::string_view name,
                   const std::map<std::string, std::string, std::less<>>& value);

  template <typename Object>
  bool enter(std::string_view name, const Object& /*value*/, const Object& /*fresh*/) {
    outer_.emplace_back(name, std::exchange(members_, {}));
    return true;
  }
  void leave();

  // `"name": value, …`, without the braces.
  const std::string& members() const { return members_; }

 private:
  void member(std::string_view name, std::string_view json);

  const Given* only_;
  std::string members_;
  // Objects that are being written, by name, with what stands before them.
  std::vector<std::pair<std::string, std::string>> outer_;
};

}  // namespace nimbus::function
