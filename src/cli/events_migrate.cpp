// nimbus events migrate --from-v1: sessions and events of V1 through the API of a server.
//
// V1 is only read. What is imported can be imported again: sessions that are there stay, and events
// keep their ids, so that a run that was interrupted is simply started once more.

#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/remote.h"
#include "cli/v1_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <utility>

namespace nimbus::cli {
namespace {

constexpr std::size_t kMostEvents = 500;          // of one append
constexpr std::size_t kMostBytes = 768UL * 1024;  // of one, where several go together
constexpr std::size_t kMostProblems = 100;

struct Found {
  V1Owner owner;
  std::string id;
  std::string key;  // of the hash
  V1Session session;
  std::string events_key;  // empty: it has none
  std::uint64_t events = 0;

  std::string path() const {
    return fmt::format("/api/v1/apps/{}/users/{}/sessions", client::encoded(owner.app),
                       client::encoded(owner.user));
  }
  std::string name() const { return fmt::format("{} \"{}\"", printable(key), printable(id)); }
};

struct Counts {
  std::uint64_t found = 0;
  std::uint64_t imported = 0;
  std::uint64_t there = 0;  // already
  std::uint64_t failed = 0;
};

struct Report {
  Counts sessions;
  Counts events;
  std::uint64_t new_ids = 0;
  std::uint64_t dropped_keys = 0;
  std::uint64_t orphans = 0;  // sets of events without a session
  std::vector<std::string> problems;

  void problem(std::string text) {
    if (problems.size() < kMostProblems) problems.push_back(std::move(text));
  }
  bool isSound() const { return sessions.failed == 0 && events.failed == 0; }
  std::string json(bool dry_run) const;
};

std::string countsJson(const Counts& counts) {
  return fmt::format(R"({{"found":{},"imported":{},"already_there":{},"failed":{}}})", counts.found,
                     counts.imported, counts.there, counts.failed);
}

std::string Report::json(bool dry_run) const {
  std::string text = fmt::format(
      R"({{"dry_run":{},"verified":{},"sessions":{},"events":{},"new_ids":{},"dropped_state_keys":{},)"
      R"("orphaned_event_sets":{},"problems":[)",
      dry_run, !dry_run && isSound(), countsJson(sessions), countsJson(events), new_ids,
      dropped_keys, orphans);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i != 0) text += ',';
    appendJsonString(text, problems[i]);
  }
  return text + "]}";
}

class Migration {
 public:
  Migration(Remote& remote, V1Source source, bool dry_run)
      : remote_(remote), source_(std::move(source)), dry_run_(dry_run) {}

  // An error ends it; what concerns one session is in the report.
  Result<> run() {
    NIMBUS_TRY(std::vector<Found> sessions, find());
    Progress progress(remote_.context(), dry_run_ ? "reading sessions" : "importing sessions",
                      sessions.size());
    for (Found& session : sessions) {
      const auto done = take(session);
      if (!done) {
        // Who does not answer now would not answer for the next.
        if (done.error().code() == Code::Unavailable) return done.error();
        ++report_.sessions.failed;
        report_.problem(fmt::format("{}: {}", session.name(), done.error().message()));
      }
      progress.step();
    }
    return {};
  }

  const Report& report() const { return report_; }

 private:
  struct Target {
    bool is_there = false;
    std::uint64_t events = 0;
  };

  Result<std::vector<Found>> find();
  Result<> countOrphans(const std::vector<Found>& sessions);
  Result<> take(Found& session);
  Result<Target> look(const Found& session);
  Result<> makeSession(const Found& session);
  Result<std::string> lastId(const Found& session);
  Result<> readEvents(const Found& session, bool send);
  Result<> send(const Found& session, std::vector<V1Event> events);
  Result<client::Answer> ask(const client::Request& request, std::initializer_list<int> statuses);

  Remote& remote_;
  V1Source source_;
  const bool dry_run_;
  Report report_;
  std::string last_id_;  // of the events that were read
};

Result<client::Answer> Migration::ask(const client::Request& request,
                                      std::initializer_list<int> statuses) {
  NIMBUS_TRY(client::Answer answer, remote_.client().send(request));
  if (answer.isOk() ||
      std::find(statuses.begin(), statuses.end(), answer.status) != statuses.end()) {
    return answer;
  }
  const auto problem = parseJson(answer.body);
  const std::string detail(problem ? problem->string("detail").value_or("") : "");
  const Code code = answer.status == 503 || answer.status == 401 || answer.status == 403
                        ? Code::Unavailable
                        : Code::InvalidArgument;
  return Error(code, fmt::format("the server answered {}: {}", answer.status, detail));
}

// All sessions, in the order of their last change: so they are listed later.
Result<std::vector<Found>> Migration::find() {
  NIMBUS_TRY(const std::vector<std::string> keys, source_.keys(kV1Sessions, "hash"));
  std::vector<Found> sessions;
  for (const std::string& key : keys) {
    const auto owner = parseV1Key(key);
    if (!owner) {
      report_.problem(fmt::format("{}: this is no key of V1's; left out", printable(key)));
      continue;
    }
    NIMBUS_TRY(const auto fields, source_.fields(key));
    for (const auto& [id, json] : fields) {
      ++report_.sessions.found;
      Found found{*owner, id, key, {}, {}, 0};
      auto session = parseV1Session(json);
      if (!session) {
        ++report_.sessions.failed;
        report_.problem(fmt::format("{}: {}", found.name(), session.error().message()));
        continue;
      }
      found.session = *std::move(session);
      sessions.push_back(std::move(found));
    }
  }
  std::stable_sort(sessions.begin(), sessions.end(), [](const Found& a, const Found& b) {
    return a.session.updated_at < b.session.updated_at;
  });
  NIMBUS_CHECK(countOrphans(sessions));
  return sessions;
}

Result<> Migration::countOrphans(const std::vector<Found>& sessions) {
  std::set<std::string> known;
  for (const Found& session : sessions) {
    for (std::string& key : v1EventKeys(session.key, session.id)) known.insert(std::move(key));
  }
  NIMBUS_TRY(const std::vector<std::string> keys, source_.keys(kV1Events, "zset"));
  for (const std::string& key : keys) {
    if (known.contains(key)) continue;
    ++report_.orphans;
    report_.problem(
        fmt::format("{}: there is no session for these events; left out", printable(key)));
  }
  return {};
}

Result<Migration::Target> Migration::look(const Found& session) {
  client::Request request;
  request.target = session.path() + "/" + client::encoded(session.id);
  NIMBUS_TRY(const client::Answer answer, ask(request, {404}));
  if (answer.status == 404) return Target();
  NIMBUS_TRY(const JsonValue shown, parseJson(answer.body));
  return Target{true, static_cast<std::uint64_t>(shown.integer("event_count").value_or(0))};
}

Result<> Migration::makeSession(const Found& session) {
  std::string body = R"({"id":)";
  appendJsonString(body, session.id);
  if (!session.session.created_at.empty()) {
    body += R"(,"created_at":)";
    appendJsonString(body, session.session.created_at);
  }
  body += R"(,"state":)" + session.session.state + "}";
  NIMBUS_CHECK(ask(post(session.path(), std::move(body)), {409}));
  return {};
}

Result<> Migration::take(Found& session) {
  report_.dropped_keys += session.session.dropped_keys;
  for (std::string& key : v1EventKeys(session.key, session.id)) {
    NIMBUS_TRY(session.events, source_.count(key));
    session.events_key = std::move(key);
    if (session.events > 0) break;
  }
  report_.events.found += session.events;
  NIMBUS_TRY(const Target before, look(session));
  const std::uint64_t failed_before = report_.events.failed;
  const bool is_complete = before.is_there && before.events >= session.events;
  if (dry_run_ || is_complete) {
    NIMBUS_CHECK(readEvents(session, false));
    if (dry_run_ || session.events == 0 || report_.events.failed != failed_before) {
      if (before.is_there) {
        ++report_.sessions.there;
        report_.events.there += std::min(before.events, session.events);
      }
      return {};
    }
    // As many events as V1 has; if its last is there too, so are all.
    client::Request request;
    request.target = fmt::format("{}/{}/events/{}", session.path(), client::encoded(session.id),
                                 client::encoded(last_id_));
    NIMBUS_TRY(const client::Answer answer, ask(request, {404}));
    if (answer.isOk()) {
      ++report_.sessions.there;
      report_.events.there += session.events;
      return {};
    }
  }
  if (!before.is_there) NIMBUS_CHECK(makeSession(session));
  NIMBUS_CHECK(readEvents(session, true));
  NIMBUS_TRY(const Target after, look(session));
  const std::uint64_t unread = report_.events.failed - failed_before;
  if (!after.is_there || after.events + unread < session.events) {
    return Error(Code::Conflict,
                 fmt::format("{} events are in V1 and {} here; does the app limit them "
                             "(max_events_per_session)?",
                             session.events, after.events));
  }
  const std::uint64_t added = after.events - std::min(before.events, after.events);
  report_.events.imported += std::min(added, session.events);
  report_.events.there += session.events - unread - std::min(added, session.events - unread);
  ++(before.is_there ? report_.sessions.there : report_.sessions.imported);
  return {};
}

// Reads all events as they would be imported, and imports them if asked to.
Result<> Migration::readEvents(const Found& session, bool send) {
  last_id_.clear();
  if (session.events == 0) return {};
  std::set<std::string> ids;
  std::vector<V1Event> waiting;
  std::size_t bytes = 0;
  const auto flush = [&]() -> Result<> {
    bytes = 0;
    if (!send || waiting.empty()) return {};
    return this->send(session, std::exchange(waiting, {}));
  };
  const auto sink = [&](std::vector<V1Member> members) -> Result<> {
    for (const V1Member& member : members) {
      auto event = convertV1Event(member, ids);
      if (!event) {
        ++report_.events.failed;
        report_.problem(fmt::format("{}: an event is no JSON object: {}", session.name(),
                                    printable(member.json.substr(0, 60))));
        continue;
      }
      report_.new_ids += event->has_new_id ? 1 : 0;
      last_id_ = event->id;
      if (!send) continue;
      if (waiting.size() == kMostEvents || bytes + event->body.size() > kMostBytes) {
        NIMBUS_CHECK(flush());
      }
      bytes += event->body.size();
      waiting.push_back(*std::move(event));
    }
    return {};
  };
  NIMBUS_CHECK(source_.members(session.events_key, sink));
  return flush();
}

Result<> Migration::send(const Found& session, std::vector<V1Event> events) {
  std::string body = "[";
  for (const V1Event& event : events) {
    if (body.size() > 1) body += ',';
    body += event.body;
  }
  body += ']';
  const std::string target =
      fmt::format("{}/{}/events", session.path(), client::encoded(session.id));
  NIMBUS_TRY(const client::Answer answer, ask(post(target, std::move(body)), {}));
  const auto answered = parseJson(answer.body);
  const auto items = answered ? answered->member("items") : std::nullopt;
  if (!items || items->elements().size() != events.size()) {
    return Error(Code::Internal, "the server did not take all events");
  }
  return {};
}

std::string countsLine(const Counts& counts, bool dry_run) {
  if (dry_run) {
    return fmt::format("{} found, {} already there, {} cannot be imported", counts.found,
                       counts.there, counts.failed);
  }
  return fmt::format("{} found, {} imported, {} already there, {} failed", counts.found,
                     counts.imported, counts.there, counts.failed);
}

void print(Remote& remote, const Report& report, bool dry_run) {
  std::ostream& out = remote.context().out;
  if (remote.wantsJson()) {
    out << report.json(dry_run) << '\n';
    return;
  }
  out << fmt::format("sessions: {}\n", countsLine(report.sessions, dry_run));
  out << fmt::format("events:   {}\n", countsLine(report.events, dry_run));
  if (report.new_ids > 0) {
    out << fmt::format("{} events have no id of their own in V1; they get v1_...\n",
                       report.new_ids);
  }
  if (report.dropped_keys > 0) {
    out << fmt::format("{} keys of states are left out (null, temp:, app: or user:)\n",
                       report.dropped_keys);
  }
  if (report.orphans > 0) {
    out << fmt::format("{} sets of events have no session; they are left out\n", report.orphans);
  }
  for (const std::string& problem : report.problems) remote.context().warning(problem);
  if (dry_run) {
    out << "nothing was changed (--dry-run)\n";
  } else if (report.isSound()) {
    out << "verified: every event of V1 is in its session; V1 was not changed\n";
  }
}

Exit migrate(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const auto from = arguments.one("--from-v1");
  if (!from) {
    context.error("say where V1 is", "nimbus events migrate --from-v1 redis://HOST:PORT/DB");
    return Exit::Usage;
  }
  const auto url = redis::parseUrl(*from);
  if (!url) {
    context.error(url.error().message());
    return Exit::Usage;
  }
  log::configure(log::Level::Error, log::Format::Auto);  // what matters is in the report
  auto source = V1Source::open(*url);
  if (!source) {
    context.error(fmt::format("V1: {}", source.error().message()), "is the address right?");
    return Exit::Failed;
  }
  const bool dry_run = arguments.has("--dry-run");
  Migration migration(remote, *std::move(source), dry_run);
  const auto done = migration.run();
  print(remote, migration.report(), dry_run);
  if (!done) {
    context.error(done.error().message(), "start it again: what is there already is kept");
    return Exit::Failed;
  }
  return migration.report().isSound() ? Exit::Ok : Exit::Failed;
}

}  // namespace

Command eventsMigrateCommand() {
  using enum Option::Takes;
  Command command = remoteCommand(
      "events migrate", "Import sessions and events of the V1 layout in Redis", migrate,
      {{"--from-v1", "The Redis that holds them; it is only read", OneValue, "URL"},
       {"--dry-run", "Read and check everything, report, and change nothing"}});
  command.details =
      "Reads hashes sess:APP:USER, sess:{APP}:USER and sess:{APP}:{USER} and the sorted sets "
      "event:... "
      "beside them. Each event becomes one of the same id, with what V1 held as its content, byte "
      "for "
      "byte. A run that was interrupted is started again; what is there already is kept.";
  command.examples = {{"nimbus events migrate --from-v1 redis://127.0.0.1:6379 --dry-run",
                       "say what would be imported"}};
  return command;
}

}  // namespace nimbus::cli
