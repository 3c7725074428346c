#include "text.h"

#include <fmt/format.h>

#include <algorithm>
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
  return fmt::format("usage records={} bytes={}", usage.records, usage.bytes);
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
