// docs/command-line.md and the man page, from the table of commands.

#include "base/version.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <ostream>
#include <string_view>

namespace nimbus::cli {
namespace {

std::string synopsis(const Command& command) {
  std::string text = "nimbus " + command.words;
  for (const Positional& positional : command.positionals) {
    text += positional.required ? " " + positional.name : " [" + positional.name + "]";
  }
  if (!command.options.empty()) text += " [OPTIONS]";
  return text;
}

std::string optionText(const Option& option) {
  std::string text = option.name;
  for (std::size_t at = 0; (at = text.find(',', at)) != text.npos; at += 2)
    text.insert(at + 1, " ");
  if (!option.value_name.empty()) text += " " + option.value_name;
  return text;
}

// Said once, at the head of the page.
bool isCommon(const Option& option) {
  return option.name == "--server" || option.name.starts_with("--data-dir") ||
         option.name == "-o,--output";
}

constexpr std::string_view kMarkdownHead = R"(# Command line

<!-- Made by `nimbus reference markdown`; a test compares. Change src/cli instead. -->

```
nimbus new counter                                    # a function to begin with
nimbus dev counter                                    # serve it, and again whenever it is saved
nimbus invoke counter --session alice --data '{}'     # in another terminal
nimbus state counter alice
```

- **Where the server is**: `--server URL`, else `NIMBUS_URL`, else `http://127.0.0.1:8787`. `https://` is checked against the system's
  certificates, or those in the file that `SSL_CERT_FILE` names.
- **The key**: `NIMBUS_KEY`; else `admin.key` in the server's data directory: that of `--data-dir`, or for a server on this machine that of the settings
  (`nimbus-data`, or `NIMBUS_SERVER__DATA`), or `/var/lib/nimbus`. It is never an option: other users see the arguments of a process.
- **Output**: tables for people; `-o json` is the server's answer as it came, for programs. What is asked for goes to standard output, talk and errors to
  standard error. Colours and progress bars only on a terminal, and no colours with `NO_COLOR`.
- Every command that asks a server takes `--server`, `--data-dir` and `-o`; they are not repeated below.
- **Exit codes**: 0 done, 1 failed, 2 the command line made no sense.
- What begins with `-` and is no option comes behind `--`: `nimbus state set counter alice level -- -1`.

)";

std::string markdown(const Command& command) {
  const bool is_nested = command.words.find(' ') != command.words.npos;
  std::string text = fmt::format("{} nimbus {}\n\n{}.\n\n", is_nested ? "###" : "##", command.words,
                                 command.summary);
  if (!command.run) return text;
  text += fmt::format("```\n{}\n```\n\n", synopsis(command));
  if (!command.details.empty()) text += command.details + "\n\n";
  for (const Positional& positional : command.positionals) {
    text += fmt::format("- `{}`: {}\n", positional.name, positional.help);
  }
  for (const Option& option : command.options) {
    if (isCommon(option)) continue;
    text += fmt::format("- `{}`: {}\n", optionText(option), option.help);
  }
  if (!command.examples.empty()) text += "\n```\n";
  for (const auto& [line, meaning] : command.examples) {
    text += line + (meaning.empty() ? "" : "    # " + meaning) + "\n";
  }
  if (!command.examples.empty()) text += "```\n";
  return text + "\n";
}

// Text of a man page: what troff would obey is escaped.
std::string plain(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if (c == '\'') {
      safe += "\\(aq";
    } else {
      if (c == '.' && (safe.empty() || safe.back() == '\n')) safe += "\\&";
      safe += c;
    }
  }
  return safe;
}

std::string man(const Command& command) {
  if (!command.run) return {};
  std::string text = fmt::format(".SS {}\n{}.\n", plain(synopsis(command)), plain(command.summary));
  if (!command.details.empty()) text += fmt::format(".PP\n{}\n", plain(command.details));
  for (const Positional& positional : command.positionals) {
    text += fmt::format(".TP\n.I {}\n{}\n", plain(positional.name), plain(positional.help));
  }
  for (const Option& option : command.options) {
    text += fmt::format(".TP\n.B {}\n{}\n", plain(optionText(option)), plain(option.help));
  }
  if (command.examples.empty()) return text;
  text += ".PP\nExamples:\n.nf\n";
  for (const auto& [line, meaning] : command.examples) text += "    " + plain(line) + "\n";
  return text + ".fi\n";
}

constexpr std::string_view kManHead = R"(.SH NAME
nimbus \- ordinary functions, with durable state
.SH SYNOPSIS
.B nimbus
.I COMMAND
[OPTIONS]
.SH DESCRIPTION
Server and command line of Nimbus, which runs Python, JavaScript and C++ functions, a session's calls one at a time and in order,
and answers when what they wrote is on disk.
.SH COMMANDS
)";

constexpr std::string_view kManTail = R"(.SH ENVIRONMENT
.TP
.B NIMBUS_URL
The server, if \-\-server does not name one.
.TP
.B NIMBUS_KEY
The key for it. Else the administrator's, from the data directory of a server on this machine.
.TP
.B NIMBUS_SECTION__NAME
A setting; `nimbus config show` lists them.
.TP
.B NO_COLOR
No colours.
.SH EXIT STATUS
0 done, 1 failed, 2 the command line made no sense.
.SH FILES
.TP
.I /etc/nimbus/nimbus.yaml
Settings of the server that systemd starts.
.TP
.I /var/lib/nimbus
Its data.
)";

Exit reference(const Arguments& arguments, Context& context) {
  const std::string form = *arguments.one("FORM");
  if (form != "markdown" && form != "man") {
    context.error("there is no such form", "markdown or man");
    return Exit::Usage;
  }
  std::string text;
  for (const Command& command : allCommands()) {
    if (!command.hidden) text += form == "man" ? man(command) : markdown(command);
  }
  if (form == "man") {
    context.out << fmt::format(".TH NIMBUS 1 \"\" \"nimbus {}\" \"Nimbus\"\n", version())
                << kManHead << text << kManTail;
  } else {
    text.pop_back();  // one line end is enough
    context.out << kMarkdownHead << text;
  }
  return Exit::Ok;
}

}  // namespace

std::vector<Command> referenceCommands() {
  Command command;
  command.words = "reference";
  command.summary = "Print docs/command-line.md or the man page";
  command.hidden = true;
  command.positionals = {{"FORM", "markdown or man"}};
  command.run = reference;
  return {command};
}

}  // namespace nimbus::cli
