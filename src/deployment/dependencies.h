#pragma once
// Packages that functions need and do not bring along, installed when they are deployed.
//
// What is needed is known by a hash: of the files that say so, and of the interpreter. Each hash
// has a folder, which is filled once and never changed; functions and versions that need the same
// share it. An instance finds it by `FunctionSpec::dependencies` (Python) or by the link
// `node_modules` beside its code (Node).

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "deployment/interpreters.h"
#include "deployment/requirements.h"
#include "function/definition.h"
#include "function/turns.h"
#include "runtime/keeper.h"

#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace nimbus::deployment {

// Any thread may use any member.
class Dependencies {
 public:
  struct Options {
    // For the folders, in the folder of all code: links from there to here are relative.
    std::filesystem::path directory;
    std::filesystem::path wheels;  // with packages for Python; empty: pip knows where to look
    Millis time_limit{300'000};    // of one installation
    Millis grace{3'600'000};       // how long a folder stays that nobody needs
  };

  // What installers say, as they say it.
  using Progress = std::function<void(std::string_view text)>;

  // `keeper` must outlive this.
  Dependencies(runtime::Keeper& keeper, Paths programs, Options options);

  // Sees to it that what the code in `code` needs is there and that instances will find it. One
  // installation at a time; whoever is cancelled stops his.
  //
  // Unprocessable, with what the installer said, if it cannot be had.
  Task<Result<>> provide(function::Runtime runtime, std::filesystem::path code, Progress progress);

  // Where what provide() was asked for is; empty if the code needs nothing.
  std::filesystem::path of(const std::filesystem::path& code) const;

  // Whether it is time to.
  bool isSweepDue();
  // Removes what has not been in `used`, names of folders, and not been asked for in a while.
  Task<> sweep(std::set<std::string> used);

 private:
  Result<std::string> keyOf(function::Runtime runtime, const Requirements& needed,
                            const std::filesystem::path& code) const;
  Task<Result<>> install(function::Runtime runtime, Requirements needed, std::filesystem::path code,
                         std::filesystem::path target, Progress progress);
  Result<runtime::Command> commandFor(function::Runtime runtime, const Requirements& needed,
                                      const std::filesystem::path& code,
                                      const std::filesystem::path& draft) const;

  runtime::Keeper& keeper_;
  const Paths programs_;
  const Options options_;
  function::Turns turns_;
  std::mutex sweep_mutex_;
  std::filesystem::file_time_type next_sweep_;
};

// What an installer said went wrong, with the fields `error_type`, `file` and `trace`.
Error installError(std::string_view output, const std::string& file);

}  // namespace nimbus::deployment
