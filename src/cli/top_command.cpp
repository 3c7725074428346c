#include "cli/commands.h"
#include "cli/exposition.h"
#include "cli/listing.h"
#include "cli/remote.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <thread>

namespace nimbus::cli {
namespace {

struct Figures {
  double calls = 0;
  double failed = 0;
  double running = 0;
  double waiting = 0;
  double sessions = 0;
  double instances = 0;
  double bytes = 0;
};

using Snapshot = std::map<std::string, Figures>;  // by function

Snapshot snapshotOf(std::string_view text) {
  Snapshot snapshot;
  for (const Sample& sample : readExposition(text)) {
    const auto function = sample.labels.find("function_id");
    if (function == sample.labels.end()) continue;
    Figures& figures = snapshot[function->second];
    if (sample.name == "nimbus_invocations_total") {
      figures.calls += sample.value;
      const auto outcome = sample.labels.find("outcome");
      if (outcome != sample.labels.end() && outcome->second != "ok") figures.failed += sample.value;
    }
    if (sample.name == "nimbus_invocations_running") figures.running = sample.value;
    if (sample.name == "nimbus_queue_waiting") figures.waiting = sample.value;
    if (sample.name == "nimbus_session_count") figures.sessions = sample.value;
    if (sample.name == "nimbus_instances") figures.instances = sample.value;
    if (sample.name == "nimbus_state_storage_bytes") figures.bytes = sample.value;
  }
  return snapshot;
}

std::string whole(double number) {
  return fmt::format("{:.0f}", number);
}

// `seconds` 0: there is nothing to compare with.
Table tableOf(const Snapshot& now, const Snapshot& before, double seconds) {
  using enum Table::Align;
  Table table({{"FUNCTION"},
               {"CALLS/S", Right},
               {"CALLS", Right},
               {"FAILED", Right},
               {"RUNNING", Right},
               {"WAITING", Right},
               {"SESSIONS", Right},
               {"INSTANCES", Right},
               {"STATE", Right}});
  for (const auto& [function, figures] : now) {
    std::string rate = "-";
    if (const auto earlier = before.find(function); earlier != before.end() && seconds > 0) {
      rate = fmt::format("{:.1f}", std::max(0.0, figures.calls - earlier->second.calls) / seconds);
    }
    table.add({function, rate, whole(figures.calls), whole(figures.failed), whole(figures.running),
               whole(figures.waiting), whole(figures.sessions), whole(figures.instances),
               bytesText(figures.bytes)});
  }
  return table;
}

std::string jsonOf(const Snapshot& snapshot) {
  std::string text = R"({"items":[)";
  for (const auto& [function, figures] : snapshot) {
    if (!text.ends_with('[')) text += ',';
    text += fmt::format(
        R"({{"function_id":"{}","calls":{:.0f},"failed":{:.0f},"running":{:.0f},"waiting":{:.0f},)"
        R"("sessions":{:.0f},"instances":{:.0f},"state_bytes":{:.0f}}})",
        function, figures.calls, figures.failed, figures.running, figures.waiting, figures.sessions,
        figures.instances, figures.bytes);
  }
  return text + "]}";
}

Exit top(Remote& remote, const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPause = std::chrono::seconds(1);
  Context& context = remote.context();
  const bool once = arguments.has("--once") || remote.wantsJson() || !context.out_is_terminal;
  Snapshot before;
  Clock::time_point before_at;
  while (true) {
    const auto answer = remote.get("/metrics");
    if (!answer) return Exit::Failed;
    const auto now_at = Clock::now();
    const Snapshot now = snapshotOf(answer->body);
    const double seconds = std::chrono::duration<double>(now_at - before_at).count();
    if (remote.wantsJson()) {
      context.out << jsonOf(now) << '\n';
      return Exit::Ok;
    }
    if (!once) context.out << "\x1b[H\x1b[2J";
    if (now.empty()) {
      context.out << "nothing is deployed yet\n";
    } else {
      context.out << tableOf(now, before, before.empty() ? 0 : seconds).text(context.columns);
    }
    if (once) return Exit::Ok;
    context.out << fmt::format("\n{}  Ctrl-C ends it\n", remote.client().url().text())
                << std::flush;
    if (!context.out) return Exit::Failed;
    before = now;
    before_at = now_at;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::vector<Command> topCommands() {
  Command command = remoteCommand("top", "Watch functions: calls, lines, sessions, instances", top,
                                  {{"--once", "Print the figures once and end"}});
  command.examples = {{"nimbus top", ""}, {"nimbus top --once -o json", ""}};
  return {command};
}

}  // namespace nimbus::cli
