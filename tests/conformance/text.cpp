#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

namespace nimbus::store::conformance {
namespace {

class ResultText {
 public:
  std::string operator()(const Done&) const { return "done"; }
  std::string operator()(const RecordWritten& r) const {
    return fmt::format("written version={} expires={}", r.version, text(r.expires_at));
  }
  std::string operator()(const Added& r) const {
    return fmt::format("added value={} version={} expires={}", r.value, r.version,
                       text(r.expires_at));
  }
  std::string operator()(const Removed& r) const { return fmt::format("removed {}", r.count); }
  std::string operator()(const Appended& r) const {
    return fmt::format("appended seq={} version={} repeated={}", r.seq, r.version, r.repeated);
  }
  std::string operator()(const LeaseGranted& r) const {
    return fmt::format("granted epoch={} nonce={} expires={}", r.token.epoch, r.token.nonce,
                       text(r.expires_at));
  }
  std::string operator()(const Queued& r) const {
    return fmt::format("queued position={} repeated={}", r.position, r.repeated);
  }
  std::string operator()(const Taken& r) const {
    return fmt::format("taken remaining={} reset_after={}", r.remaining, r.reset_after.count());
  }
};

class AnswerText {
 public:
  template <typename T>
  std::string operator()(const std::optional<T>& found) const {
    return found ? text(*found) : "nothing";
  }
  template <typename T>
  std::string operator()(const Page<T>& page) const {
    std::string out;
    for (const T& item : page.items) out += text(item) + "\n";
    return out + (page.more ? "more" : "end");
  }
  std::string operator()(const Usage& usage) const { return text(usage); }
  std::string operator()(const LogInfo& info) const { return text(info); }
  std::string operator()(const QueueInfo& info) const { return text(info); }
};

}  // namespace

std::string text(std::string_view bytes) {
  constexpr std::size_t kShown = 64;
  if (bytes.size() > kShown) {
    return fmt::format("<{} bytes, hash {:x}>", bytes.size(), std::hash<std::string_view>()(bytes));
  }
  std::string out = "'";
  for (const char c : bytes) {
    const bool plain = c >= ' ' && c <= '~' && c != '\'' && c != '\\';
    out += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + "'";
}

std::string text(const std::optional<Timestamp>& moment) {
  return moment ? std::to_string(moment->time_since_epoch().count()) : "never";
}

std::string text(const Record& record) {
  return fmt::format("record {} = {} size={} version={} expires={} updated={}", text(record.key),
                     text(record.value), record.size, record.version, text(record.expires_at),
                     text(record.updated_at));
}

std::string text(const Entry& entry) {
  std::string out =
      fmt::format("entry {} {} version={} = {} fingerprint={} terms=", entry.seq, text(entry.id),
                  entry.version, text(entry.value), text(entry.fingerprint));
  const std::set<Term> terms(entry.terms.begin(), entry.terms.end());
  for (const Term& term : terms) out += text(term.index) + ":" + text(term.value) + ",";
  return out;
}

std::string text(const Lease& lease) {
  return fmt::format("lease of {} epoch={} nonce={} expires={}", text(lease.holder),
                     lease.token.epoch, lease.token.nonce, text(lease.expires_at));
}

std::string text(const QueueItem& item) {
  const std::string what =
      fmt::format("{} at {} = {}", text(item.id), item.position, text(item.payload));
  switch (item.part) {
    case QueuePart::Line:
      return fmt::format("waiting {} attempts={} not_before={}", what, item.attempts,
                         text(item.not_before));
    case QueuePart::Scheduled:
      return fmt::format("scheduled {} due={}", what, text(item.due_at));
    case QueuePart::Parked:
      break;
  }
  return fmt::format("parked {} attempts={} reason={}", what, item.attempts, text(item.reason));
}

std::string text(const LogInfo& info) {
  return fmt::format("log last_seq={} entries={} revision={}", info.last_seq, info.entries,
                     info.revision);
}

std::string text(const Usage& usage) {
  return fmt::format("usage records={} bytes={} floor={}", usage.records, usage.bytes, usage.floor);
}

std::string text(const QueueInfo& info) {
  return fmt::format("queue waiting={} scheduled={} parked={}", info.waiting, info.scheduled,
                     info.parked);
}

std::string text(const IndexHit& hit) {
  return fmt::format("under {}: {}", text(hit.term), text(hit.entry));
}

std::string text(const DirectoryEntry& entry) {
  return fmt::format("listed {} = {}", text(entry.key), text(entry.value));
}

std::string text(const Answer& answer) {
  return std::visit(AnswerText(), answer);
}

std::string text(const OperationResult& result) {
  return std::visit(ResultText(), result);
}

namespace {

constexpr std::array<std::string_view, std::variant_size_v<Operation>> kOperations = {
    "Put",   "Erase",   "EraseSpace",  "Add",          "Touch",   "Append",
    "Amend", "Remove",  "RemoveRange", "RemoveTerm",   "DropLog", "Acquire",
    "Renew", "Release", "Push",        "Join",         "Defer",   "Complete",
    "Park",  "Revive",  "Take",        "DropPartition"};
constexpr std::array<std::string_view, std::variant_size_v<Condition>> kConditions = {
    "RecordVersion", "SpaceWithin", "LogEndsAt", "LogUnchanged", "QueueWithin"};

template <typename Part>
std::string versionsOf(const Part& part) {
  std::string out;
  const auto show = [&out](std::string_view name, const std::optional<Version>& version) {
    if (version) out += fmt::format(" {}={}", name, *version);
  };
  if constexpr (requires { part.expected; }) show("expected", part.expected);
  if constexpr (requires { part.version; }) show("version", part.version);
  if constexpr (requires { part.last; }) show("last", part.last);
  return out;
}

// The fields that a part has, by name.
template <typename Part>
std::string fieldsOf(const Part& part) {
  std::string out;
  const auto show = [&out](std::string_view name, const auto& value) {
    out += fmt::format(" {}={}", name, value);
  };
  if constexpr (requires { part.space; }) show("space", text(part.space));
  if constexpr (requires { part.key; }) show("key", text(part.key));
  if constexpr (requires { part.log; }) show("log", text(part.log));
  if constexpr (requires { part.lease; }) show("lease", text(part.lease));
  if constexpr (requires { part.queue; }) show("queue", text(part.queue));
  if constexpr (requires { part.limiter; }) show("limiter", text(part.limiter));
  if constexpr (requires { part.id; }) show("id", text(part.id));
  if constexpr (requires { part.holder; }) show("holder", text(part.holder));
  if constexpr (requires { part.value; }) show("value", text(part.value));
  if constexpr (requires { part.fingerprint; }) show("fingerprint", text(part.fingerprint));
  if constexpr (requires { part.terms; }) {
    for (const Term& term : part.terms) show(term.index, text(term.value));
  }
  if constexpr (requires { part.term; }) show(part.term.index, text(part.term.value));
  if constexpr (requires { part.delta; }) show("delta", part.delta);
  if constexpr (requires { part.from; }) show("from", part.from);
  if constexpr (requires { part.to; }) show("to", part.to);
  if constexpr (requires { part.cost; }) show("cost", part.cost);
  if constexpr (requires { part.token; }) show("epoch", part.token.epoch);
  if constexpr (requires { part.take_over; }) {
    if (part.take_over) show("take_over", part.take_over->epoch);
  }
  if constexpr (requires { part.ttl; }) {
    if (part.ttl) show("ttl", part.ttl->count());
  }
  if constexpr (requires { part.due_at; }) show("due_at", text(part.due_at));
  if constexpr (requires { part.expires_at; }) show("expires", text(part.expires_at));
  if constexpr (requires { part.expiry; }) {
    show(part.expiry.keep_existing ? "expires_if_new" : "expires", text(part.expiry.at));
  }
  out += versionsOf(part);
  if constexpr (requires { part.max_records; }) show("max_records", part.max_records);
  if constexpr (requires { part.max_bytes; }) show("max_bytes", part.max_bytes);
  if constexpr (requires { part.last_seq; }) show("last_seq", part.last_seq);
  if constexpr (requires { part.revision; }) show("revision", part.revision);
  if constexpr (requires { part.max_waiting; }) show("max_waiting", part.max_waiting);
  return out;
}

}  // namespace

std::string text(const Batch& batch) {
  const auto fields = [](const auto& part) { return fieldsOf(part); };
  std::string out = "commit";
  for (const Condition& condition : batch.conditions) {
    out += fmt::format("\n  if {}{}", kConditions.at(condition.index()),
                       std::visit(fields, condition));
  }
  for (const Operation& operation : batch.operations) {
    out +=
        fmt::format("\n  {}{}", kOperations.at(operation.index()), std::visit(fields, operation));
  }
  for (const Listing& listing : batch.listings) {
    out += fmt::format("\n  list {} {}", text(listing.key),
                       listing.value ? text(*listing.value) : "no more");
  }
  return out;
}

std::string text(const Error& error) {
  std::vector<Error::Field> fields = error.fields();
  std::sort(fields.begin(), fields.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::string out(codeName(error.code()));
  for (const Error::Field& field : fields) {
    const auto* number = std::get_if<std::int64_t>(&field.value);
    out += fmt::format(
        " {}={}", field.name,
        number != nullptr ? std::to_string(*number) : text(std::get<std::string>(field.value)));
  }
  return out;
}

}  // namespace nimbus::store::conformance
