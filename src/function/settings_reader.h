#pragma once
// Reads what an author said into a definition; a visitor of eachField(). It is strict: a name that
// nothing has, a null, a value of another kind or out of range is refused by name.

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "function/fields.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::function {

// The first thing that is wrong ends the reading: from then on every member does nothing, and
// finish() tells. Nothing else may be parsed on this thread until then.
class SettingsReader {
 public:
  // Names of what is read are added to `given`, which must outlive the reader.
  SettingsReader(const JsonValue& object, std::set<std::string, std::less<>>& given);

  // Whether there is a member of that name that is read elsewhere.
  bool has(std::string_view name);
  // Members that look like settings and are the server's to say.
  void refuse(std::initializer_list<std::string_view> names);

  template <typename Enum, std::size_t N>
  void choice(std::string_view name, Enum& out, const std::array<std::string_view, N>& choices) {
    if (const auto index = chosen(name, choices)) out = static_cast<Enum>(*index);
  }
  template <typename Integer>
  void count(std::string_view name, Integer& out, Range range) {
    if (const auto value = integer(name, range)) out = static_cast<Integer>(*value);
  }
  void millis(std::string_view name, Millis& out, Range range);
  void seconds(std::string_view name, Millis& out, Range range);  // the range is in milliseconds
  void number(std::string_view name, double& out, Range range);
  void flag(std::string_view name, bool& out);
  void text(std::string_view name, std::string& out);
  void environment(std::string_view name, std::map<std::string, std::string, std::less<>>& out);

  // An object that is there replaces the old one, so it begins as if nothing had been said.
  template <typename Object>
  bool enter(std::string_view name, Object& out, const Object& fresh) {
    if (!open(name)) return false;
    out = fresh;
    return true;
  }
  void leave();

  Result<> finish();

 private:
  // An object that is being read. What is `left` when it is done has names that nothing has.
  struct Level {
    std::string prefix;  // "retry."
    std::map<std::string_view, JsonValue> left;
    std::vector<std::string_view> known;
  };

  bool open(std::string_view name);
  void begin(std::string prefix, const JsonValue& object);
  void end();

  std::optional<JsonValue> take(std::string_view name);
  std::optional<std::size_t> chosen(std::string_view name,
                                    std::span<const std::string_view> choices);
  std::optional<std::uint64_t> integer(std::string_view name, Range range);

  void give(std::string_view name) { given_.insert(path(name)); }
  std::string path(std::string_view name) const;
  void fail(std::string_view name, std::string_view what);
  void fail(Error error);

  std::set<std::string, std::less<>>& given_;
  std::vector<Level> levels_;
  std::optional<Error> failed_;
};

// `name what`, as an InvalidArgument that carries the name as its field.
Error wrongField(std::string_view name, std::string_view what);

}  // namespace nimbus::function
