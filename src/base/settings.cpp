#include "base/settings.h"

#include "base/assert.h"
#include "base/json_text.h"
#include "base/nearest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <memory>
#include <set>
#include <system_error>

namespace nimbus {
namespace {

constexpr std::string_view kPrefix = "NIMBUS_";
constexpr std::size_t kMaxFileBytes = 1024UL * 1024;
constexpr std::string_view kMask = "********";

Error invalid(std::string what) {
  return {Code::InvalidArgument, std::move(what)};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out;
  appendJsonString(out, text);
  return out;
}

template <typename Number>
std::optional<Number> parseNumber(std::string_view text) {
  Number number{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> parseBool(std::string_view text) {
  static constexpr std::array<std::string_view, 4> kTrue = {"true", "yes", "on", "1"};
  static constexpr std::array<std::string_view, 4> kFalse = {"false", "no", "off", "0"};
  const std::string word = lower(text);
  if (std::find(kTrue.begin(), kTrue.end(), word) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), word) != kFalse.end()) return false;
  return std::nullopt;
}

struct ByteUnit {
  std::string_view name;
  unsigned shift;
};
constexpr std::array<ByteUnit, 3> kByteUnits = {{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}}};

std::optional<std::size_t> parseBytes(std::string_view text) {
  unsigned shift = 0;
  for (const ByteUnit& unit : kByteUnits) {
    if (!text.ends_with(unit.name)) continue;
    text.remove_suffix(unit.name.size());
    shift = unit.shift;
    break;
  }
  const auto number = parseNumber<std::size_t>(text);
  if (!number || *number > (SIZE_MAX >> shift)) return std::nullopt;
  return *number << shift;
}

bool isInMillis(std::string_view name) {
  return name.ends_with("_ms");
}

std::optional<Millis> parseDuration(std::string_view name, std::string_view text) {
  if (isInMillis(name)) {
    const auto number = parseNumber<std::int64_t>(text);
    if (!number) return std::nullopt;
    return Millis(*number);
  }
  const auto seconds = parseNumber<double>(text);
  // Past this no sum of durations is safe from overflow; it is 300 000 years.
  constexpr double kMost = 1e13;
  if (!seconds || !(std::abs(*seconds) <= kMost)) return std::nullopt;
  return Millis(std::llround(*seconds * 1000));
}

std::string renderDuration(std::string_view name, Millis value) {
  if (isInMillis(name)) return fmt::format("{}", value.count());
  if (value.count() % 1000 == 0) return fmt::format("{}", value.count() / 1000);
  return fmt::format("{}", static_cast<double>(value.count()) / 1000);
}

std::vector<std::string> splitList(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    items.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

// redis://user:secret@host: the password of a URL is a secret wherever the URL stands. It may hold
// anything, '/' and '@' too, so it ends only at the last '@': hiding too much is the safe mistake.
std::string withoutPassword(std::string text) {
  const std::size_t scheme = text.find("://");
  if (scheme == text.npos) return text;
  const std::size_t user = scheme + 3;
  const std::size_t at = text.rfind('@');
  const std::size_t colon = text.find(':', user);
  if (at == text.npos || colon == text.npos || colon > at) return text;
  return text.replace(colon + 1, at - colon - 1, kMask);
}

// server.tls.cert_file -> NIMBUS_SERVER__TLS__CERT_FILE
std::string variableName(std::string_view setting) {
  std::string out(kPrefix);
  for (const char c : setting) {
    if (c == '.') {
      out += "__";
    } else {
      out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return out;
}

// The reverse, in lower case; nothing if the variable is none of ours. Variables without `__`
// (NIMBUS_URL, NIMBUS_KEY) belong to the command line.
std::optional<std::string> settingName(std::string_view variable) {
  if (!variable.starts_with(kPrefix)) return std::nullopt;
  std::string name = lower(variable.substr(kPrefix.size()));
  std::size_t at = name.find("__");
  if (at == name.npos) return std::nullopt;
  while (at != name.npos) {
    name.replace(at, 2, ".");
    at = name.find("__", at + 1);
  }
  return name;
}

struct FileText {
  std::string text;
  bool readable_by_all = false;
};

Result<FileText> readFile(const std::string& path) {
  const auto failed = [](std::string_view what) {
    return Error(Code::Unavailable,
                 fmt::format("{}: {}", what, std::generic_category().message(errno)));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return failed("cannot be opened");
  const auto close = [](const int* open) { ::close(*open); };
  const std::unique_ptr<const int, decltype(close)> closer(&file, close);

  struct stat info {};
  if (::fstat(file, &info) != 0) return failed("cannot be read");
  FileText out;
  out.readable_by_all = S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) != 0;
  std::array<char, 16384> buffer{};
  while (true) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got == 0) return out;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("cannot be read");
    out.text.append(buffer.data(), static_cast<std::size_t>(got));
    if (out.text.size() > kMaxFileBytes) return invalid("is larger than 1 MiB");
  }
}

std::string_view sectionOf(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

std::string_view lastPart(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

std::string markdownCell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

Settings::Setting& Settings::Setting::secret() {
  entry_.is_secret = true;
  return *this;
}

Settings::Setting Settings::addSetting(std::string name, std::string doc, std::string type,
                                       std::function<Result<>(std::span<const std::string>)> assign,
                                       std::function<std::string()> render) {
  NIMBUS_ASSERT(find(name) == nullptr && !isSection(name), "a setting is declared once");
  NIMBUS_ASSERT(name.find('.') != name.npos, "a setting stands in a section");
  Entry& setting = settings_.emplace_back();
  setting.name = std::move(name);
  setting.doc = std::move(doc);
  setting.type = std::move(type);
  setting.assign = std::move(assign);
  setting.render = std::move(render);
  setting.default_value = setting.render();
  return Setting(setting);
}

Settings::Setting Settings::add(std::string name, bool& target, std::string doc) {
  auto assign = [&target](std::span<const std::string> values) -> Result<> {
    const auto value = parseBool(values.front());
    if (!value) {
      return invalid(fmt::format("must be true or false, is {}", quoted(values.front())));
    }
    target = *value;
    return {};
  };
  return addSetting(std::move(name), std::move(doc), "true or false", std::move(assign),
                    [&target] { return target ? "true" : "false"; });
}

Settings::Setting Settings::add(std::string name, std::string& target, std::string doc) {
  auto assign = [&target](std::span<const std::string> values) -> Result<> {
    target = values.front();
    return {};
  };
  return addSetting(std::move(name), std::move(doc), "text", std::move(assign),
                    [&target] { return quoted(withoutPassword(target)); });
}

Settings::Setting Settings::add(std::string name, std::vector<std::string>& target,
                                std::string doc) {
  auto assign = [&target](std::span<const std::string> values) -> Result<> {
    target.assign(values.begin(), values.end());
    return {};
  };
  auto render = [&target] {
    std::string out = "[";
    for (const std::string& item : target) {
      if (out.size() > 1) out += ", ";
      out += quoted(withoutPassword(item));
    }
    return out + "]";
  };
  Setting setting =
      addSetting(std::move(name), std::move(doc), "list", std::move(assign), std::move(render));
  setting.entry_.is_list = true;
  return setting;
}

Settings::Setting Settings::add(std::string name, int& target, Range range, std::string doc) {
  auto assign = [&target, range](std::span<const std::string> values) -> Result<> {
    const auto value = parseNumber<std::int64_t>(values.front());
    if (!value || *value < range.least || *value > range.most) {
      return invalid(fmt::format("must be a whole number from {} to {}, is {}", range.least,
                                 range.most, quoted(values.front())));
    }
    target = static_cast<int>(*value);
    return {};
  };
  return addSetting(std::move(name), std::move(doc),
                    fmt::format("{} to {}", range.least, range.most), std::move(assign),
                    [&target] { return std::to_string(target); });
}

Settings::Setting Settings::add(std::string name, std::size_t& target, ByteRange range,
                                std::string doc) {
  auto assign = [&target, range](std::span<const std::string> values) -> Result<> {
    const auto value = parseBytes(values.front());
    if (!value || *value < range.least || *value > range.most) {
      return invalid(fmt::format("must be {} to {} bytes (KiB, MiB and GiB are known), is {}",
                                 range.least, range.most, quoted(values.front())));
    }
    target = *value;
    return {};
  };
  return addSetting(std::move(name), std::move(doc), "bytes", std::move(assign),
                    [&target] { return std::to_string(target); });
}

Settings::Setting Settings::add(std::string name, Millis& target, DurationRange range,
                                std::string doc) {
  const std::string_view unit = isInMillis(name) ? "milliseconds" : "seconds";
  auto assign = [&target, range, name, unit](std::span<const std::string> values) -> Result<> {
    const auto value = parseDuration(name, values.front());
    if (!value || *value < range.least || *value > range.most) {
      return invalid(fmt::format("must be {} to {} {}, is {}", renderDuration(name, range.least),
                                 renderDuration(name, range.most), unit, quoted(values.front())));
    }
    target = *value;
    return {};
  };
  auto render = [&target, name] { return renderDuration(name, target); };
  return addSetting(std::move(name), std::move(doc), std::string(unit), std::move(assign),
                    std::move(render));
}

Settings::Setting Settings::addChoice(std::string name, std::vector<std::string> names,
                                      std::function<std::size_t()> get,
                                      std::function<void(std::size_t)> set, std::string doc) {
  std::string type;
  for (const std::string& choice : names) {
    if (!type.empty()) type += choice == names.back() ? " or " : ", ";
    type += choice;
  }
  auto assign = [names, type,
                 set = std::move(set)](std::span<const std::string> values) -> Result<> {
    const auto found = std::find(names.begin(), names.end(), values.front());
    if (found == names.end()) {
      return invalid(fmt::format("must be {}, is {}", type, quoted(values.front())));
    }
    set(static_cast<std::size_t>(found - names.begin()));
    return {};
  };
  auto render = [names, get = std::move(get)] { return quoted(names.at(get())); };
  return addSetting(std::move(name), std::move(doc), type, std::move(assign), std::move(render));
}

Settings::Problems Settings::load(const Sources& sources) {
  problems_.clear();
  if (sources.file) loadFile(*sources.file);

  for (const auto& [variable, value] : sources.environment) {
    const auto name = settingName(variable);
    if (!name) continue;
    const auto setting = std::find_if(settings_.begin(), settings_.end(),
                                      [&](const Entry& s) { return lower(s.name) == *name; });
    if (setting != settings_.end()) {
      assign(*setting, std::span(&value, 1), variable);
    } else {
      problem(variable, fmt::format("there is no such setting; did you mean {}?",
                                    variableName(nearest(*name, Among::Settings))));
    }
  }

  for (const auto& [name, value, where] : sources.assignments) {
    if (Entry* setting = find(name)) {
      assign(*setting, std::span(&value, 1), where);
    } else {
      problem(where, fmt::format("there is no setting {}; did you mean {}?", quoted(name),
                                 nearest(name, Among::Settings)));
    }
  }
  return problems_;
}

void Settings::loadFile(const std::string& path) {
  const auto file = readFile(path);
  if (!file) return problem(path, file.error().message());
  const auto root = parseYaml(file->text);
  if (!root) {
    const std::int64_t line = root.error().field("line", 0);
    return problem(line > 0 ? fmt::format("{}:{}", path, line) : path, root.error().message());
  }
  if (root->kind == YamlNode::Kind::Null) return;
  if (root->kind != YamlNode::Kind::Mapping) {
    return problem(fmt::format("{}:{}", path, root->line),
                   "the file must be a mapping of sections, such as `server:`");
  }
  loadSection(path, *root, "");

  const auto is_given_secret = [&](const Entry& setting) {
    return setting.is_secret && setting.origin.starts_with(path);
  };
  if (file->readable_by_all && std::any_of(settings_.begin(), settings_.end(), is_given_secret)) {
    warnings_.push_back({path, "holds a secret and is readable by everyone; chmod 600 it"});
  }
}

void Settings::loadSection(const std::string& path, const YamlNode& node,
                           const std::string& section) {
  std::set<std::string_view> seen;
  for (const YamlNode::Entry& entry : node.items) {
    const std::string name = section.empty() ? entry.key : section + "." + entry.key;
    if (!seen.insert(entry.key).second) {
      problem(fmt::format("{}:{}", path, entry.line), fmt::format("{} is there twice", name));
      continue;
    }
    loadEntry(path, entry, name);
  }
}

void Settings::loadEntry(const std::string& path, const YamlNode::Entry& entry,
                         const std::string& name) {
  const std::string where = fmt::format("{}:{}", path, entry.line);
  const YamlNode& node = entry.value;
  if (isSection(name)) {
    if (node.kind == YamlNode::Kind::Mapping) return loadSection(path, node, name);
    if (node.kind == YamlNode::Kind::Null) return;
    return problem(where,
                   fmt::format("{} is a section: its settings stand below it, indented", name));
  }
  Entry* setting = find(name);
  if (setting == nullptr) {
    // One wrong section name is one mistake, however much stands below it.
    const Among among =
        node.kind == YamlNode::Kind::Mapping ? Among::SettingsAndSections : Among::Settings;
    return problem(where, fmt::format("there is no setting {}; did you mean {}?", quoted(name),
                                      nearest(name, among)));
  }
  switch (node.kind) {
    case YamlNode::Kind::Scalar:
      return assign(*setting, std::span(&node.text, 1), where);
    case YamlNode::Kind::Null:
      return problem(where,
                     fmt::format("{} has no value; leave the line out to take the default", name));
    case YamlNode::Kind::Mapping:
      return problem(where, fmt::format("{} is a setting, not a section", name));
    case YamlNode::Kind::Sequence:
      break;
  }
  if (!setting->is_list) return problem(where, fmt::format("{} takes one value, not a list", name));
  std::vector<std::string> values;
  for (const YamlNode::Entry& item : node.items) {
    if (item.value.kind != YamlNode::Kind::Scalar) {
      return problem(fmt::format("{}:{}", path, item.line),
                     fmt::format("{} is a list of plain values", name));
    }
    values.push_back(item.value.text);
  }
  assign(*setting, values, where);
}

void Settings::assign(Entry& setting, std::span<const std::string> values,
                      const std::string& where) {
  std::vector<std::string> items;
  if (setting.is_list && values.size() == 1) {
    items = splitList(values.front());
    values = items;
  }
  if (const auto assigned = setting.assign(values); !assigned) {
    // The value is part of the message, and a secret must not reach a terminal or a log.
    const std::string what =
        setting.is_secret ? "has a value it cannot take" : assigned.error().message();
    return problem(where, fmt::format("{} {}", setting.name, what));
  }
  setting.origin = where;
}

void Settings::problem(const std::string& where, std::string what) {
  problems_.push_back({printable(where), std::move(what)});
}

std::string Settings::show() const {
  std::string out;
  std::vector<std::string> open;  // the sections the last line stands in
  for (const Entry& setting : settings_) {
    std::vector<std::string> parts;
    std::string_view rest = setting.name;
    for (std::size_t dot = rest.find('.'); dot != rest.npos; dot = rest.find('.')) {
      parts.emplace_back(rest.substr(0, dot));
      rest.remove_prefix(dot + 1);
    }
    const auto same = std::mismatch(open.begin(), open.end(), parts.begin(), parts.end());
    for (auto part = same.second; part != parts.end(); ++part) {
      const auto depth = static_cast<std::size_t>(part - parts.begin());
      out += fmt::format("{}{}:\n", std::string(depth * 2, ' '), *part);
    }
    const bool masked = setting.is_secret && !setting.origin.empty();
    out += fmt::format("{}{}: {}  # {}\n", std::string(parts.size() * 2, ' '), rest,
                       masked ? quoted(kMask) : setting.render(),
                       setting.origin.empty() ? "default" : printable(setting.origin));
    open = std::move(parts);
  }
  return out;
}

std::string Settings::reference() const {
  std::string out;
  std::string_view section;
  for (const Entry& setting : settings_) {
    if (sectionOf(setting.name) != section) {
      section = sectionOf(setting.name);
      out += fmt::format(
          "\n### {}\n\n| setting | default | values | meaning |\n|---|---|---|---|\n", section);
    }
    out += fmt::format("| `{}` | `{}` | {} | {}{} |\n", setting.name,
                       markdownCell(setting.default_value), markdownCell(setting.type),
                       markdownCell(setting.doc), setting.is_secret ? " *Secret.*" : "");
  }
  return out;
}

const std::string& Settings::origin(std::string_view name) const {
  const auto found = std::find_if(settings_.begin(), settings_.end(),
                                  [&](const Entry& setting) { return setting.name == name; });
  NIMBUS_ASSERT(found != settings_.end(), "origin() is asked of declared settings");
  return found->origin;
}

Settings::Entry* Settings::find(std::string_view name) {
  const auto found = std::find_if(settings_.begin(), settings_.end(),
                                  [&](const Entry& setting) { return setting.name == name; });
  return found == settings_.end() ? nullptr : &*found;
}

bool Settings::isSection(std::string_view name) const {
  return std::any_of(settings_.begin(), settings_.end(), [&](const Entry& setting) {
    return setting.name.starts_with(name) && setting.name.size() > name.size() &&
           setting.name[name.size()] == '.';
  });
}

std::string Settings::nearest(std::string_view name, Among among) const {
  std::set<std::string_view> candidates;
  for (const Entry& setting : settings_) {
    candidates.insert(setting.name);
    if (among == Among::Settings) continue;
    for (std::size_t dot = setting.name.find('.'); dot != setting.name.npos;
         dot = setting.name.find('.', dot + 1)) {
      candidates.insert(std::string_view(setting.name).substr(0, dot));
    }
  }
  const std::string wanted = lower(name);
  // A right name in a wrong section is one mistake, not as many as the sections have letters.
  const auto distance = [&](std::string_view candidate) {
    const std::string known = lower(candidate);
    return std::min(editDistance(wanted, known),
                    editDistance(lastPart(wanted), lastPart(known)) + 2);
  };
  return std::string(nimbus::nearest(candidates, distance));
}

}  // namespace nimbus
