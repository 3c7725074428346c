#include "store/redis/encoding.h"
#include "store/rules.h"

#include <charconv>
#include <limits>

namespace nimbus::store::redis {
namespace {

using nimbus::redis::Value;

Error strange() {
  return {Code::Internal, "a script in Redis answered what it never does", Outcome::Unknown};
}

template <typename T>
T number(std::string_view text) {
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
template <typename T>
T number(const Value& value) {
  return value.isInteger() ? static_cast<T>(value.integer) : number<T>(value.text);
}

Timestamp time(std::string_view text) {
  return Timestamp(Millis(number<std::int64_t>(text)));
}
std::optional<Timestamp> expiry(std::string_view text) {
  if (text == "-") return std::nullopt;
  return time(text);
}

// Takes a text apart that begins with words.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  std::string_view next() {
    const std::size_t end = rest_.find(' ');
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end == rest_.npos ? rest_.size() : end + 1);
    return word;
  }
  std::string_view bytes(std::size_t count) {
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// What encode.cpp's word() made.
std::string unword(std::string_view word) {
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool escaped = word[i] == '!' && i + 1 < word.size();
    out += escaped ? static_cast<char>(word[++i] - '0') : word[i];
  }
  return out;
}

// ---- batches

// The results in the order in which the script gave them.
class ResultReader {
 public:
  explicit ResultReader(const Value& answer) : answer_(answer) {}

  OperationResult operator()(const op::Put&) { return written(); }
  OperationResult operator()(const op::Touch&) { return written(); }
  OperationResult operator()(const op::Add&) {
    const auto value = number<std::int64_t>(next());
    const auto version = number<Version>(next());
    return Added{value, version, expiry(next().text)};
  }
  OperationResult operator()(const op::Append&) { return appended(); }
  OperationResult operator()(const op::Amend&) { return appended(); }
  OperationResult operator()(const op::Acquire& o) {
    const auto epoch = number<std::uint64_t>(next());
    return LeaseGranted{Token{epoch, o.nonce}, expiry(next().text)};
  }
  OperationResult operator()(const op::Renew& o) {
    return LeaseGranted{o.token, expiry(next().text)};
  }
  OperationResult operator()(const op::Push&) { return queued(); }
  OperationResult operator()(const op::Join&) { return queued(); }
  OperationResult operator()(const op::Revive&) { return queued(); }
  OperationResult operator()(const op::Take&) {
    const auto remaining = number<std::uint64_t>(next());
    return Taken{remaining, Millis(number<std::int64_t>(next()))};
  }
  OperationResult operator()(const op::Release&) { return Done{}; }
  OperationResult operator()(const op::Defer&) { return Done{}; }
  OperationResult operator()(const op::Park&) { return Done{}; }
  OperationResult operator()(const op::DropPartition&) { return Done{}; }
  template <typename O>  // what removes
  OperationResult operator()(const O&) {
    return Removed{number<std::uint64_t>(next())};
  }

  bool complete() const { return at_ == answer_.items.size(); }

 private:
  const Value& next() {
    static const Value kNothing;
    return at_ < answer_.items.size() ? answer_.items[at_++] : kNothing;
  }
  OperationResult written() {
    const auto version = number<Version>(next());
    return RecordWritten{version, expiry(next().text)};
  }
  OperationResult appended() {
    const auto seq = number<Seq>(next());
    const auto version = number<Version>(next());
    return Appended{seq, version, number<int>(next()) != 0};
  }
  OperationResult queued() {
    const auto position = number<Seq>(next());
    return Queued{position, number<int>(next()) != 0};
  }

  const Value& answer_;
  std::size_t at_ = 1;  // behind "ok"
};

// {"no", where, index, why, ...}
Error refusal(const CommitOrder& order, const std::vector<Value>& items) {
  const std::string& why = items[3].text;
  const auto part = [&](std::size_t i) -> const std::string& {
    static const std::string kNothing;
    return 4 + i < items.size() ? items[4 + i].text : kNothing;
  };
  const auto index = static_cast<std::size_t>(items[2].integer);
  if (why == "version") return versionConflict(number<Version>(part(0)));
  if (why == "toolow") return versionTooLow(number<Version>(part(0)), number<Version>(part(1)));
  if (why == "fenced") return fenced(part(0));
  if (why == "missing") return notFound(part(0), part(1));
  if (why == "taken") return idTaken(part(0), number<Seq>(part(1)));
  if (why == "held") return leaseHeld(part(0), part(1));
  if (why == "quota") return quotaExceeded(part(0), number<std::uint64_t>(part(1)));
  if (why == "moved") return logMoved(part(0), {number<Seq>(part(1)), 0, number<Seq>(part(2))});
  if (why == "integer") return addTo("", 0).error();
  if (why == "overflow") {
    return addTo(std::to_string(std::numeric_limits<std::int64_t>::max()), 1).error();
  }
  if (why == "limiter")
    return gcra(std::get<op::Take>(order.batch.operations.at(index)), 0, {}).error();
  if (why == "rate") {
    return Error(Code::RateLimited, "too many requests")
        .with("retry_after_ms", number<std::int64_t>(part(0)))
        .with("reset_after_ms", number<std::int64_t>(part(1)));
  }
  return strange();
}

// ---- answers

Record record(std::string key, std::string_view raw) {
  Words words(raw);
  Record record;
  record.key = std::move(key);
  record.version = number<Version>(words.next());
  record.expires_at = expiry(words.next());
  record.updated_at = time(words.next());
  record.value = words.rest();
  record.size = record.value.size();
  return record;
}

Entry entry(std::string id, std::string_view raw) {
  Words words(raw);
  Entry entry;
  entry.id = std::move(id);
  entry.seq = number<Seq>(words.next());
  entry.version = number<Version>(words.next());
  const auto fingerprint = number<std::size_t>(words.next());
  const auto terms_bytes = number<std::size_t>(words.next());
  entry.fingerprint = words.bytes(fingerprint);
  std::string_view terms = words.bytes(terms_bytes);
  while (!terms.empty()) {
    const std::size_t end = terms.find('\n');
    Words term(terms.substr(0, end));
    std::string index = unword(term.next());
    entry.terms.push_back({std::move(index), unword(term.rest())});
    terms.remove_prefix(end == terms.npos ? terms.size() : end + 1);
  }
  entry.value = words.rest();
  return entry;
}

QueueItem item(std::string id, std::string_view raw) {
  Words words(raw);
  QueueItem item;
  item.id = std::move(id);
  const std::string_view part = words.next();
  item.part = part == "L"   ? QueuePart::Line
              : part == "S" ? QueuePart::Scheduled
                            : QueuePart::Parked;
  item.position = number<Seq>(words.next());
  item.due_at = time(words.next());
  item.not_before = time(words.next());
  item.attempts = number<std::uint32_t>(words.next());
  item.reason = words.bytes(number<std::size_t>(words.next()));
  item.payload = words.rest();
  return item;
}

// {more, parts of the first, parts of the second, ...}
template <typename T, typename Make>
Page<T> page(Value& answer, std::size_t parts, Make make) {
  Page<T> page;
  std::vector<Value>& items = answer.items;
  page.more = !items.empty() && items[0].integer != 0;
  for (std::size_t at = 1; at + parts <= items.size(); at += parts) {
    page.items.push_back(make(&items[at]));
  }
  return page;
}

class AnswerReader {
 public:
  explicit AnswerReader(Value& answer) : answer_(answer) {}

  Answer operator()(const query::GetRecord& q) const {
    if (!answer_.isText()) return std::optional<Record>();
    return std::optional(record(q.key, answer_.text));
  }
  Answer operator()(const query::ScanRecords& q) const {
    return page<Record>(answer_, 3, [&q](Value* parts) {
      Record found = record(std::move(parts[0].text), parts[1].text);
      if (q.values == Values::Omit) found.size = number<std::uint64_t>(parts[2]);
      return found;
    });
  }
  Answer operator()(const query::GetUsage&) const {
    return Usage{at<std::uint64_t>(0), at<std::uint64_t>(1), at<Version>(2)};
  }
  Answer operator()(const query::GetLogInfo&) const {
    return LogInfo{at<Seq>(0), at<std::uint64_t>(1), at<std::uint64_t>(2)};
  }
  Answer operator()(const query::GetEntry& q) const {
    if (!answer_.isText()) return std::optional<Entry>();
    return std::optional(entry(q.id, answer_.text));
  }
  Answer operator()(const query::ScanLog&) const {
    return page<Entry>(answer_, 2,
                       [](Value* parts) { return entry(std::move(parts[0].text), parts[1].text); });
  }
  Answer operator()(const query::ScanIndex&) const {
    return page<IndexHit>(answer_, 3, [](Value* parts) {
      Words member(parts[0].text);
      member.next();
      std::string term = unword(member.next());
      return IndexHit{std::move(term), entry(std::move(parts[1].text), parts[2].text)};
    });
  }
  Answer operator()(const query::GetLease&) const {
    Words words(answer_.text);
    const auto epoch = number<std::uint64_t>(words.next());
    if (words.rest().empty()) return std::optional<Lease>();
    Lease lease;
    lease.token = {epoch, number<std::uint64_t>(words.next())};
    lease.expires_at = expiry(words.next());
    lease.holder = words.rest();
    return std::optional(std::move(lease));
  }
  Answer operator()(const query::GetQueueInfo&) const {
    return QueueInfo{at<std::uint64_t>(0), at<std::uint64_t>(1), at<std::uint64_t>(2)};
  }
  Answer operator()(const query::GetItem& q) const {
    if (!answer_.isText()) return std::optional<QueueItem>();
    return std::optional(item(q.id, answer_.text));
  }
  Answer operator()(const query::ScanQueue&) const {
    return page<QueueItem>(
        answer_, 2, [](Value* parts) { return item(std::move(parts[0].text), parts[1].text); });
  }

 private:
  template <typename T>
  T at(std::size_t index) const {
    return index < answer_.items.size() ? number<T>(answer_.items[index]) : T{};
  }

  Value& answer_;
};

}  // namespace

Outcomes decodeOutcomes(const CommitOrder& order, const Value& answer) {
  const std::vector<Value>& items = answer.items;
  Outcomes outcomes;
  const std::string what = items.empty() ? std::string() : items[0].text;
  if (what == "ok") {
    ResultReader read(answer);
    outcomes.applied.results.reserve(order.batch.operations.size());
    for (const Operation& operation : order.batch.operations) {
      outcomes.applied.results.push_back(std::visit(read, operation));
    }
    outcomes.kind = Outcomes::Kind::Applied;
    if (read.complete()) return outcomes;
  } else if (what == "other") {
    outcomes.kind = Outcomes::Kind::Other;
    return outcomes;
  } else if (what == "no" && items.size() >= 4) {
    if (items[3].text == "again") {
      outcomes.kind = Outcomes::Kind::Again;
      return outcomes;
    }
    Error error = refusal(order, items);
    const std::string& where = items[1].text;
    if (where == "c") error = std::move(error).with("condition", items[2].integer);
    if (where == "o") error = std::move(error).with("operation", items[2].integer);
    outcomes.error = std::move(error);
    return outcomes;
  }
  outcomes.kind = Outcomes::Kind::Refused;
  outcomes.error = strange();
  return outcomes;
}

Result<std::vector<Answer>> decodeAnswers(const std::vector<Query>& queries, Value answer) {
  if (answer.items.size() != queries.size()) return strange();
  std::vector<Answer> answers;
  answers.reserve(queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i) {
    answers.push_back(std::visit(AnswerReader(answer.items[i]), queries[i]));
  }
  return answers;
}

}  // namespace nimbus::store::redis
