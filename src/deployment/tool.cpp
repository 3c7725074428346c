#include "deployment/tool.h"

#include "runtime/launcher.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace nimbus::deployment {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kUntilReaped{5000};

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

// What a tool says. Shared with the timer, whose handler may run when nobody reads any more.
struct Reading {
  Reading(const asio::any_io_executor& executor, int descriptor) : pipe(executor, descriptor) {}

  asio::posix::stream_descriptor pipe;
  bool is_late = false;
};

// Passes text on in whole lines.
class Lines {
 public:
  explicit Lines(std::function<void(std::string_view)> hear) : hear_(std::move(hear)) {}

  void add(std::string_view text) {
    if (!hear_) return;
    rest_ += text;
    const std::size_t end = rest_.rfind('\n') + 1;  // 0 if there is none
    const bool is_endless = end == 0 && rest_.size() > kMaxLine;
    pass(is_endless ? rest_.size() : end);
  }
  void end() { pass(rest_.size()); }

 private:
  static constexpr std::size_t kMaxLine = 16UL * 1024;

  void pass(std::size_t size) {
    if (size > 0) hear_(std::string_view(rest_).substr(0, size));
    rest_.erase(0, size);
  }

  const std::function<void(std::string_view)> hear_;
  std::string rest_;
};

// Its words are read by us, too.
void speakEnglish(std::vector<std::string>& environment) {
  std::erase_if(environment, [](const std::string& variable) {
    return variable.starts_with("LC_ALL=") || variable.starts_with("LANG=");
  });
  environment.emplace_back("LC_ALL=C.UTF-8");
}

}  // namespace

Error fileError(std::string_view what, const fs::path& path, int error) {
  return {Code::Unavailable, fmt::format("{} {}: {}", what, path.string(), std::strerror(error))};
}

Result<Draft> Draft::beside(const fs::path& target) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) return fileError("making", target.parent_path(), error.value());
  std::string pattern = target.string() + ".XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) return fileError("making", pattern, errno);
  return Draft(fs::path(pattern));
}

Draft::Draft(Draft&& other) noexcept : path_(std::exchange(other.path_, {})) {}

Draft::~Draft() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Task<Result<ToolRun>> runTool(runtime::Keeper& keeper, runtime::Command command,
                              ToolOptions options) {
  speakEnglish(command.environment);
  NIMBUS_CO_TRY(runtime::Connection connection, runtime::connect());
  // One pipe for both of its outputs.
  connection.theirs.out.reset(::fcntl(connection.theirs.err.get(), F_DUPFD_CLOEXEC, 0));
  NIMBUS_CO_TRY(
      const pid_t process,
      co_await keeper.spawn(std::move(command), std::move(connection.theirs),
                            options.cell != nullptr ? options.cell->namespaces()
                                                    : std::span<const runtime::Descriptor>()));
  Started started(keeper, process);

  const auto executor = co_await asio::this_coro::executor;
  const auto reading = std::make_shared<Reading>(executor, connection.ours.err.release());
  asio::steady_timer timer(executor, options.time_limit);
  timer.async_wait([reading](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    reading->is_late = true;
    boost::system::error_code ignored;
    reading->pipe.cancel(ignored);
  });
  ToolRun run;
  Lines lines(std::move(options.hear));
  // Compilers begin with what counts, installers end with it.
  const std::size_t kept = options.kept_output;
  std::array<char, 16384> room;
  const auto token = asio::as_tuple(asio::use_awaitable);
  while (true) {
    const auto [ended, size] = co_await reading->pipe.async_read_some(asio::buffer(room), token);
    if (ended) break;
    run.output.append(room.data(), size);
    if (run.output.size() > 2 * kept) run.output.erase(kept, run.output.size() - 2 * kept);
    lines.add(std::string_view(room.data(), size));
  }
  lines.end();
  timer.cancel();
  if (reading->is_late) co_return run;
  NIMBUS_CO_TRY(run.status, co_await keeper.exitOf(process, kUntilReaped));
  started.hasEnded();
  co_return run;
}

}  // namespace nimbus::deployment
