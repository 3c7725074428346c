#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace nimbus::cli {
namespace {

struct Word {
  std::string text;
  std::string meaning;
};

// What may follow each command, by its words; "" are those that may come first.
using Choices = std::map<std::string, std::vector<Word>>;

Choices choicesOf(const std::vector<Command>& commands) {
  Choices choices;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    const std::size_t space = command.words.rfind(' ');
    const std::string group = space == command.words.npos ? "" : command.words.substr(0, space);
    choices[group].push_back({command.words.substr(space + 1), command.summary});
    std::vector<Word>& own = choices[command.words];
    for (const Option& option : command.options) {
      for (std::size_t at = 0; at < option.name.size();) {
        const std::size_t end = std::min(option.name.find(',', at), option.name.size());
        own.push_back({option.name.substr(at, end - at), option.help});
        at = end + 1;
      }
    }
    own.push_back({"--help", "Print help"});
  }
  return choices;
}

std::string joined(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

// In single quotes, for any of the shells.
std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) safe += c == '\'' ? std::string("’") : std::string(1, c);
  return safe + "'";
}

// The words before the cursor that name a command, as far as there are such.
std::string bash(const Choices& choices) {
  std::string text = R"(# bash completion for nimbus
_nimbus() {
  local current=${COMP_WORDS[COMP_CWORD]} path= word choices
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "${path:+$path }$word" in
)";
  std::string names;
  for (const auto& [words, next] : choices) {
    if (!words.empty()) names += (names.empty() ? "" : "|") + quoted(words);
  }
  text +=
      "      " + names + ") path=${path:+$path }$word ;;\n    esac\n  done\n  case \"$path\" in\n";
  for (const auto& [words, next] : choices) {
    text += fmt::format("    {}) choices={} ;;\n", quoted(words), quoted(joined(next)));
  }
  return text + R"(  esac
  COMPREPLY=($(compgen -W "$choices" -- "$current"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _nimbus nimbus
)";
}

std::string zsh(const Choices& choices) {
  std::string text = R"(#compdef nimbus
_nimbus() {
  local path_so_far= word
  local -a choices
  for word in ${words[2,CURRENT-1]}; do
    case "${path_so_far:+$path_so_far }$word" in
)";
  std::string names;
  for (const auto& [words, next] : choices) {
    if (!words.empty()) names += (names.empty() ? "" : "|") + quoted(words);
  }
  text += "      " + names +
          ") path_so_far=\"${path_so_far:+$path_so_far }$word\" ;;\n    esac\n  done\n"
          "  case \"$path_so_far\" in\n";
  for (const auto& [words, next] : choices) {
    std::string described;
    for (const Word& word : next) {
      std::string meaning = word.meaning;
      std::erase(meaning, ':');
      described += ' ' + quoted(word.text + ":" + meaning);
    }
    text += fmt::format("    {}) choices=({} ) ;;\n", quoted(words), described);
  }
  return text + R"(  esac
  _describe -t commands nimbus choices
  _files
}
compdef _nimbus nimbus
)";
}

std::string fish(const Choices& choices) {
  std::string text = R"(# fish completion for nimbus
function __nimbus_at
    set -l path
    for word in (commandline -opc)[2..-1]
        set -l longer (string trim "$path $word")
        switch "$longer"
            case)";
  for (const auto& [words, next] : choices) {
    if (!words.empty()) text += ' ' + quoted(words);
  }
  text += R"(
                set path $longer
        end
    end
    test "$path" = "$argv[1]"
end
)";
  for (const auto& [words, next] : choices) {
    for (const Word& word : next) {
      std::string what = "-a " + word.text;
      if (word.text.starts_with("--")) what = "-l " + word.text.substr(2);
      if (word.text.size() == 2 && word.text.starts_with('-')) what = "-s " + word.text.substr(1);
      text += fmt::format("complete -c nimbus -n \"__nimbus_at {}\" {} -d {}\n", quoted(words),
                          what, quoted(word.meaning));
    }
  }
  return text;
}

}  // namespace

std::optional<std::string> completionScript(std::string_view shell,
                                            const std::vector<Command>& commands) {
  const Choices choices = choicesOf(commands);
  if (shell == "bash") return bash(choices);
  if (shell == "zsh") return zsh(choices);
  if (shell == "fish") return fish(choices);
  return std::nullopt;
}

}  // namespace nimbus::cli
