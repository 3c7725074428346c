#include "deployment/native_build.h"

#include "base/log.h"
#include "deployment/interpreters.h"
#include "runtime/launcher.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace nimbus::deployment {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kExtensions = {".cpp", ".cc", ".cxx"};
constexpr std::chrono::seconds kTimeLimit{60};
// Of what the compiler says; the first error is what counts.
constexpr std::size_t kMaxOutput = 64UL * 1024;
constexpr std::chrono::milliseconds kUntilReaped{5000};
constexpr std::string_view kEntry = "nimbus_entry.cpp";

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

Error failed(std::string_view what, const fs::path& path, int error) {
  return {Code::Unavailable, fmt::format("{} {}: {}", what, path.string(), std::strerror(error))};
}

// A folder that is gone when this is.
class Draft {
 public:
  static Result<Draft> beside(const fs::path& program) {
    std::error_code error;
    fs::create_directories(program.parent_path(), error);
    if (error) return failed("making", program.parent_path(), error.value());
    std::string pattern = program.string() + ".XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return failed("making", pattern, errno);
    return Draft(fs::path(pattern));
  }
  Draft(Draft&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  Draft& operator=(Draft&&) = delete;
  ~Draft() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  fs::path file(std::string_view name) const { return path_ / name; }

 private:
  explicit Draft(fs::path path) : path_(std::move(path)) {}

  fs::path path_;
};

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

// Kills what was started unless it has ended by itself.
class Started {
 public:
  Started(runtime::Keeper& keeper, pid_t process) : keeper_(keeper), process_(process) {}
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started() {
    if (!has_ended_) keeper_.kill(process_);
  }

  void hasEnded() { has_ended_ = true; }

 private:
  runtime::Keeper& keeper_;
  const pid_t process_;
  bool has_ended_ = false;
};

// What a compiler says. Shared with the timer, whose handler may run when nobody reads any more.
struct Reading {
  Reading(const asio::any_io_executor& executor, int descriptor) : pipe(executor, descriptor) {}

  asio::posix::stream_descriptor pipe;
  bool is_late = false;
};

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
  const fs::path entry = draft.file(kEntry);
  std::ofstream text(entry);
  text << "#include \"" << code.source << "\"\n"
       << "#include <nimbus/function.h>\n"
       << "NIMBUS_FUNCTION(" << code.symbol << ");\n";
  text.close();
  if (!text) co_return failed("writing", entry, errno);

  const fs::path program = draft.file("program");
  std::vector<std::string> arguments = {compiler, "-std=c++20", "-O2", "-pthread"};
  arguments.insert(arguments.end(), {"-iquote", ".", "-I", include_.string()});
  arguments.insert(arguments.end(), {"-o", program.string(), entry.string()});
  for (std::string& source : otherSources(directory, code.source)) {
    arguments.push_back(std::move(source));
  }
  runtime::Command command = cleanCommand(std::move(arguments));
  // Its words are read by us, too.
  std::erase_if(command.environment, [](const std::string& variable) {
    return variable.starts_with("LC_ALL=") || variable.starts_with("LANG=");
  });
  command.environment.emplace_back("LC_ALL=C.UTF-8");
  command.directory = directory.string();

  log::info("compiling a function", {{"code", directory.string()}});
  NIMBUS_CO_CHECK(co_await compile(std::move(command), code.source));
  std::error_code error;
  fs::rename(program, code.program, error);
  if (error) co_return failed("moving the program to", code.program, error.value());
  co_return Result<>();
}

Task<Result<>> NativeBuild::compile(runtime::Command command, std::string source) {
  NIMBUS_CO_TRY(runtime::Connection connection, runtime::connect());
  // One pipe for both of its outputs.
  connection.theirs.out.reset(::fcntl(connection.theirs.err.get(), F_DUPFD_CLOEXEC, 0));
  NIMBUS_CO_TRY(const pid_t process,
                co_await keeper_.spawn(std::move(command), std::move(connection.theirs)));
  Started started(keeper_, process);

  const auto executor = co_await asio::this_coro::executor;
  const auto reading = std::make_shared<Reading>(executor, connection.ours.err.release());
  asio::steady_timer timer(executor, kTimeLimit);
  timer.async_wait([reading](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    reading->is_late = true;
    boost::system::error_code ignored;
    reading->pipe.cancel(ignored);
  });
  std::string output;
  std::array<char, 4096> room;
  const auto token = asio::as_tuple(asio::use_awaitable);
  while (true) {
    const auto [ended, size] = co_await reading->pipe.async_read_some(asio::buffer(room), token);
    if (ended) break;
    output.append(room.data(), std::min(size, kMaxOutput - output.size()));
  }
  timer.cancel();
  if (reading->is_late) {
    co_return Error(Code::Unprocessable, fmt::format("CompileError: {} did not compile within {} s",
                                                     source, kTimeLimit.count()))
        .with("error_type", std::string("CompileError"))
        .with("file", source);
  }
  NIMBUS_CO_TRY(const runtime::ExitStatus status, co_await keeper_.exitOf(process, kUntilReaped));
  started.hasEnded();
  if (!status.signalled && status.number == 0) co_return Result<>();
  if (output.empty()) output = "the compiler failed: " + status.text();
  co_return compileError(output, source);
}

}  // namespace nimbus::deployment
