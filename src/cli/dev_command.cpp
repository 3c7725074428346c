#include "base/json.h"
#include "base/json_text.h"
#include "cli/backend.h"
#include "cli/child_server.h"
#include "cli/commands.h"
#include "cli/deploying.h"
#include "cli/log_line.h"
#include "cli/text_width.h"
#include "cli/watcher.h"
#include "client/client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <mutex>
#include <ostream>
#include <set>
#include <system_error>
#include <thread>

namespace nimbus::cli {
namespace {

namespace fs = std::filesystem;

constexpr Millis kQuiet{15};
constexpr Millis kMostQuiet{150};

// What came over a descriptor, line by line; on a thread of its own.
template <typename Sink>
void eachLine(int descriptor, const Sink& sink) {
  std::string text;
  std::array<char, 4096> bytes;
  ssize_t length = 0;
  while ((length = ::read(descriptor, bytes.data(), bytes.size())) > 0 ||
         (length < 0 && errno == EINTR)) {
    text.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(0, length)));
    std::size_t end = 0;
    while ((end = text.find('\n')) != text.npos) {
      sink(text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
  if (!text.empty()) sink(text);
}

// Ctrl-C and SIGTERM as something to poll.
class Signals {
 public:
  Signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() { ::close(descriptor_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_; }
  // Whether one has come.
  bool take() const {
    signalfd_siginfo info{};
    return ::read(descriptor_, &info, sizeof(info)) == sizeof(info);
  }

 private:
  int descriptor_ = -1;
};

class Dev {
 public:
  Dev(Context& context, fs::path directory, std::string listen)
      : context_(context), directory_(std::move(directory)), listen_(std::move(listen)) {}

  Exit run() {
    const Signals signals;  // first: threads inherit what is blocked
    auto watcher = Watcher::open(directory_);
    if (!watcher) return fail(watcher.error());
    auto server = ChildServer::start({"serve", "--listen", listen_, "--data",
                                      (directory_ / ".nimbus").string(), "--no-auth", "--set",
                                      "server.access_log=true", "--set", "log.format=json", "--set",
                                      "server.drain_ms=3000"});
    if (!server) return fail(server.error());
    threads_.emplace_back([this, descriptor = server->err()] {
      eachLine(descriptor, [this](const std::string& line) { showServerLine(line); });
    });
    const bool is_ready = waitUntilReady(*server);
    if (is_ready) {
      greet();
      deployChanged(std::nullopt);
      watch(*server, *watcher, signals);
    }
    server->stop();
    waitForEnd(*server, signals);
    server->join();
    for (std::thread& thread : threads_) thread.join();
    return is_ready && !died_ ? Exit::Ok : Exit::Failed;
  }

 private:
  enum class Tone { Plain, Good, Bad, Quiet };

  Exit fail(const Error& error) {
    context_.error(error.message());
    return Exit::Failed;
  }

  void say(Tone tone, const std::string& text) {
    constexpr std::array<std::string_view, 4> kColours = {"", "\x1b[32m", "\x1b[1;31m", "\x1b[2m"};
    const bool colour = context_.colour && context_.out_is_terminal && tone != Tone::Plain;
    const std::lock_guard lock(mutex_);
    if (colour) {
      context_.out << kColours.at(static_cast<std::size_t>(tone)) << text << "\x1b[0m\n";
    } else {
      context_.out << text << '\n';
    }
    context_.out.flush();
  }

  bool waitUntilReady(ChildServer& server) {
    constexpr std::string_view kReady = "nimbus ready on ";
    std::string line;
    char byte = 0;
    while (::read(server.out(), &byte, 1) == 1 && byte != '\n') line += byte;
    if (!line.starts_with(kReady)) return false;
    url_ = *client::parseUrl(line.substr(kReady.size()));
    client_.emplace(url_, client::Client::Options());
    return true;
  }

  void greet() {
    say(Tone::Plain,
        fmt::format("nimbus dev on {}, without keys, for this machine only", url_.text()));
    say(Tone::Quiet, fmt::format("  every operation: {}/docs   data: {}   Ctrl-C ends it",
                                 url_.text(), (directory_ / ".nimbus").string()));
  }

  // What the server logs, said as a person would: calls, and what went wrong.
  void showServerLine(const std::string& line) {
    const auto entry = parseJson(line);
    if (!entry || !entry->isObject()) {
      say(Tone::Bad, shownText(line));
      return;
    }
    const std::string_view level = entry->string("level").value_or("");
    if (entry->string("event") == "request") {
      showCall(*entry);
    } else if (level == "warn" || level == "error") {
      std::string text = fmt::format("server: {}", entry->string("event").value_or(""));
      for (const auto& [name, value] : entry->members()) {
        if (name == "time" || name == "level" || name == "event") continue;
        if (value.string()) text += fmt::format(" {}={}", name, *value.string());
      }
      say(Tone::Bad, shownText(text));
    }
  }

  void showCall(const JsonValue& entry) {
    constexpr std::string_view kFunctions = "/api/v1/functions/";
    constexpr std::string_view kInvoke = "/invoke";
    std::string_view path = entry.string("path").value_or("");
    if (!path.starts_with(kFunctions) || !path.ends_with(kInvoke)) return;
    path.remove_prefix(kFunctions.size());
    path.remove_suffix(kInvoke.size());
    const std::int64_t status = entry.integer("status").value_or(0);
    const double took = static_cast<double>(entry.integer("duration_us").value_or(0)) / 1000;
    say(status < 400 ? Tone::Quiet : Tone::Bad,
        fmt::format("→ {} answered {} in {:.1f} ms", shownText(path), status, took));
  }

  // Deploys the functions that something in `changed` belongs to; nothing: all.
  void deployChanged(const std::optional<std::set<fs::path>>& changed) {
    const std::vector<FunctionFolder> folders = functionsIn(directory_);
    if (folders.empty()) {
      say(Tone::Bad, "there is no function here; `nimbus new NAME` makes one");
      return;
    }
    for (const FunctionFolder& folder : folders) {
      const bool is_new = !versions_.contains(folder.name);
      const bool is_meant =
          !changed || is_new ||
          std::any_of(changed->begin(), changed->end(), [&](const fs::path& path) {
            const auto [end, rest] =
                std::mismatch(folder.path.begin(), folder.path.end(), path.begin(), path.end());
            return end == folder.path.end();
          });
      if (is_meant) deployOne(folder);
    }
  }

  void deployOne(const FunctionFolder& folder) {
    const auto begin = std::chrono::steady_clock::now();
    auto known = versions_.find(folder.name);
    if (known == versions_.end()) {
      const auto before = deployedVersion(*client_, folder.name);
      known = versions_.emplace(folder.name, before ? *before : 0).first;
    }
    const auto done = deployFolder(*client_, context_.backend, folder, known->second);
    const auto took = std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - begin);
    if (!done) {
      const std::string still =
          known->second == 0 ? "" : fmt::format("\n  version {} still serves", known->second);
      say(Tone::Bad, fmt::format("✗ {}: {}{}", folder.name, done.error().message(), still));
      return;
    }
    known->second = done->version;
    const bool is_change = done->change != Deployed::Change::None;
    say(is_change ? Tone::Good : Tone::Quiet,
        fmt::format("✓ {} version {} ({}) ready in {} ms{}", folder.name, done->version,
                    done->runtime, took.count(), is_change ? "" : ", its code as it was"));
    if (followed_.insert(folder.name).second) {
      threads_.emplace_back([this, name = folder.name] { followLogs(name); });
    }
  }

  void followLogs(const std::string& name) {
    client::Client client(url_, client::Client::Options());
    client::Request request;
    request.target =
        fmt::format("/api/v1/functions/{}/logs?follow=true&limit=1", client::encoded(name));
    const auto ended = client.follow(request, [&](const client::Event& event) {
      if (!event.type.empty()) return true;
      std::string line = logLine(event.data, context_.colour && context_.out_is_terminal);
      line.pop_back();
      say(Tone::Plain, fmt::format("{} | {}", name, line));
      return true;
    });
    static_cast<void>(ended);  // the server has ended, and with it the stream
  }

  void watch(const ChildServer& server, Watcher& watcher, const Signals& signals) {
    while (true) {
      std::array<pollfd, 3> waiting = {{{signals.descriptor(), POLLIN, 0},
                                        {server.out(), POLLIN, 0},
                                        {watcher.descriptor(), POLLIN, 0}}};
      if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
      if (waiting[0].revents != 0 && signals.take()) return;
      if (waiting[1].revents != 0) {
        died_ = true;
        say(Tone::Bad, "the server has ended");
        return;
      }
      if (waiting[2].revents == 0) continue;
      const auto changed = watcher.changes(kQuiet, kMostQuiet);
      if (!changed.empty()) deployChanged(changed);
    }
  }

  // A second Ctrl-C does not want to wait.
  static void waitForEnd(const ChildServer& server, const Signals& signals) {
    while (true) {
      std::array<pollfd, 2> waiting = {
          {{signals.descriptor(), POLLIN, 0}, {server.out(), POLLIN, 0}}};
      if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
      if (waiting[0].revents != 0 && signals.take()) server.stop();
      if (waiting[1].revents == 0) continue;
      char byte = 0;
      if (::read(server.out(), &byte, 1) <= 0) return;
    }
  }

  Context& context_;
  const fs::path directory_;
  const std::string listen_;
  client::Url url_;
  std::optional<client::Client> client_;
  std::map<std::string, std::int64_t> versions_;  // what serves, by function
  std::set<std::string> followed_;
  std::vector<std::thread> threads_;
  bool died_ = false;
  std::mutex mutex_;  // of the output: server, logs and deployments speak on threads of their own
};

Exit dev(const Arguments& arguments, Context& context) {
  const std::string given = arguments.one("DIR").value_or(".");
  std::error_code failed;
  const fs::path directory = fs::canonical(given, failed);
  if (failed || !fs::is_directory(directory, failed)) {
    context.error(fmt::format("\"{}\" is no directory", printable(given)),
                  "`nimbus new NAME` makes a function to begin with");
    return Exit::Usage;
  }
  if (functionsIn(directory).empty()) {
    context.error(fmt::format("there is no function in \"{}\"", printable(given)),
                  "`nimbus new NAME` makes one to begin with");
    return Exit::Usage;
  }
  return Dev(context, directory, arguments.one("--listen").value_or("127.0.0.1:8787")).run();
}

}  // namespace

std::vector<Command> devCommands() {
  Command command;
  command.words = "dev";
  command.summary = "Serve the functions in a folder while they are written";
  command.details =
      "Starts a server for this machine only, without keys, deploys what is in DIR and again what\n"
      "changes there, and prints what functions print and what they are asked. Sessions and state\n"
      "stay, in DIR/.nimbus, also when it ends; code that does not load leaves the version before\n"
      "it in place.";
  command.positionals = {{"DIR", "A function, or a folder of them; else this one", false}};
  command.options = {{"--listen", "Where; else 127.0.0.1:8787. Port 0 picks a free one",
                      Option::Takes::OneValue, "HOST:PORT"}};
  command.examples = {{"nimbus dev counter", ""}, {"nimbus dev --listen 127.0.0.1:0", ""}};
  command.run = dev;
  return {command};
}

}  // namespace nimbus::cli
