#pragma once
// What a command of `nimbus` is: its words, what may follow them, and what it does.
//
// Commands are data. The parser, --help and, from the same table, completion and man pages are made
// of it, and no command knows the library that parses. A new command is one file with a function
// that returns its Command, and one line in commands.cpp.

#include "base/settings.h"

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::cli {

class Backend;

enum class Exit : int { Ok = 0, Failed = 1, Usage = 2 };

struct Option {
  enum class Takes { Nothing, OneValue, ManyValues };

  std::string name;  // "--listen", or "-o,--output" with a short form
  std::string help;
  Takes takes = Takes::Nothing;
  std::string value_name = {};  // "HOST:PORT"
};

struct Positional {
  std::string name;  // "DIR"
  std::string help;
  bool required = true;
};

// What was given on the command line, by the long names of options and the names of positionals.
class Arguments {
 public:
  void add(const std::string& name, std::vector<std::string> values) {
    values_[name] = std::move(values);
  }

  void remove(const std::string& name) { values_.erase(name); }

  bool has(const std::string& name) const { return values_.contains(name); }
  std::optional<std::string> one(const std::string& name) const;
  std::vector<std::string> all(const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

// The world a command runs in. stdout is for data, stderr for talk.
struct Context {
  std::ostream& out;
  std::ostream& err;
  std::vector<std::pair<std::string, std::string>> environment;
  Backend& backend;
  bool colour = false;  // on stderr
  std::istream& in;
  bool in_is_terminal = false;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  std::size_t columns = 0;  // of the terminal that stdout is; 0 if it is none

  std::optional<std::string> variable(std::string_view name) const;

  // "error: what", and below it what the reader can do about it.
  void error(std::string_view what, std::string_view hint = {}) const;
  void warning(std::string_view what) const;
};

struct Command {
  std::string words;    // "config show"
  std::string summary;  // one line
  std::string details = {};
  std::vector<std::pair<std::string, std::string>> examples = {};  // command line, what it does
  std::vector<Positional> positionals = {};
  std::vector<Option> options = {};
  bool hidden = false;
  // Null: a group, such as "config", whose commands follow. A group that has one does it when none
  // of its commands is named.
  std::function<Exit(const Arguments&, Context&)> run = nullptr;
};

}  // namespace nimbus::cli
