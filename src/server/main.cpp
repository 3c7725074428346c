#include "cli/cli.h"
#include "server/backend.h"

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

}  // namespace

int main(int argc, char** argv) {
  // A peer that is gone is an error of the write, not the end of the process.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    nimbus::server::Backend backend;
    return nimbus::cli::run(arguments, backend,
                            {std::cout, std::cerr, environment(), ::isatty(STDERR_FILENO) == 1});
  } catch (const std::exception& failure) {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
