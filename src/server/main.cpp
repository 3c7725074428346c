#include "cli/cli.h"
#include "server/backend.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

// 0 if stdout is no terminal.
std::size_t terminalColumns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A peer that is gone is an error of the write, not the end of the process.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    nimbus::server::Backend backend;
    nimbus::cli::Surroundings around{std::cout, std::cerr, environment()};
    around.err_is_terminal = ::isatty(STDERR_FILENO) == 1;
    around.in = &std::cin;
    around.in_is_terminal = ::isatty(STDIN_FILENO) == 1;
    around.out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
    around.columns = terminalColumns();
    return nimbus::cli::run(arguments, backend, around);
  } catch (const std::exception& failure) {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
