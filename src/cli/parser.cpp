#include "cli/parser.h"

#include "base/json_text.h"
#include "base/nearest.h"
#include "base/version.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace nimbus::cli {
namespace {

// Help as people read it: what it is for, how it is called, examples, then the options.
class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(const std::map<const CLI::App*, const Command*>& commands)
      : commands_(commands) {
    column_width(34);
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, std::move(name));
  }

  std::string make_description(const CLI::App* app) const override {
    const auto found = commands_.find(app);
    std::string text = app->get_description() + "\n";
    if (found != commands_.end() && !found->second->details.empty()) {
      text += "\n" + found->second->details + "\n";
    }
    return text;
  }

  std::string make_footer(const CLI::App* app) const override {
    const auto found = commands_.find(app);
    if (found == commands_.end() || found->second->examples.empty()) {
      return app->get_footer().empty() ? "" : app->get_footer() + "\n";
    }
    std::string text = "Examples:\n";
    for (const auto& [line, meaning] : found->second->examples) {
      text += "  " + line + "\n";
      if (!meaning.empty()) text += "      " + meaning + "\n";
    }
    return text;
  }

 private:
  const std::map<const CLI::App*, const Command*>& commands_;
};

std::string lastWord(const std::string& words) {
  return words.substr(words.rfind(' ') + 1);
}

// "-c,--config" -> "--config", and of several the first
std::string longName(const std::string& name) {
  const std::size_t begin = name.find("--");
  return name.substr(begin, name.find(',', begin) - begin);
}

// Whether one may be a slip of the finger for the other: two letters swapped are two edits.
bool isLike(std::string_view word, std::string_view name) {
  const std::size_t most = std::max<std::size_t>(2, std::max(word.size(), name.size()) / 3);
  const std::size_t distance = editDistance(word, name);
  return distance <= most && distance < std::min(word.size(), name.size());
}

std::string noSuchCommand(std::string_view word, const std::vector<std::string_view>& names) {
  // Longer than any command: whatever it is, it is no slip of the finger.
  constexpr std::size_t kLongest = 64;
  word = word.substr(0, kLongest);
  const std::string_view close =
      nearest(names, [&](std::string_view name) { return editDistance(word, name); });
  const std::string what = fmt::format("there is no command \"{}\"", printable(word));
  if (isLike(word, close)) return fmt::format("{}; did you mean {}?", what, close);
  return fmt::format("{}; there are {}", what, fmt::join(names, ", "));
}

class Parser {
 public:
  explicit Parser(const std::vector<Command>& commands)
      : app_("Nimbus runs ordinary functions with durable state, in one binary.", "nimbus") {
    app_.formatter(std::make_shared<HelpFormatter>(by_app_));
    app_.set_version_flag("--version", "nimbus " + std::string(version()), "Print the version");
    app_.footer("`nimbus COMMAND --help` says more about a command.");
    app_.option_defaults()->always_capture_default(false);
    app_.set_help_flag("-h,--help", "Print this help");
    app_.require_subcommand(1);
    for (const Command& command : commands) {
      const auto is_below = [&](const Command& other) {
        return other.words.starts_with(command.words + " ");
      };
      add(command, std::any_of(commands.begin(), commands.end(), is_below));
    }
  }

  Parsed parse(std::span<const std::string> arguments) {
    if (arguments.empty()) return mistake("there is no command", "nimbus --help lists them");
    if (auto unknown = unknownCommand(arguments)) return *std::move(unknown);
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    try {
      app_.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      return help(app_.help());
    } catch (const CLI::CallForAllHelp&) {
      return help(app_.help("", CLI::AppFormatMode::All));
    } catch (const CLI::CallForVersion& version) {
      return help(std::string(version.what()) + "\n");
    } catch (const CLI::ParseError& error) {
      return mistake(printable(error.what()), fmt::format("{} --help", chosen()));
    }
    return result();
  }

 private:
  static Parsed mistake(std::string what, std::string hint) {
    Parsed parsed;
    parsed.mistake = std::move(what);
    parsed.hint = std::move(hint);
    return parsed;
  }
  static Parsed help(std::string text) {
    Parsed parsed;
    parsed.help = std::move(text);
    return parsed;
  }

  void add(const Command& command, bool is_group) {
    const std::size_t space = command.words.rfind(' ');
    CLI::App& parent =
        space == command.words.npos ? app_ : *groups_.at(command.words.substr(0, space));
    CLI::App* app = parent.add_subcommand(lastWord(command.words), command.summary);
    by_app_.emplace(app, &command);
    app->group(command.hidden ? "" : "Commands");
    groups_.emplace(command.words, app);
    if (!command.run) {
      app->require_subcommand(1);
      return;
    }
    for (const Positional& positional : command.positionals) {
      // A group's own are missing when one of its commands is named; result() looks after them.
      app->add_option(positional.name, positional.help)->required(positional.required && !is_group);
    }
    for (const Option& option : command.options) {
      if (option.takes == Option::Takes::Nothing) {
        app->add_flag(option.name, option.help);
      } else {
        CLI::Option* added = app->add_option(option.name, option.help);
        added->type_name(option.value_name)->allow_extra_args(false);
        added->multi_option_policy(option.takes == Option::Takes::ManyValues
                                       ? CLI::MultiOptionPolicy::TakeAll
                                       : CLI::MultiOptionPolicy::Throw);
      }
    }
  }

  // CLI11 would call it an unexpected argument; a misspelt command deserves better.
  std::optional<Parsed> unknownCommand(std::span<const std::string> arguments) const {
    const CLI::App* at = &app_;
    for (const std::string& word : arguments) {
      const auto below = at->get_subcommands([](const CLI::App*) { return true; });
      if (word.starts_with('-') || below.empty()) return std::nullopt;
      const auto next = std::find_if(below.begin(), below.end(),
                                     [&](const CLI::App* app) { return app->get_name() == word; });
      if (next == below.end()) {
        const auto group = by_app_.find(at);
        if (group != by_app_.end() && !group->second->positionals.empty()) return std::nullopt;
        std::vector<std::string_view> names;
        for (const CLI::App* app : below) {
          if (!app->get_group().empty()) names.push_back(app->get_name());
        }
        return mistake(noSuchCommand(word, names), fmt::format("{} --help", nameOf(*at)));
      }
      at = *next;
    }
    return std::nullopt;
  }

  static std::string nameOf(const CLI::App& app) {
    return app.get_parent() == nullptr ? app.get_name()
                                       : nameOf(*app.get_parent()) + " " + app.get_name();
  }

  // The deepest subcommand the words have reached.
  const CLI::App& reached() const {
    const CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    return *at;
  }
  std::string chosen() const { return nameOf(reached()); }

  Parsed result() const {
    const CLI::App& app = reached();
    Parsed parsed;
    parsed.command = by_app_.at(&app);
    for (const Option& option : parsed.command->options) {
      const std::string name = longName(option.name);
      // `nimbus functions --server URL show x`: what was said of the group holds for its command.
      for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
        const CLI::Option* given = at->get_option_no_throw(name);
        if (given == nullptr || given->count() == 0) continue;
        parsed.arguments.add(name, given->results());
        break;
      }
    }
    for (const Positional& positional : parsed.command->positionals) {
      const CLI::Option* given = app.get_option(positional.name);
      if (given->count() > 0) {
        parsed.arguments.add(positional.name, given->results());
      } else if (positional.required) {
        return mistake(fmt::format("{} is required", positional.name), nameOf(app) + " --help");
      }
    }
    return parsed;
  }

  std::map<const CLI::App*, const Command*> by_app_;
  std::map<std::string, CLI::App*> groups_;
  CLI::App app_;
};

}  // namespace

Parsed parse(const std::vector<Command>& commands, std::span<const std::string> arguments) {
  return Parser(commands).parse(arguments);
}

}  // namespace nimbus::cli
