#pragma once
// Functions in C++ that come as source: made into programs by the compiler of this machine.

#include "base/result.h"
#include "base/task.h"
#include "function/definition.h"
#include "function/turns.h"
#include "runtime/keeper.h"

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
  // `include` holds nimbus/function.h. `keeper` must outlive this.
  NativeBuild(runtime::Keeper& keeper, std::filesystem::path include)
      : keeper_(keeper), include_(std::move(include)) {}

  // Sees to it that the program is there. It is built beside the code, once: one build at a time,
  // so that deployments do not use up the machine. Whoever is cancelled stops his.
  //
  // Unprocessable, with what the compiler said, if the code does not compile, takes too long to, or
  // if there is no compiler.
  Task<Result<>> provide(function::Definition definition, std::filesystem::path directory);

 private:
  Task<Result<>> build(NativeCode code, std::filesystem::path directory);
  Task<Result<>> compile(runtime::Command command, std::string source);

  runtime::Keeper& keeper_;
  const std::filesystem::path include_;
  function::Turns turns_;
};

}  // namespace nimbus::deployment
