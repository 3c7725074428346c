#pragma once
// The process that runs one version of one function: it says Hello, does what Load says, and runs
// calls.

#include <fcntl.h>
#include <nimbus/function/runner.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <new>
#include <type_traits>

namespace nimbus::native {

inline constexpr std::string_view kSdkVersion = "0.1.0";

struct Load {
  std::string directory;
  Json env;
  std::int64_t concurrency = 1;
  std::int64_t memory_mb = 0;
  Limits limits;
};

inline Load readLoad(std::string_view head) {
  const Json json = Json::parse(head);
  const Json& state = json["state"];
  const auto limit = [&](std::string_view name) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, state[name].asInt(0)));
  };
  Load load;
  load.directory = json["directory"].asString("");
  load.env = json["env"];
  load.concurrency = json["concurrency"].asInt(1);
  load.memory_mb = json["memory_mb"].asInt(0);
  load.limits.enabled = state["enabled"].asBool(true);
  load.limits.default_ttl_ms = state["default_ttl_ms"].asInt(0);
  load.limits.max_value_bytes = limit("max_value_bytes");
  load.limits.max_keys = limit("max_keys");
  load.limits.max_total_bytes = limit("max_total_bytes");
  return load;
}

// Lets the function have `megabytes` beyond what the program itself and `threads` stacks take; then
// there is std::bad_alloc.
inline void limitMemory(std::int64_t megabytes, std::int64_t threads) {
  if (megabytes <= 0) return;
  constexpr std::size_t kDataField = 5;
  rlim_t used = 0;
  if (std::FILE* const statm = std::fopen("/proc/self/statm", "re")) {
    unsigned long pages = 0;
    for (std::size_t field = 0; field <= kDataField; ++field) {
      if (std::fscanf(statm, "%lu", &pages) != 1) pages = 0;
    }
    used = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
    std::fclose(statm);
  }
  constexpr rlim_t kStack = 8UL << 20U;
  rlimit limit{};
  ::getrlimit(RLIMIT_DATA, &limit);
  const rlim_t wanted =
      used + static_cast<rlim_t>(threads) * kStack + (static_cast<rlim_t>(megabytes) << 20U);
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_DATA, &limit);
}

inline void prepare(const Load& load) {
  if (!load.directory.empty() && ::chdir(load.directory.c_str()) != 0) {
    fail("the directory of the function cannot be entered");
  }
  if (load.env.isObject()) {
    for (const Member& variable : load.env.members()) {
      ::setenv(variable.name.c_str(), variable.value.asString().c_str(), 1);
    }
    ::tzset();
  }
  limitMemory(load.memory_mb, load.concurrency > 1 ? load.concurrency : 0);
}

inline void checkDescriptor() {
  struct stat about {};
  if (::fstat(kDescriptor, &about) == 0 && S_ISSOCK(about.st_mode)) return;
  static constexpr std::string_view kMessage =
      "This program is a function for Nimbus, which runs it: see docs/native.md.\n";
  static_cast<void>(!::write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  leave(2);
}

[[noreturn]] inline void runInstance(Handler handler) {
  checkDescriptor();
  ::fcntl(kDescriptor, F_SETFD, FD_CLOEXEC);
  // What is printed is a log: whole lines leave at once, the last ones before a crash too.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // Never destroyed: threads that the function left behind may use it to the end.
  static Channel& channel = *new Channel(kDescriptor);
  static Load& load = *new Load;
  log_channel = &channel;
  // In a child that the function forks the call is the parent's, to change state in and to end.
  ::pthread_atfork(nullptr, nullptr, [] { channel.abandon(); });

  std::string hello = R"({"protocol":1,"language":"c++","language_version":)";
  appendString(hello, toUtf8(__VERSION__));
  hello += R"(,"sdk":")";
  hello += kSdkVersion;
  hello += R"(","pid":)" + std::to_string(::getpid()) + "}";
  std::string out;
  appendFrame(out, FrameType::Hello, 0, hello);
  channel.send(out);
  try {
    Frame frame = channel.next();
    while (frame.type != FrameType::Load) frame = channel.next();
    load = readLoad(frame.head());
    prepare(load);
  } catch (const JsonError& wrong) {
    fail(std::string("what came is no Load: ") + wrong.what());
  }
  out.clear();
  appendFrame(out, FrameType::Ready, 0, "{}");
  channel.send(out);

  static Runner runner(channel, handler, load.limits);
  if (load.concurrency > 1) serveOnThreads(channel, runner, load.concurrency);
  serveOnMainThread(channel, runner);
}

// ---- From what authors write to a Handler

template <typename Function, typename... Arguments>
Json answerWith(Function& function, Arguments&... arguments) {
  if constexpr (std::is_void_v<std::invoke_result_t<Function&, Arguments&...>>) {
    function(arguments...);
    return nullptr;
  } else {
    return function(arguments...);
  }
}

template <typename>
inline constexpr bool kIsHandler = false;

template <typename Function>
Json callHandler(Function& function, Json& event, State& state, std::string_view context) {
  if constexpr (std::is_invocable_v<Function&, Json&, State&, const Context&>) {
    const Context parsed{std::string(context)};
    return answerWith(function, event, state, parsed);
  } else if constexpr (std::is_invocable_v<Function&, Json&, State&>) {
    return answerWith(function, event, state);
  } else if constexpr (std::is_invocable_v<Function&, Json&>) {
    return answerWith(function, event);
  } else {
    static_assert(kIsHandler<Function>,
                  "a handler takes (const nimbus::Json& event), (event, nimbus::State& state) or "
                  "(event, state, const nimbus::Context& context)");
    return nullptr;
  }
}

}  // namespace nimbus::native
