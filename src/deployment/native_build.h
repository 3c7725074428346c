#pragma once
// Functions in C++ that come as source: made into programs by the compiler of this machine.

#include "base/result.h"
#include "base/task.h"
#include "function/definition.h"
#include "function/turns.h"
#include "runtime/cell.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::deployment {

// Where a function of runtime `native` is: its handler is a program among its files, or FILE.SYMBOL
// of source, FILE without its .cpp, .cc or .cxx.
struct NativeCode {
  std::filesystem::path program;  // there already, or to be built
  std::string source;             // relative to the code; empty if the program came with it
  std::string symbol;             // a function in it

  bool isSource() const { return !source.empty(); }
};

// `directory` is where the code lies. Unprocessable if the handler names neither.
Result<NativeCode> nativeCodeOf(const function::Definition& definition,
                                const std::filesystem::path& directory);

// The first error among what a compiler said, with the fields `error_type`, `file`, `line` and
// `trace` as far as they are known. `source`: what to blame for what is wrong elsewhere.
Error compileError(std::string_view output, const std::string& source);

// Any thread may use any member.
class NativeBuild {
 public:
  // `include` holds nimbus/function.h, and is seen in cells. `cells` must outlive this.
  NativeBuild(runtime::Cells& cells, std::filesystem::path include)
      : cells_(cells), include_(std::move(include)) {}

  // From now on compilers run in cells: source is a stranger's, and a compiler reads what it is
  // told to. Before the first build.
  void confine() { is_confined_ = true; }

  // Sees to it that the program is there. It is built beside the code, once: one build at a time,
  // so that deployments do not use up the machine. Whoever is cancelled stops his.
  //
  // Unprocessable, with what the compiler said, if the code does not compile, takes too long to, or
  // if there is no compiler.
  Task<Result<>> provide(function::Definition definition, std::filesystem::path directory);

 private:
  Task<Result<>> build(NativeCode code, std::filesystem::path directory);
  Task<Result<>> compileHere(NativeCode code, std::vector<std::string> compiler,
                             std::filesystem::path directory, std::filesystem::path program);
  Task<Result<>> compileInCell(NativeCode code, std::vector<std::string> compiler,
                               std::filesystem::path directory, std::filesystem::path program);

  runtime::Cells& cells_;
  const std::filesystem::path include_;
  bool is_confined_ = false;
  function::Turns turns_;
};

}  // namespace nimbus::deployment
