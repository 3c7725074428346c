#pragma once
// Programs of this machine that make what a function needs out of what it came with: compilers,
// installers.

#include "base/result.h"
#include "base/task.h"
#include "runtime/cell.h"
#include "runtime/keeper.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::deployment {

// A folder that is gone when this is, unless it has been moved to where it belongs.
class Draft {
 public:
  // Its name is that of `target` with something behind it. Unavailable if it cannot be made.
  static Result<Draft> beside(const std::filesystem::path& target);
  Draft(Draft&& other) noexcept;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  Draft& operator=(Draft&&) = delete;
  ~Draft();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }

 private:
  explicit Draft(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

struct ToolRun {
  std::string output;  // of both streams; its beginning and end if it is long
  std::optional<runtime::ExitStatus> status;  // nothing: it took too long and was killed

  bool succeeded() const { return status && !status->signalled && status->number == 0; }
};

struct ToolOptions {
  std::chrono::milliseconds time_limit{};
  // Told what it says as it comes, in whole lines.
  std::function<void(std::string_view)> hear = {};
  // How much of what it says is kept: so much of its beginning, and of its end.
  std::size_t kept_output = 32UL * 1024;
  // Where it runs; null: on the host. Must live until the task ends.
  const runtime::Cell* cell = nullptr;
};

// Runs it to its end; whoever is cancelled kills it. `keeper` must live until the task ends. Its
// words are in English.
Task<Result<ToolRun>> runTool(runtime::Keeper& keeper, runtime::Command command,
                              ToolOptions options);

// Unavailable: what went wrong with a file of ours.
Error fileError(std::string_view what, const std::filesystem::path& path, int error);

}  // namespace nimbus::deployment
