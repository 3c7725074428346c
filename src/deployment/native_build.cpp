#include "deployment/native_build.h"

#include "base/log.h"
#include "deployment/interpreters.h"
#include "deployment/tool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

namespace nimbus::deployment {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kExtensions = {".cpp", ".cc", ".cxx"};
constexpr std::chrono::seconds kTimeLimit{60};
constexpr std::string_view kEntry = "nimbus_entry.cpp";

// The cell's /tmp bounds what can be made there.
constexpr const char* kEntryInCell = "/tmp/nimbus_entry.cpp";
constexpr std::size_t kMostProgram = 64UL * 1024 * 1024;
// $0 is the entry's text, the rest is the compiler and what it is given. 2 GiB of memory, as much
// time as there is anyway, no file longer than /tmp.
constexpr const char* kInCell = R"(
ulimit -c 0
ulimit -v 2097152
ulimit -t 60
printf '%s' "$0" > /tmp/nimbus_entry.cpp
if "$@" -o /tmp/program > /tmp/said 2>&1; then exec cat /tmp/program; fi
head -c 65536 /tmp/said
exit 1
)";

bool isSourceFile(const fs::path& path) {
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) !=
         kExtensions.end();
}

// It becomes part of a source text.
bool isSymbol(std::string_view text) {
  const auto belongs = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), belongs);
}

bool isProgram(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// As the name of one file, whatever is in it.
std::string fileNameOf(std::string_view handler) {
  std::string name;
  for (const char c : handler) {
    if (c == '/') {
      name += "%2F";
    } else if (c == '%') {
      name += "%25";
    } else {
      name += c;
    }
  }
  return name;
}

// All but the handler's, which the entry includes: so what it names need not be declared anywhere.
std::vector<std::string> otherSources(const fs::path& directory, const std::string& source) {
  std::vector<std::string> sources;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(directory, ignored)) {
    const std::string path = entry.path().lexically_relative(directory).string();
    if (entry.is_regular_file(ignored) && isSourceFile(entry.path()) && path != source) {
      sources.push_back("./" + path);  // whatever it begins with, it is no option
    }
  }
  std::sort(sources.begin(), sources.end());
  return sources;
}

Error noCompiler() {
  return {Code::Unprocessable,
          "there is no C++ compiler on this server; install g++ or clang, or upload a compiled "
          "program (docs/native.md)"};
}

// "FILE:LINE:COLUMN: error: MESSAGE", as g++ and clang say it.
struct Diagnostic {
  std::string file;
  std::optional<std::int64_t> line;
  std::string message;
};

std::optional<Diagnostic> diagnosticIn(std::string_view line) {
  std::size_t mark = line.find(": error: ");
  std::size_t behind = mark + std::string_view(": error: ").size();
  if (const std::size_t fatal = line.find(": fatal error: "); fatal < mark) {
    mark = fatal;
    behind = fatal + std::string_view(": fatal error: ").size();
  }
  if (mark == std::string_view::npos) return std::nullopt;
  Diagnostic diagnostic;
  diagnostic.message = line.substr(behind);
  std::string_view place = line.substr(0, mark);
  std::array<std::int64_t, 2> numbers{};  // column, line
  std::size_t found = 0;
  while (found < numbers.size()) {
    const std::size_t colon = place.rfind(':');
    if (colon == std::string_view::npos) break;
    const char* const end = place.data() + place.size();
    const auto [stopped, wrong] = std::from_chars(place.data() + colon + 1, end, numbers[found]);
    if (wrong != std::errc() || stopped != end) break;
    ++found;
    place = place.substr(0, colon);
  }
  if (found > 0) diagnostic.line = numbers[found - 1];
  diagnostic.file = place.starts_with("./") ? place.substr(2) : place;
  return diagnostic;
}

template <typename Take>
void forEachLine(std::string_view text, Take take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!take(text.substr(0, end))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Cells see the system, and nothing that is installed elsewhere.
bool isInCells(const std::string& program) {
  std::error_code failed;
  const fs::path real = fs::canonical(program, failed);
  return !failed && real.string().starts_with("/usr/");
}

std::string entryOf(const NativeCode& code) {
  return fmt::format("#include \"{}\"\n#include <nimbus/function.h>\nNIMBUS_FUNCTION({});\n",
                     code.source, code.symbol);
}

Result<> checkRun(const ToolRun& run, const std::string& source) {
  if (run.succeeded()) return {};
  if (!run.status) {
    return Error(Code::Unprocessable, fmt::format("CompileError: {} did not compile within {} s",
                                                  source, kTimeLimit.count()))
        .with("error_type", std::string("CompileError"))
        .with("file", source);
  }
  return compileError(
      run.output.empty() ? "the compiler failed: " + run.status->text() : run.output, source);
}

}  // namespace

Result<NativeCode> nativeCodeOf(const function::Definition& definition, const fs::path& directory) {
  const std::string& handler = definition.handler;
  NativeCode code;
  if (isProgram(directory / handler)) {
    code.program = directory / handler;
    return code;
  }
  const std::size_t dot = handler.rfind('.');
  const std::string file = handler.substr(0, dot);
  if (dot != handler.npos && isSymbol(std::string_view(handler).substr(dot + 1))) {
    std::error_code ignored;
    for (const std::string_view extension : kExtensions) {
      const std::string source = file + std::string(extension);
      if (!fs::is_regular_file(directory / source, ignored)) continue;
      code.source = source;
      code.symbol = handler.substr(dot + 1);
      code.program = directory.parent_path() / (directory.filename().string() + ".native") /
                     fileNameOf(handler);
      return code;
    }
  }
  return Error(Code::Unprocessable,
               fmt::format("\"{}\" is no program among the files, nor FILE.SYMBOL of a FILE.cpp",
                           handler))
      .with("file", handler);
}

Error compileError(std::string_view output, const std::string& source) {
  Diagnostic shown;
  forEachLine(output, [&](std::string_view line) {
    const std::optional<Diagnostic> found = diagnosticIn(line);
    if (found && found->line) {
      shown = *found;
      return false;
    }
    // The linker knows no line, and its last word says the least.
    const std::size_t unlinked = line.find("undefined reference");
    const bool says_more = unlinked != line.npos && shown.message.find("undefined") != 0;
    if (says_more) {
      shown.message = line.substr(unlinked);
    } else if (shown.message.empty()) {
      shown.message = found ? found->message : line;
    }
    return true;
  });
  const bool is_elsewhere = shown.file.empty() || shown.file.starts_with('/');
  if (is_elsewhere) {
    shown.line.reset();
    shown.file = source;
  }
  const std::string place = shown.line ? fmt::format("{}:{}", shown.file, *shown.line) : shown.file;
  Error error =
      Error(Code::Unprocessable, fmt::format("CompileError: {}: {}", place, shown.message))
          .with("error_type", std::string("CompileError"))
          .with("file", shown.file);
  if (shown.line) error = std::move(error).with("line", *shown.line);
  return std::move(error).with("trace", std::string(output));
}

Task<Result<>> NativeBuild::provide(function::Definition definition, fs::path directory) {
  NIMBUS_CO_TRY(NativeCode code, nativeCodeOf(definition, directory));
  if (!code.isSource() || isProgram(code.program)) co_return Result<>();
  const function::Turns::Turn turn = co_await turns_.take();
  if (isProgram(code.program)) co_return Result<>();  // somebody wanted the same
  co_return co_await build(std::move(code), std::move(directory));
}

Task<Result<>> NativeBuild::build(NativeCode code, fs::path directory) {
  const std::string compiler = findProgram({"c++", "g++", "clang++"});
  if (compiler.empty()) co_return noCompiler();
  NIMBUS_CO_TRY(const Draft draft, Draft::beside(code.program));
  const fs::path program = draft.file("program");
  std::vector<std::string> command = {compiler, "-std=c++20", "-O2", "-pthread"};
  command.insert(command.end(), {"-iquote", ".", "-I", include_.string()});

  log::info("compiling a function", {{"code", directory.string()}});
  if (is_confined_ && !isInCells(compiler)) {
    log::warn("the compiler is not in /usr, so it runs outside the sandbox",
              {{"compiler", compiler}});
    NIMBUS_CO_CHECK(co_await compileHere(code, std::move(command), directory, program));
  } else if (is_confined_) {
    NIMBUS_CO_CHECK(co_await compileInCell(code, std::move(command), directory, program));
  } else {
    NIMBUS_CO_CHECK(co_await compileHere(code, std::move(command), directory, program));
  }
  std::error_code error;
  // Whatever our umask is: an instance may run as another user.
  constexpr fs::perms kForAll = fs::perms(0755);
  fs::permissions(program, kForAll, error);
  if (!error) fs::permissions(code.program.parent_path(), kForAll, error);
  if (!error) fs::rename(program, code.program, error);
  if (error) co_return fileError("moving the program to", code.program, error.value());
  co_return Result<>();
}

Task<Result<>> NativeBuild::compileHere(NativeCode code, std::vector<std::string> compiler,
                                        fs::path directory, fs::path program) {
  const fs::path entry = program.parent_path() / kEntry;
  std::ofstream text(entry);
  text << entryOf(code);
  text.close();
  if (!text) co_return fileError("writing", entry, errno);
  compiler.insert(compiler.end(), {"-o", program.string(), entry.string()});
  for (std::string& source : otherSources(directory, code.source)) {
    compiler.push_back(std::move(source));
  }
  runtime::Command command = cleanCommand(std::move(compiler));
  command.directory = directory.string();
  ToolOptions options;
  options.time_limit = kTimeLimit;
  NIMBUS_CO_TRY(const ToolRun run,
                co_await runTool(cells_.keeper(), std::move(command), std::move(options)));
  co_return checkRun(run, code.source);
}

// What the compiler makes stays in the cell, and comes out on the tool's one stream: the program if
// all went well, else what was said.
Task<Result<>> NativeBuild::compileInCell(NativeCode code, std::vector<std::string> compiler,
                                          fs::path directory, fs::path program) {
  NIMBUS_CO_TRY(runtime::Cell cell, co_await cells_.take(runtime::Network::None));
  std::vector<runtime::CodeMount> mounts;
  mounts.push_back(
      {directory.lexically_relative(cells_.code()).string(), std::string(runtime::kCodePlace)});
  NIMBUS_CO_CHECK(co_await cell.mount(std::move(mounts)));
  std::vector<std::string> arguments = {"/bin/sh", "-c", kInCell, entryOf(code)};
  arguments.insert(arguments.end(), compiler.begin(), compiler.end());
  arguments.emplace_back(kEntryInCell);
  for (std::string& source : otherSources(directory, code.source)) {
    arguments.push_back(std::move(source));
  }
  runtime::Command command = cleanCommand(std::move(arguments));
  command.directory = runtime::kCodePlace;
  ToolOptions options;
  options.time_limit = kTimeLimit;
  options.kept_output = kMostProgram;
  options.cell = &cell;
  NIMBUS_CO_TRY(const ToolRun run,
                co_await runTool(cells_.keeper(), std::move(command), std::move(options)));
  NIMBUS_CO_CHECK(checkRun(run, code.source));
  std::ofstream file(program, std::ios::binary);
  file << run.output;
  file.close();
  if (!file) co_return fileError("writing", program, errno);
  co_return Result<>();
}

}  // namespace nimbus::deployment
