#pragma once
// Configuration: a table of settings, each declared once and bound to a member of a plain struct.
//
//   struct Config { int threads = 0; std::string listen = "127.0.0.1:8787"; };
//   Settings settings;
//   settings.add("server.threads", config.threads, Settings::Range{0, 1024}, "Worker threads");
//   settings.add("server.listen", config.listen, "HOST:PORT to listen on");
//
// The member's initialiser is the default. load() then fills the members from, in rising
// precedence, a YAML file, environment variables (NIMBUS_SERVER__LISTEN) and assignments of the
// command line. It reports every mistake it finds, not only the first, and each says where it
// stands. From the same table come `nimbus config show` and the reference in docs/.

#include "base/clock.h"
#include "base/yaml.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace nimbus {

class Settings {
  struct Entry;

 public:
  // A mistake in the configuration and its place: "nimbus.yaml:12", "NIMBUS_A__B", "--set a.b".
  struct Problem {
    std::string where;
    std::string what;

    std::string text() const { return where + ": " + what; }
  };
  using Problems = std::vector<Problem>;

  struct Range {
    std::int64_t least;
    std::int64_t most;
  };
  // Values are plain numbers of bytes, or have a unit: 64KiB, 1MiB, 2GiB.
  struct ByteRange {
    std::size_t least;
    std::size_t most;
  };
  // Values are milliseconds if the setting's name ends in `_ms`, else seconds, fractions allowed.
  struct DurationRange {
    Millis least;
    Millis most;
  };
  template <typename Enum>
  struct Choice {
    std::string_view name;
    Enum value;
  };

  // What add() returns: says what only some settings are.
  class Setting {
   public:
    // Never shown: `config show` masks it.
    Setting& secret();

   private:
    friend class Settings;
    explicit Setting(Entry& entry) : entry_(entry) {}
    Entry& entry_;
  };

  struct Assignment {
    std::string name;
    std::string value;
    std::string where;  // how problems and `config show` call it: "--listen"
  };
  struct Sources {
    std::optional<std::string> file;
    std::vector<std::pair<std::string, std::string>> environment;  // all of it; ours are picked out
    std::vector<Assignment> assignments;
  };

  Settings() = default;
  ~Settings() = default;
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  // Names are dotted: section.name. `target` must outlive the Settings. `doc` is one line.
  Setting add(std::string name, bool& target, std::string doc);
  Setting add(std::string name, std::string& target, std::string doc);
  Setting add(std::string name, std::vector<std::string>& target, std::string doc);
  Setting add(std::string name, int& target, Range range, std::string doc);
  Setting add(std::string name, std::size_t& target, ByteRange range, std::string doc);
  Setting add(std::string name, Millis& target, DurationRange range, std::string doc);
  template <typename Enum>
    requires std::is_enum_v<Enum>
  Setting add(std::string name, Enum& target, std::initializer_list<Choice<Enum>> choices,
              std::string doc) {
    const std::vector<Choice<Enum>> all(choices);
    std::vector<std::string> names;
    names.reserve(all.size());
    for (const auto& choice : all) names.emplace_back(choice.name);
    auto get = [all, &target]() -> std::size_t {
      std::size_t i = 0;
      while (i + 1 < all.size() && all[i].value != target) ++i;
      return i;
    };
    auto set = [all, &target](std::size_t i) { target = all[i].value; };
    return addChoice(std::move(name), std::move(names), std::move(get), std::move(set),
                     std::move(doc));
  }

  // What an earlier load() set is kept unless it is set again. If any problem is returned the bound
  // members hold no usable configuration.
  Problems load(const Sources& sources);

  // What holds, as YAML that load() reads again; a comment behind each value says where it is from.
  std::string show() const;

  // The table of every setting, in Markdown.
  std::string reference() const;

  // Things that are allowed and yet deserve a word at start.
  const Problems& warnings() const { return warnings_; }

  // Where the value of a declared setting comes from; empty if it is the default.
  const std::string& origin(std::string_view name) const;

 private:
  struct Entry {
    std::string name;
    std::string doc;
    std::string type;  // for people: "true or false", "0 to 1024"
    std::function<Result<>(std::span<const std::string>)> assign;
    std::function<std::string()> render;  // the value as YAML
    std::string default_value;
    std::string origin;  // empty: the default holds
    bool is_list = false;
    bool is_secret = false;
  };

  Setting addSetting(std::string name, std::string doc, std::string type,
                     std::function<Result<>(std::span<const std::string>)> assign,
                     std::function<std::string()> render);
  Setting addChoice(std::string name, std::vector<std::string> names,
                    std::function<std::size_t()> get, std::function<void(std::size_t)> set,
                    std::string doc);

  void loadFile(const std::string& path);
  void loadSection(const std::string& path, const YamlNode& node, const std::string& section);
  void loadEntry(const std::string& path, const YamlNode::Entry& entry, const std::string& name);
  void assign(Entry& setting, std::span<const std::string> values, const std::string& where);
  void problem(const std::string& where, std::string what);

  Entry* find(std::string_view name);
  bool isSection(std::string_view name) const;
  enum class Among { Settings, SettingsAndSections };
  // The declared name most like `name`, which is not declared.
  std::string nearest(std::string_view name, Among among) const;

  std::deque<Entry> settings_;  // in order of declaration; a deque keeps references valid
  Problems problems_;
  Problems warnings_;
};

}  // namespace nimbus
