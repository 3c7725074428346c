// Does what its event says, {"do": WHAT, ...}.

#include <nimbus/function.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

using nimbus::Context;
using nimbus::Json;
using nimbus::State;

namespace shop {
struct SoldOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};
}  // namespace shop

namespace {

std::atomic<int> running = 0;
std::atomic<int> most = 0;

Json fail(const std::string& how) {
  if (how == "exception") throw shop::SoldOut("no \"tea\" \xff left");
  if (how == "string") throw std::string("a string");
  if (how == "number") throw 5;
  if (how == "nan") return std::nan("");
  if (how == "bytes") return std::string("\xff\xfe");
  if (how == "deep") {
    Json deep;
    for (int i = 0; i < 65; ++i) deep = Json::array({std::move(deep)});
    return deep;
  }
  if (how == "abort") std::abort();
  if (how == "segfault") std::raise(SIGSEGV);
  if (how == "exit") std::exit(3);
  if (how == "garbage") {
    static_cast<void>(!::write(3, "this is no frame at all, not even nearly", 40));
    return nullptr;
  }
  throw std::logic_error("fail how?");
}

// A child that returns from the handler must not answer for its parent.
Json forked(State& state) {
  const pid_t child = ::fork();
  if (child == 0) return "from the child";
  int status = 0;
  ::waitpid(child, &status, 0);
  return Json::object({{"child", WEXITSTATUS(status)}, {"visits", state.incr("visits")}});
}

Json threads(State& state, std::int64_t count) {
  std::vector<std::thread> started;
  for (std::int64_t i = 0; i < count; ++i) {
    started.emplace_back([&] {
      for (int n = 0; n < 100; ++n) state.incr("n");
      state.function().incr("f");
    });
  }
  for (std::thread& thread : started) thread.join();
  return state.get("n");
}

// Says how many calls were in here at most when so many were to meet.
Json meet(std::int64_t expected) {
  ++running;
  while (running < expected) std::this_thread::yield();
  most = std::max(most.load(), running.load());
  while (most < expected) std::this_thread::yield();
  return most.load();
}

Json handle(const Json& event, State& state, const Context& context) {
  const std::string what = event.isObject() ? event["do"].asString("echo") : "echo";
  if (what == "echo") return event;
  if (what == "answer") return event["answer"];
  if (what == "fail") {
    state.set("before", 1);
    return fail(event["how"].asString());
  }
  if (what == "context") {
    return Json::object(
        {{"request_id", context.requestId()},
         {"function_id", context.functionId()},
         {"version", context.version()},
         {"session_key", context.sessionKey() ? Json(*context.sessionKey()) : Json()},
         {"session_seq", context.sessionSeq()},
         {"attempt", context.attempt()},
         {"deadline_ms", context.deadlineMs()},
         {"traceparent", context.traceparent()},
         {"remaining", context.remainingMs() > 0},
         {"raw", context.json()}});
  }
  if (what == "raw") {
    state.setRaw("copy", state.getRaw("value").value_or("null"));
    return Json::ofText(state.getRaw("value").value_or("null"));
  }
  if (what == "bad_raw") {
    try {
      state.setRaw("copy", event["text"].asString());
    } catch (const nimbus::StateError& error) {
      return error.what();
    }
    return nullptr;
  }
  if (what == "log") {
    nimbus::log::info("two\nlines", {{"plain", "word"}, {"text", "a b"}, {"number", 1.5}});
    nimbus::log::error("bad \xff byte");
    std::printf("printed\n");
    std::fprintf(stderr, "also printed\n");
    return nullptr;
  }
  if (what == "surroundings") {
    char directory[4096];
    const char* const greeting = std::getenv("GREETING");
    return Json::object({{"directory", ::getcwd(directory, sizeof directory)},
                         {"greeting", greeting != nullptr ? Json(greeting) : Json()}});
  }
  if (what == "memory") {
    const std::vector<char> large(static_cast<std::size_t>(event["bytes"].asInt()), 'x');
    return large.back() == 'x';
  }
  if (what == "fork") return forked(state);
  if (what == "threads") return threads(state, event["count"].asInt());
  if (what == "meet") return meet(event["count"].asInt());
  if (what == "function_get") return state.function().get("a");
  throw std::invalid_argument("do what?");
}

}  // namespace

NIMBUS_FUNCTION(handle);
