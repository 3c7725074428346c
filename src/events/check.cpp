#include "events/check.h"

#include "base/json_text.h"
#include "events/event.h"
#include "events/open_session.h"
#include "events/shared_state.h"
#include "events/tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace nimbus::events {
namespace {

using store::Entry;
using store::Seq;
using store::Term;

constexpr std::size_t kPage = 500;

// An event, what its indexes should say and what they do say.
struct Indexed {
  std::string id;
  std::set<Term> wanted;
  std::set<Term> kept;   // with the event
  std::set<Term> found;  // by the indexes

  bool isSound() const { return wanted == found && wanted == kept; }
};

struct Finding {
  std::vector<Issue> issues;
  std::map<Seq, Indexed> entries;  // all of them
};

Task<Result<>> readEntries(store::Store& store, const LogName& log, const AppSettings& settings,
                           Finding& finding) {
  store::query::ScanLog scan;
  scan.log = log.log();
  scan.limit = kPage;
  while (true) {
    NIMBUS_CO_TRY(const store::EntryPage page,
                  co_await store::ask<store::EntryPage>(store, log.session.partition(), scan));
    for (const Entry& entry : page.items) {
      scan.from = entry.seq + 1;
      Indexed& indexed = finding.entries[entry.seq];
      indexed.id = entry.id;
      indexed.kept.insert(entry.terms.begin(), entry.terms.end());
      if (const auto terms = termsOf(entry.value, settings.indexes)) {
        indexed.wanted.insert(terms->begin(), terms->end());
      } else {
        indexed.wanted = indexed.kept;
        finding.issues.push_back(
            {"event_unreadable", entry.id, log.track, "its text cannot be read"});
      }
    }
    if (!page.more) co_return Result<>();
  }
}

Task<Result<>> readIndex(store::Store& store, const LogName& log, std::string index,
                         Finding& finding) {
  store::query::ScanIndex scan;
  scan.log = log.log();
  scan.index = std::move(index);
  scan.last = std::string(4, '\xff');  // behind all UTF-8
  scan.limit = kPage;
  while (true) {
    NIMBUS_CO_TRY(const store::IndexPage page,
                  co_await store::ask<store::IndexPage>(store, log.session.partition(), scan));
    for (const store::IndexHit& hit : page.items) {
      scan.after = store::query::ScanIndex::Position{hit.term, hit.entry.seq};
      const auto entry = finding.entries.find(hit.entry.seq);
      if (entry != finding.entries.end()) entry->second.found.insert({scan.index, hit.term});
    }
    if (!page.more) co_return Result<>();
  }
}

void compare(const LogName& log, Finding& finding) {
  for (const auto& [seq, entry] : finding.entries) {
    for (const Term& term : entry.wanted) {
      if (entry.found.contains(term) && entry.kept.contains(term)) continue;
      finding.issues.push_back({"index_missing", entry.id, log.track,
                                fmt::format("seq {} is not found by {} \"{}\"", seq, term.index,
                                            printable(term.value))});
    }
    std::set<Term> stale = entry.found;
    stale.insert(entry.kept.begin(), entry.kept.end());
    for (const Term& term : stale) {
      if (entry.wanted.contains(term)) continue;
      finding.issues.push_back({"index_stale", entry.id, log.track,
                                fmt::format("seq {} is found by {} \"{}\", which it has not", seq,
                                            term.index, printable(term.value))});
    }
  }
}

Task<Result<Finding>> checkLog(store::Store& store, LogName log, AppSettings settings) {
  Finding finding;
  const store::query::GetLogInfo get{log.log()};
  NIMBUS_CO_TRY(const store::LogInfo before,
                co_await store::ask<store::LogInfo>(store, log.session.partition(), get));
  NIMBUS_CO_CHECK(co_await readEntries(store, log, settings, finding));
  for (const std::string_view index : kIndexes) {
    NIMBUS_CO_CHECK(co_await readIndex(store, log, std::string(index), finding));
  }
  NIMBUS_CO_CHECK(co_await readIndex(store, log, std::string(kTimeIndex), finding));
  NIMBUS_CO_TRY(const store::LogInfo after,
                co_await store::ask<store::LogInfo>(store, log.session.partition(), get));
  if (before != after) {
    co_return Error(Code::Conflict, "the session changed while it was looked at; try again");
  }
  compare(log, finding);
  if (after.entries != finding.entries.size()) {
    finding.issues.push_back({"count_wrong", "", log.track,
                              fmt::format("{} events are counted and {} are there", after.entries,
                                          finding.entries.size())});
  }
  co_return finding;
}

Task<Result<std::vector<LogName>>> logsOf(store::Store& store, SessionName name) {
  std::vector<LogName> logs;
  logs.push_back({name, ""});
  NIMBUS_CO_TRY(const std::vector<Track> tracks, co_await listTracks(store, name));
  for (const Track& track : tracks) logs.push_back({name, track.name});
  co_return logs;
}

Task<Result<bool>> isListed(store::Store& store, std::string directory, std::string key) {
  NIMBUS_CO_TRY(const store::DirectoryPage page,
                co_await store.readDirectory(std::move(directory), "", key, 1));
  co_return !page.items.empty() && page.items.front().key == key;
}

Task<Result<>> checkLists(store::Store& store, Session session, std::vector<Issue>& issues) {
  const SessionName& name = session.name;
  const std::string key = listingKey(name, session.updated_at);
  NIMBUS_CO_TRY(const bool of_app, co_await isListed(store, sessionDirectory(name.app), key));
  NIMBUS_CO_TRY(const bool of_user,
                co_await isListed(store, sessionDirectory(name.app, name.user), key));
  if (!of_app) issues.push_back({"not_listed", "", "", "it is not in the list of its app"});
  if (!of_user) issues.push_back({"not_listed", "", "", "it is not in the list of its user"});
  co_return Result<>();
}

// A term that the event itself does not know of is removed by telling it first: amending removes
// what the event knows.
Task<Result<>> repairEntry(store::Store& store, LogName log, Indexed wrong) {
  for (const bool is_last : {false, true}) {
    store::query::GetEntry get{log.log(), wrong.id};
    NIMBUS_CO_TRY(auto entry, co_await store::ask<std::optional<Entry>>(
                                  store, log.session.partition(), std::move(get)));
    if (!entry) co_return Result<>();
    std::set<Term> terms = wrong.wanted;
    if (!is_last) terms.insert(wrong.found.begin(), wrong.found.end());
    store::op::Amend amend;
    amend.log = log.log();
    amend.id = wrong.id;
    amend.value = std::move(entry->value);
    amend.terms.assign(terms.begin(), terms.end());
    amend.expected = entry->version;
    store::Batch batch;
    batch.operations.emplace_back(std::move(amend));
    auto pending = store.commit(log.session.partition(), std::nullopt, std::move(batch));
    NIMBUS_CO_CHECK(co_await pending.done());
  }
  co_return Result<>();
}

}  // namespace

std::string Issue::toJson() const {
  std::string json = R"({"type":)";
  appendJsonString(json, type);
  json += R"(,"event_id":)";
  if (event_id.empty()) {
    json += "null";
  } else {
    appendJsonString(json, event_id);
  }
  json += R"(,"track":)";
  if (track.empty()) {
    json += "null";
  } else {
    appendJsonString(json, track);
  }
  json += R"(,"message":)";
  appendJsonString(json, message);
  json += '}';
  return json;
}

Task<Result<std::vector<Issue>>> checkSession(store::Store& store, SessionName name) {
  std::vector<store::Query> queries;
  queries.emplace_back(scanIntents());
  NIMBUS_CO_TRY(const Opened opened, co_await openSession(store, name, std::move(queries)));
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, name.app));
  NIMBUS_CO_TRY(const std::vector<LogName> logs, co_await logsOf(store, name));
  std::vector<Issue> issues;
  for (const LogName& log : logs) {
    NIMBUS_CO_TRY(Finding finding, co_await checkLog(store, log, settings));
    std::move(finding.issues.begin(), finding.issues.end(), std::back_inserter(issues));
  }
  for (const store::Record& intent : opened.get<store::RecordPage>(0).items) {
    issues.push_back({"state_pending", "", "",
                      fmt::format("the change {} of shared state is pending", intent.key)});
  }
  NIMBUS_CO_CHECK(co_await checkLists(store, opened.session, issues));
  co_return issues;
}

Task<Result<std::vector<Issue>>> repairSession(store::Store& store, Turns& turns,
                                               SessionName name) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns.take(name.partition().name()));
  NIMBUS_CO_TRY(std::vector<Issue> issues, co_await checkSession(store, name));
  if (issues.empty()) co_return issues;
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, name.app));
  NIMBUS_CO_TRY(const std::vector<LogName> logs, co_await logsOf(store, name));
  for (const LogName& log : logs) {
    NIMBUS_CO_TRY(const Finding finding, co_await checkLog(store, log, settings));
    for (const auto& [seq, entry] : finding.entries) {
      if (!entry.isSound()) NIMBUS_CO_CHECK(co_await repairEntry(store, log, entry));
    }
  }
  std::vector<store::Query> queries;
  queries.emplace_back(scanIntents());
  NIMBUS_CO_TRY(const Opened opened, co_await openSession(store, name, std::move(queries)));
  NIMBUS_CO_TRY(std::vector<Intent> intents, intentsOf(opened.get<store::RecordPage>(0)));
  for (Intent& intent : intents) {
    NIMBUS_CO_CHECK(co_await carryOut(store, name, std::move(intent)));
  }
  store::Batch batch = changeOf(opened.session, settings, store.now());
  auto pending = store.commit(name.partition(), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await pending.done());
  co_return issues;
}

}  // namespace nimbus::events
