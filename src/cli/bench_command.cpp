#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/number.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <ostream>
#include <thread>

namespace nimbus::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  std::int64_t calls = 1000;
  std::int64_t callers = 8;
  std::int64_t sessions = 8;
  std::int64_t seconds = 30;
};

// What one caller saw.
struct Seen {
  std::vector<double> milliseconds;
  std::map<std::string, std::size_t> failures;
};

struct Run {
  const Load& load;
  const std::string& target;  // up to the key of the session, which follows it
  const std::string& body;
  Clock::time_point deadline;
  std::atomic<std::int64_t> next{0};
};

// Calls until enough were made or the time is over.
void call(client::Client client, Run& run, Seen& seen) {
  client::Request request = post("", run.body);
  while (Clock::now() < run.deadline) {
    const std::int64_t number = run.next.fetch_add(1);
    if (number >= run.load.calls) return;
    request.target = run.target;
    if (run.load.sessions > 0) {
      request.target += fmt::format("?session_key=bench-{}", number % run.load.sessions);
    }
    const auto begin = Clock::now();
    const auto answer = client.send(request);
    if (answer && answer->isOk()) {
      seen.milliseconds.push_back(
          std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    } else {
      ++seen.failures[answer ? fmt::format("status {}", answer->status) : answer.error().message()];
    }
  }
}

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(share * last + 0.5)];
}

void report(Remote& remote, Seen all, double seconds) {
  std::sort(all.milliseconds.begin(), all.milliseconds.end());
  std::size_t failed = 0;
  for (const auto& [why, count] : all.failures) failed += count;
  const double rate = static_cast<double>(all.milliseconds.size()) / seconds;
  const double p50 = quantile(all.milliseconds, 0.5);
  const double p99 = quantile(all.milliseconds, 0.99);
  const double most = quantile(all.milliseconds, 1);
  Context& context = remote.context();
  if (remote.wantsJson()) {
    context.out
        << fmt::format(
               R"({{"calls":{},"failed":{},"seconds":{:.3f},"calls_per_s":{:.1f},"p50_ms":{:.3f},)"
               R"("p99_ms":{:.3f},"max_ms":{:.3f}}})",
               all.milliseconds.size(), failed, seconds, rate, p50, p99, most)
        << '\n';
    return;
  }
  context.out << fmt::format("{} calls in {:.1f} s: {:.0f} calls/s\n", all.milliseconds.size(),
                             seconds, rate);
  context.out << fmt::format("p50 {:.2f} ms   p99 {:.2f} ms   longest {:.2f} ms\n", p50, p99, most);
  for (const auto& [why, count] : all.failures) {
    context.out << fmt::format("{} failed: {}\n", count, printable(why));
  }
}

Exit bench(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  Load load;
  const bool understood =
      readNumber(arguments, "--calls", 1, 10'000'000, load.calls, context) &&
      readNumber(arguments, "--callers", 1, 1000, load.callers, context) &&
      readNumber(arguments, "--sessions", 0, 1'000'000, load.sessions, context) &&
      readNumber(arguments, "--seconds", 1, 3600, load.seconds, context);
  if (!understood) return Exit::Usage;
  const auto payload = readJson(arguments.one("--data").value_or("{}"), "--data", context);
  if (!payload) return Exit::Usage;
  if (!remote.get(functionPath(arguments))) return Exit::Failed;

  const std::string target = functionPath(arguments, "/invoke");
  const std::string body = R"({"payload":)" + *payload + "}";
  Run run{load, target, body, Clock::now() + std::chrono::seconds(load.seconds)};
  std::vector<Seen> seen(static_cast<std::size_t>(load.callers));
  const auto begin = Clock::now();
  {
    std::vector<std::thread> callers;
    for (Seen& one : seen) {
      Exit exit = Exit::Ok;
      auto client = openClient(arguments, context, exit);
      callers.emplace_back([&run, &one, client = *std::move(client)]() mutable {
        call(std::move(client), run, one);
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  Seen all;
  for (const Seen& one : seen) {
    all.milliseconds.insert(all.milliseconds.end(), one.milliseconds.begin(),
                            one.milliseconds.end());
    for (const auto& [why, count] : one.failures) all.failures[why] += count;
  }
  const bool failed = !all.failures.empty();
  report(remote, std::move(all), seconds);
  return failed ? Exit::Failed : Exit::Ok;
}

}  // namespace

std::vector<Command> benchCommands() {
  using enum Option::Takes;
  Command command = remoteCommand(
      "bench", "Call a function many times and say how long it takes", bench,
      {{"--calls", "How many at most; 1000", OneValue, "N"},
       {"--callers", "How many at a time; 8", OneValue, "N"},
       {"--sessions", "Over how many sessions, bench-0, bench-1, …; 8. 0: none", OneValue, "N"},
       {"--seconds", "For how long at most; 30", OneValue, "N"},
       {"-d,--data", "The payload: JSON, @FILE, or -", OneValue, "JSON"}},
      DataOption::TakenForJson);
  command.positionals = {{"FUNCTION", "Its id"}};
  command.examples = {{"nimbus bench counter", ""},
                      {"nimbus bench counter --calls 10000 --callers 32 --sessions 1000", ""}};
  return {command};
}

}  // namespace nimbus::cli
