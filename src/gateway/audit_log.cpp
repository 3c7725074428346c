#include "gateway/audit_log.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/time_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <utility>

namespace nimbus::gateway {
namespace {

using Kind = AuditEntry::Kind;

constexpr std::array<const char*, 2> kLogs = {"acts", "refusals"};
constexpr std::array<std::string_view, 2> kKinds = {"act", "refusal"};
constexpr std::size_t kReadAtOnce = 200;
constexpr std::size_t kMostLookedAt = 5000;
// Old entries go in such steps.
constexpr std::uint64_t kTrimEvery = 64;

std::size_t slot(Kind kind) {
  return static_cast<std::size_t>(kind);
}

store::Partition partition() {
  return {"audit", {}};
}

std::string_view outcomeOf(const AuditEntry& entry) {
  if (entry.kind == Kind::Refusal) return "refused";
  return entry.status < 400 ? "succeeded" : "failed";
}

void appendMember(std::string& text, std::string_view name, std::string_view value) {
  if (text.size() > 1) text += ',';
  appendJsonString(text, name);
  text += ':';
  if (value.empty()) {
    text += "null";
  } else {
    appendJsonString(text, value);
  }
}

void appendMember(std::string& text, std::string_view name, std::uint64_t value) {
  text += ',';
  appendJsonString(text, name);
  text += ':';
  appendNumber(text, value);
}

std::string entryText(const AuditEntry& entry, Timestamp time) {
  std::string text = "{";
  appendMember(text, "time", timeText(time));
  appendMember(text, "kind", kKinds[slot(entry.kind)]);
  appendMember(text, "principal", entry.principal_id);
  appendMember(text, "principal_name", entry.principal_name);
  appendMember(text, "action", entry.action);
  appendMember(text, "method", entry.method);
  appendMember(text, "target", entry.target);
  appendMember(text, "outcome", outcomeOf(entry));
  appendMember(text, "status", static_cast<std::uint64_t>(entry.status));
  appendMember(text, "code", entry.code);
  appendMember(text, "request_id", entry.request_id);
  appendMember(text, "remote_address", entry.remote_address);
  appendMember(text, "count", entry.count);
  text += '}';
  return text;
}

std::string shownText(Kind kind, const store::Entry& entry) {
  return fmt::format(R"({{"id":"{}-{}",{})", kKinds[slot(kind)], entry.seq,
                     std::string_view(entry.value).substr(1));
}

bool isAsked(const std::optional<std::string>& asked, std::optional<std::string_view> value) {
  return !asked || (value && *value == *asked);
}

// Where a list goes on: the seqs before which, of each log.
std::string cursorText(store::Seq acts, store::Seq refusals) {
  return fmt::format("{}.{}", acts, refusals);
}

std::optional<std::array<store::Seq, 2>> parseCursor(std::string_view text) {
  std::array<store::Seq, 2> seqs{};
  const char* const end = text.data() + text.size();
  const auto [dot, failed] = std::from_chars(text.data(), end, seqs[0]);
  if (failed != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [stop, failed_too] = std::from_chars(dot + 1, end, seqs[1]);
  if (failed_too != std::errc() || stop != end) return std::nullopt;
  return seqs;
}

}  // namespace

// One of the two logs, read from its end.
struct AuditLog::Side {
  Kind kind;
  store::Seq before = UINT64_MAX;       // what has not been handed out is before this
  store::Seq read_before = UINT64_MAX;  // and not in memory before this
  bool is_read = false;                 // to its beginning
  std::deque<store::Entry> entries;

  bool isDone() const { return is_read && entries.empty(); }
  std::string_view time() const {
    // The first member of every entry: {"time":"2026-01-31T09:08:07.006Z",
    return std::string_view(entries.front().value).substr(9, 24);
  }
  store::Entry take() {
    store::Entry entry = std::move(entries.front());
    entries.pop_front();
    before = entry.seq;
    return entry;
  }
};

void AuditLog::addTo(Metrics& metrics) {
  const auto written = metrics.counters("nimbus_audit_entries_total",
                                        "Entries written to the audit log.", {{"kind"}});
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    written_[i] = written.with({std::string(kKinds[i])});
  }
  lost_ = metrics.counter("nimbus_audit_lost_total",
                          "Entries of the audit log that could not be written.");
}

Task<> AuditLog::append(std::vector<AuditEntry> entries) {
  if (entries.empty()) co_return;
  const std::size_t log = slot(entries.front().kind);
  const store::Seq last = last_seq_[log].load();
  store::Batch batch;
  const bool trims = last > options_.max_entries && last % kTrimEvery < entries.size();
  if (trims) {
    batch.operations.emplace_back(
        store::op::RemoveRange{kLogs[log], 1, last - options_.max_entries});
  }
  const Timestamp now = store_.now();
  for (const AuditEntry& entry : entries) {
    std::string id = entry.request_id.empty() ? random_.base36(16) : entry.request_id;
    batch.operations.emplace_back(
        store::op::Append{kLogs[log], std::move(id), entryText(entry, now), {}, ""});
  }
  store::PendingCommit commit = store_.commit(partition(), std::nullopt, std::move(batch));
  const auto done = co_await commit.done();
  if (!done) {
    lose(entries, done.error());
    co_return;
  }
  last_seq_[log].store(std::get<store::Appended>(done->results.back()).seq);
  if (written_[log]) written_[log]->increment(static_cast<double>(entries.size()));
}

void AuditLog::lose(const std::vector<AuditEntry>& entries, const Error& error) {
  if (lost_) lost_->increment(static_cast<double>(entries.size()));
  for (const AuditEntry& entry : entries) {
    if (entry.kind == Kind::Refusal) continue;  // what strangers can do must not fill the log
    log::error("an act could not be recorded in the audit log", {{"principal", entry.principal_id},
                                                                 {"action", entry.action},
                                                                 {"target", entry.target},
                                                                 {"status", entry.status},
                                                                 {"request_id", entry.request_id},
                                                                 {"reason", error.message()}});
  }
}

Task<Result<>> AuditLog::fill(Side& side) {
  if (!side.entries.empty() || side.is_read) co_return Result<>();
  if (side.read_before <= 1) {
    side.is_read = true;
    co_return Result<>();
  }
  store::query::ScanLog scan;
  scan.log = kLogs[slot(side.kind)];
  scan.to = side.read_before - 1;
  scan.order = store::Order::Descending;
  scan.limit = kReadAtOnce;
  NIMBUS_CO_TRY(auto page,
                co_await store::ask<store::EntryPage>(store_, partition(), std::move(scan)));
  side.is_read = !page.more;
  if (!page.items.empty()) side.read_before = page.items.back().seq;
  std::move(page.items.begin(), page.items.end(), std::back_inserter(side.entries));
  co_return Result<>();
}

Task<Result<AuditLog::Page>> AuditLog::list(Filter filter, std::string cursor, std::size_t limit) {
  std::array<Side, 2> sides = {Side{Kind::Act, UINT64_MAX, UINT64_MAX, false, {}},
                               Side{Kind::Refusal, UINT64_MAX, UINT64_MAX, false, {}}};
  if (!cursor.empty()) {
    const auto seqs = parseCursor(cursor);
    if (!seqs) {
      co_return Error(Code::InvalidArgument, "this cursor is none that a list has answered with")
          .with("parameter", "cursor");
    }
    for (std::size_t i = 0; i < 2; ++i) sides[i].before = sides[i].read_before = (*seqs)[i];
  }
  const std::string since = filter.since ? timeText(*filter.since) : "";
  const std::string until = filter.until ? timeText(*filter.until) : "";
  Page page;
  for (std::size_t looked_at = 0;; ++looked_at) {
    NIMBUS_CO_CHECK(co_await fill(sides[0]));
    NIMBUS_CO_CHECK(co_await fill(sides[1]));
    if (sides[0].isDone() && sides[1].isDone()) co_return page;
    if (page.items.size() == limit || looked_at == kMostLookedAt) {
      page.next = cursorText(sides[0].before, sides[1].before);
      co_return page;
    }
    const bool is_act =
        sides[1].isDone() || (!sides[0].isDone() && sides[0].time() >= sides[1].time());
    Side& side = is_act ? sides[0] : sides[1];
    const std::string time(side.time());
    if (time < since) co_return page;  // all that follow are older
    const store::Entry entry = side.take();
    if (!until.empty() && time >= until) continue;
    NIMBUS_CO_TRY(const JsonValue value, parseJson(entry.value));
    if (isAsked(filter.kind, value.string("kind")) &&
        isAsked(filter.principal, value.string("principal")) &&
        isAsked(filter.action, value.string("action")) &&
        isAsked(filter.target, value.string("target")) &&
        isAsked(filter.outcome, value.string("outcome"))) {
      page.items.push_back(shownText(side.kind, entry));
    }
  }
}

}  // namespace nimbus::gateway
