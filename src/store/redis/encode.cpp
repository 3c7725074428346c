#include "base/assert.h"
#include "store/redis/encoding.h"
#include "store/redis/layout.h"
#include "store/redis/scripts.h"

#include <algorithm>
#include <deque>
#include <map>

namespace nimbus::store::redis {
namespace {

using nimbus::redis::Arguments;
using nimbus::redis::Command;
using nimbus::redis::Script;

std::string text(std::uint64_t number) {
  return std::to_string(number);
}
std::string text(const Token& token) {
  return text(token.epoch) + ' ' + text(token.nonce);
}
std::string text(const std::optional<Version>& version) {
  return version ? text(*version) : std::string();
}
std::string text(const std::optional<Timestamp>& time) {
  return time ? timeText(*time) : std::string();
}
std::string text(const std::optional<Millis>& time) {
  return time ? std::to_string(time->count()) : std::string();
}

// So that the order of encoded words is that of their bytes, and ' ' stands before all of them: a
// list "index term seq" can then be searched and read.
std::string word(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char byte : bytes) {
    if (static_cast<unsigned char>(byte) <= '!') {
      out += '!';
      out += static_cast<char>(byte + '0');
    } else {
      out += byte;
    }
  }
  return out;
}
std::string termText(const Term& term) {
  return word(term.index) + ' ' + word(term.value);
}
std::string termsText(const std::vector<Term>& terms) {
  std::string out;
  for (const Term& term : terms) {
    if (!out.empty()) out += '\n';
    out += termText(term);
  }
  return out;
}

std::string padded(Seq seq) {
  const std::string digits = text(seq);
  return std::string(20 - digits.size(), '0') + digits;
}

// The spaces, logs and queues that a script is given the keys of, in the order of their mention.
class Containers {
 public:
  explicit Containers(std::string_view partition) : partition_(partition) {}

  std::int64_t number(Kind kind, std::string_view name) { return add(kind, encodePart(name)); }
  std::int64_t add(Kind kind, std::string name) {
    const auto [place, fresh] = numbers_.try_emplace(
        {kind, std::move(name)}, static_cast<std::int64_t>(numbers_.size()) + 1);
    if (fresh) order_.push_back(&place->first);
    return place->second;
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> keys = {metaKey(partition_), limitersKey(partition_)};
    for (const auto* container : order_) {
      for (std::string& key : keysOf(container->first, container->second, partition_)) {
        keys.push_back(std::move(key));
      }
    }
    return keys;
  }
  void describe(Arguments& arguments) const {
    arguments.add(static_cast<std::int64_t>(order_.size()));
    for (const auto* container : order_) {
      arguments.add(
          std::string_view(reinterpret_cast<const char*>(&container->first), 1));  // NOLINT
      arguments.add(container->second);
    }
  }

 private:
  std::string partition_;
  std::map<std::pair<Kind, std::string>, std::int64_t> numbers_;
  std::vector<const std::pair<Kind, std::string>*> order_;
};

// ARGV: now, containers, what `rest` has. KEYS: those of the containers, and `more`.
Encoded encoded(const Script& script, const ScriptTime& now, const Containers& containers,
                const std::vector<std::string>& more, const Arguments& rest) {
  const std::vector<std::string> keys = containers.keys();
  Command command("EVALSHA");
  command.add(script.sha1()).add(static_cast<std::int64_t>(keys.size() + more.size()));
  for (const std::string& key : keys) command.add(key);
  for (const std::string& key : more) command.add(key);
  command.add(now);
  Arguments head;
  containers.describe(head);
  command.add(head).add(rest);
  return {&script, command.bytes()};
}

class BatchEncoder {
 public:
  BatchEncoder(Containers& containers, Arguments& out) : containers_(containers), out_(out) {}

  void operator()(const require::RecordVersion& c) const {
    condition("V", Kind::Space, c.space, c.key, text(c.version));
  }
  void operator()(const require::SpaceWithin& c) const {
    condition("W", Kind::Space, c.space, text(c.max_records), text(c.max_bytes));
  }
  void operator()(const require::LogEndsAt& c) const {
    condition("E", Kind::Log, c.log, text(c.last_seq), "");
  }
  void operator()(const require::LogUnchanged& c) const {
    condition("U", Kind::Log, c.log, text(c.revision), "");
  }
  void operator()(const require::QueueWithin& c) const {
    condition("Q", Kind::Queue, c.queue, text(c.max_waiting), "");
  }

  void operator()(const op::Put& o) const {
    begin("p", Kind::Space, o.space, o.key);
    add(o.value, text(o.expiry.at), o.expiry.keep_existing ? "1" : "0", text(o.expected),
        text(o.version));
  }
  void operator()(const op::Erase& o) const {
    begin("e", Kind::Space, o.space, o.key);
    add(text(o.expected), text(o.last));
  }
  void operator()(const op::EraseSpace& o) const {
    add("x");
    out_.add(containers_.number(Kind::Space, o.space));
    add(text(o.last));
  }
  void operator()(const op::Add& o) const {
    begin("a", Kind::Space, o.space, o.key);
    add(std::to_string(o.delta), text(o.expiry.at), o.expiry.keep_existing ? "1" : "0",
        text(o.expected));
  }
  void operator()(const op::Touch& o) const {
    begin("t", Kind::Space, o.space, o.key);
    add(text(o.expires_at), text(o.expected), text(o.version));
  }
  void operator()(const op::Append& o) const {
    begin("A", Kind::Log, o.log, o.id);
    add(o.value, o.fingerprint, termsText(o.terms));
  }
  void operator()(const op::Amend& o) const {
    begin("M", Kind::Log, o.log, o.id);
    add(o.value, termsText(o.terms), text(o.expected));
  }
  void operator()(const op::Remove& o) const {
    begin("R", Kind::Log, o.log, o.id);
    add(text(o.expected));
  }
  void operator()(const op::RemoveRange& o) const {
    begin("G", Kind::Log, o.log, text(o.from));
    add(text(o.to));
  }
  void operator()(const op::RemoveTerm& o) const { begin("T", Kind::Log, o.log, termText(o.term)); }
  void operator()(const op::DropLog& o) const {
    add("L");
    out_.add(containers_.number(Kind::Log, o.log));
  }
  void operator()(const op::Acquire& o) const {
    add("q", o.lease, o.holder, text(o.nonce), text(o.ttl),
        o.take_over ? text(*o.take_over) : std::string());
  }
  void operator()(const op::Renew& o) const { add("n", o.lease, text(o.token), text(o.ttl)); }
  void operator()(const op::Release& o) const { add("r", o.lease, text(o.token)); }
  void operator()(const op::Push& o) const {
    begin("P", Kind::Queue, o.queue, o.id);
    add(o.payload, text(o.due_at));
  }
  void operator()(const op::Join& o) const { begin("J", Kind::Queue, o.queue, o.id); }
  void operator()(const op::Defer& o) const {
    begin("F", Kind::Queue, o.queue, o.id);
    add(timeText(o.not_before));
  }
  void operator()(const op::Complete& o) const { begin("C", Kind::Queue, o.queue, o.id); }
  void operator()(const op::Park& o) const {
    begin("K", Kind::Queue, o.queue, o.id);
    add(o.reason);
  }
  void operator()(const op::Revive& o) const { begin("V", Kind::Queue, o.queue, o.id); }
  void operator()(const op::Take& o) const {
    add("k", o.limiter, std::to_string(o.interval.count()), text(o.burst), text(o.cost));
  }
  void operator()(const op::DropPartition&) const { add("D"); }

 private:
  template <typename... Texts>
  void add(const Texts&... texts) const {
    (out_.add(std::string_view(texts)), ...);
  }
  void begin(std::string_view what, Kind kind, const std::string& container,
             std::string_view id) const {
    out_.add(what);
    out_.add(containers_.number(kind, container));
    out_.add(id);
  }
  void condition(std::string_view what, Kind kind, const std::string& container,
                 std::string_view first, std::string_view second) const {
    begin(what, kind, container, first);
    out_.add(second);
  }

  Containers& containers_;
  Arguments& out_;
};

// The keys of a batch of Puts, and under which number each space is among them.
class PutKeys {
 public:
  struct Space {
    std::int64_t hash = 0;  // its number
    std::string_view name;  // encoded
  };

  explicit PutKeys(std::string_view partition) : partition_(partition) { add(metaKey(partition)); }

  Space written(const std::string& space) {
    if (const Known* known = find(space)) return {known->hash, known->name};
    const Known& known = known_.emplace_back(Known{space, encodePart(space), count_ + 1});
    for (const std::string& key : keysOf(Kind::Space, known.name, partition_)) add(key);
    return {known.hash, known.name};
  }
  // After all that are written.
  std::int64_t read(const std::string& space) {
    if (const Known* known = find(space)) return known->hash;
    const Known& known = known_.emplace_back(Known{space, encodePart(space), count_ + 1});
    add(keysOf(Kind::Space, known.name, partition_).front());
    return known.hash;
  }
  void add(std::string_view key) {
    arguments_.add(key);
    ++count_;
  }

  std::int64_t count() const { return count_; }
  const Arguments& arguments() const { return arguments_; }

 private:
  struct Known {
    std::string_view space;
    std::string name;
    std::int64_t hash = 0;
  };
  const Known* find(std::string_view space) const {
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const Known& known) { return known.space == space; });
    return found != known_.end() ? &*found : nullptr;
  }

  const std::string_view partition_;
  std::deque<Known> known_;  // few, and their names stay where they are
  Arguments arguments_;
  std::int64_t count_ = 0;
};

void addFence(Arguments& out, const std::optional<Fence>& fence) {
  out.add(fence ? std::string_view(fence->lease) : std::string_view());
  out.add(fence ? text(fence->token) : std::string());
}

void addPut(Arguments& out, const PutKeys::Space& space, const op::Put& put) {
  out.add(space.hash);
  out.add(space.name);
  out.add(put.key);
  out.add(put.value);
  out.add(text(put.expiry.at));
  out.add(text(put.expected));
  out.add(text(put.version));
}

bool isPlainPut(const Operation& operation) {
  const auto* put = std::get_if<op::Put>(&operation);
  return put != nullptr && !put->expiry.keep_existing;
}

// A condition of a batch of Appends: kind, hash or log, key, what it must be.
class AppendCondition {
 public:
  AppendCondition(PutKeys& keys, Arguments& out) : keys_(keys), out_(out) {}

  void operator()(const require::RecordVersion& c) const {
    out_.add("V");
    out_.add(keys_.read(c.space));
    out_.add(c.key);
    out_.add(text(c.version));
  }
  void operator()(const require::LogEndsAt& c) const { add("E", c.log, c.last_seq); }
  void operator()(const require::LogUnchanged& c) const { add("U", c.log, c.revision); }
  template <typename Other>
  void operator()(const Other& /*c*/) const {
    NIMBUS_ASSERT(false, "isAppends() refuses all others");
  }

 private:
  void add(std::string_view kind, const std::string& log, std::uint64_t number) const {
    out_.add(kind);
    out_.add(encodePart(log));
    out_.add("");
    out_.add(text(number));
  }

  PutKeys& keys_;
  Arguments& out_;
};

class QueryEncoder {
 public:
  QueryEncoder(Containers& containers, Arguments& out) : containers_(containers), out_(out) {}

  void operator()(const query::GetRecord& q) const { begin("g", Kind::Space, q.space, q.key); }
  void operator()(const query::ScanRecords& q) const {
    const LexRange range = lexRange(q.after, q.prefix);
    begin("s", Kind::Space, q.space, range.from);
    add(range.to, text(q.limit), q.values == Values::Omit ? "1" : "0");
  }
  void operator()(const query::GetUsage& q) const { begin("u", Kind::Space, q.space); }
  void operator()(const query::GetLogInfo& q) const { begin("i", Kind::Log, q.log); }
  void operator()(const query::GetEntry& q) const { begin("e", Kind::Log, q.log, q.id); }
  void operator()(const query::ScanLog& q) const {
    begin("l", Kind::Log, q.log, text(q.from));
    add(text(q.to), q.order == Order::Descending ? "1" : "0", text(q.limit));
  }
  void operator()(const query::ScanIndex& q) const {
    const std::string index = word(q.index) + ' ';
    std::string from = '[' + index + word(q.first) + ' ';
    std::string to = '(' + index + word(q.last) + '!';
    if (q.after) {
      const std::string behind = '(' + index + word(q.after->term) + ' ' + padded(q.after->seq);
      std::string& bound = q.order == Order::Ascending ? from : to;
      const int order = behind.compare(1, std::string::npos, bound, 1);
      if (q.order == Order::Ascending ? order >= 0 : order < 0) bound = behind;
    }
    begin("x", Kind::Log, q.log, from);
    add(to, q.order == Order::Descending ? "1" : "0", text(q.limit));
  }
  void operator()(const query::GetLease& q) const { add("h", "0", q.lease); }
  void operator()(const query::GetQueueInfo& q) const { begin("n", Kind::Queue, q.queue); }
  void operator()(const query::GetItem& q) const { begin("m", Kind::Queue, q.queue, q.id); }
  void operator()(const query::ScanQueue& q) const {
    const char* part = q.part == QueuePart::Line ? "L" : q.part == QueuePart::Parked ? "P" : "S";
    begin("k", Kind::Queue, q.queue, part);
    add(q.after ? timeText(q.after->due_at) : std::string(),
        q.after ? text(q.after->position) : std::string(), text(q.limit));
  }

 private:
  template <typename... Texts>
  void add(const Texts&... texts) const {
    (out_.add(std::string_view(texts)), ...);
  }
  template <typename... Texts>
  void begin(std::string_view what, Kind kind, const std::string& container,
             const Texts&... texts) const {
    out_.add(what);
    out_.add(containers_.number(kind, container));
    add(texts...);
  }

  Containers& containers_;
  Arguments& out_;
};

}  // namespace

std::string timeText(Timestamp time) {
  return std::to_string(time.time_since_epoch().count());
}

LexRange lexRange(std::string_view after, std::string_view prefix) {
  LexRange range;
  range.from =
      after >= prefix && !after.empty() ? "(" + std::string(after) : "[" + std::string(prefix);
  std::string behind(prefix);
  while (!behind.empty() && behind.back() == '\xff') behind.pop_back();
  if (behind.empty()) {
    range.to = "+";
  } else {
    ++behind.back();
    range.to = "(" + behind;
  }
  return range;
}

bool isPuts(const Batch& batch) {
  if (batch.operations.empty() || !batch.listings.empty()) return false;
  const auto version = [](const Condition& condition) {
    return std::holds_alternative<require::RecordVersion>(condition);
  };
  return std::all_of(batch.operations.begin(), batch.operations.end(), isPlainPut) &&
         std::all_of(batch.conditions.begin(), batch.conditions.end(), version);
}

Encoded encodePuts(const CommitOrder& order, const ScriptTime& now, Topology topology) {
  const std::string& partition = order.partition.name();
  PutKeys keys(partition);
  // First those that are put to: of these all keys are needed.
  std::vector<PutKeys::Space> spaces;
  spaces.reserve(order.batch.operations.size());
  for (const Operation& operation : order.batch.operations) {
    spaces.push_back(keys.written(std::get<op::Put>(operation).space));
  }
  Arguments rest;
  rest.add(now);
  addFence(rest, order.fence);
  rest.add(static_cast<std::int64_t>(order.batch.conditions.size()));
  for (const Condition& condition : order.batch.conditions) {
    const auto& c = std::get<require::RecordVersion>(condition);
    rest.add(keys.read(c.space));
    rest.add(c.key);
    rest.add(text(c.version));
  }
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    addPut(rest, spaces[i], std::get<op::Put>(order.batch.operations[i]));
  }
  if (topology == Topology::Cluster) keys.add(missingKey(partition));
  const Script& script = putScript();
  Command command("EVALSHA");
  command.add(script.sha1()).add(keys.count()).add(keys.arguments()).add(rest);
  return {&script, command.bytes()};
}

bool isAppends(const Batch& batch) {
  const auto first = std::find_if_not(batch.operations.begin(), batch.operations.end(), isPlainPut);
  const auto* append = first != batch.operations.end() ? std::get_if<op::Append>(&*first) : nullptr;
  if (append == nullptr) return false;
  const auto same_log = [&](const Operation& operation) {
    const auto* other = std::get_if<op::Append>(&operation);
    return other != nullptr && other->log == append->log;
  };
  const auto known = [](const Condition& condition) {
    return std::holds_alternative<require::RecordVersion>(condition) ||
           std::holds_alternative<require::LogEndsAt>(condition) ||
           std::holds_alternative<require::LogUnchanged>(condition);
  };
  return std::all_of(first, batch.operations.end(), same_log) &&
         std::all_of(batch.conditions.begin(), batch.conditions.end(), known);
}

Encoded encodeAppends(const CommitOrder& order, const ScriptTime& now, Topology topology) {
  const std::string& partition = order.partition.name();
  const Batch& batch = order.batch;
  PutKeys keys(partition);
  std::vector<PutKeys::Space> spaces;
  for (const Operation& operation : batch.operations) {
    const auto* put = std::get_if<op::Put>(&operation);
    if (put == nullptr) break;
    spaces.push_back(keys.written(put->space));
  }
  Arguments rest;
  rest.add(now);
  addFence(rest, order.fence);
  rest.add(static_cast<std::int64_t>(batch.conditions.size()));
  const AppendCondition encode(keys, rest);
  for (const Condition& condition : batch.conditions) std::visit(encode, condition);
  rest.add(static_cast<std::int64_t>(spaces.size()));
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    addPut(rest, spaces[i], std::get<op::Put>(batch.operations[i]));
  }
  const std::string log = encodePart(std::get<op::Append>(batch.operations[spaces.size()]).log);
  rest.add(keys.count() + 1);
  for (const std::string& key : keysOf(Kind::Log, log, partition)) keys.add(key);
  rest.add(log);
  rest.add(static_cast<std::int64_t>(batch.operations.size() - spaces.size()));
  for (std::size_t i = spaces.size(); i < batch.operations.size(); ++i) {
    const auto& append = std::get<op::Append>(batch.operations[i]);
    rest.add(append.id);
    rest.add(append.value);
    rest.add(append.fingerprint);
    rest.add(termsText(append.terms));
  }
  if (topology == Topology::Cluster) {
    keys.add(missingKey(partition));
  } else {
    std::map<std::string_view, std::int64_t> directories;
    for (const Listing& listing : batch.listings) {
      const auto [at, is_new] = directories.try_emplace(listing.directory, keys.count() + 1);
      if (is_new) {
        const DirectoryKeys of_directory = directoryKeys(listing.directory);
        keys.add(of_directory.values);
        keys.add(of_directory.keys);
      }
      rest.add(at->second);
      rest.add(listing.key);
      rest.add(listing.value ? "1" : "0");
      rest.add(listing.value ? std::string_view(*listing.value) : std::string_view());
    }
  }
  const Script& script = appendScript();
  Command command("EVALSHA");
  command.add(script.sha1()).add(keys.count()).add(keys.arguments()).add(rest);
  return {&script, command.bytes()};
}

std::vector<Container> containersOf(const nimbus::redis::Value& fields) {
  const std::map<std::string, char, std::less<>> kinds = {
      {"bytes", 's'}, {"floor", 's'}, {"seq", 'l'}, {"rev", 'l'}, {"last", 'q'}};
  std::vector<Container> found;
  for (const auto& field : fields.items) {
    const std::size_t colon = field.text.find(':');
    const auto kind = kinds.find(std::string_view(field.text).substr(0, colon));
    if (colon == std::string::npos || kind == kinds.end()) continue;
    found.push_back({kind->second, field.text.substr(colon + 1)});
  }
  return found;
}

Encoded encodeBatch(const CommitOrder& order, const ScriptTime& now, Topology topology,
                    const std::vector<Container>& present) {
  Containers containers(order.partition.name());
  for (const Container& container : present) {
    containers.add(static_cast<Kind>(container.kind), container.name);
  }
  Arguments rest;
  addFence(rest, order.fence);
  const BatchEncoder encode(containers, rest);
  const Batch& batch = order.batch;
  rest.add(static_cast<std::int64_t>(batch.conditions.size()));
  for (const Condition& condition : batch.conditions) std::visit(encode, condition);
  rest.add(static_cast<std::int64_t>(batch.operations.size()));
  for (const Operation& operation : batch.operations) std::visit(encode, operation);
  std::vector<std::string> more_keys;
  const bool apart = topology == Topology::Cluster;
  if (apart) more_keys.push_back(missingKey(order.partition.name()));
  rest.add(static_cast<std::int64_t>(apart ? 0 : batch.listings.size()));
  const std::size_t own_keys = containers.keys().size();
  for (const Listing& listing : batch.listings) {
    if (apart) break;
    DirectoryKeys keys = directoryKeys(listing.directory);
    rest.add(static_cast<std::int64_t>(own_keys + more_keys.size() + 1));
    more_keys.push_back(std::move(keys.values));
    more_keys.push_back(std::move(keys.keys));
    rest.add(listing.key);
    rest.add(listing.value ? "1" : "0");
    rest.add(listing.value ? std::string_view(*listing.value) : std::string_view());
  }
  return encoded(commitScript(), now, containers, more_keys, rest);
}

Encoded encodeListing(const Listing& listing) {
  const Script& script = listScript();
  const DirectoryKeys keys = directoryKeys(listing.directory);
  Command command("EVALSHA");
  command.add(script.sha1()).add("2").add(keys.values).add(keys.keys);
  command.add(listing.value ? "1" : "0").add(listing.key);
  command.add(listing.value ? std::string_view(*listing.value) : std::string_view());
  return {&script, command.bytes()};
}

Encoded encodeQueries(const Partition& partition, const std::vector<Query>& queries,
                      const ScriptTime& now) {
  Containers containers(partition.name());
  Arguments rest;
  rest.add(static_cast<std::int64_t>(queries.size()));
  const QueryEncoder encode(containers, rest);
  for (const Query& query : queries) std::visit(encode, query);
  const bool is_look = std::all_of(queries.begin(), queries.end(), [](const Query& query) {
    return std::holds_alternative<query::GetRecord>(query) ||
           std::holds_alternative<query::GetLogInfo>(query);
  });
  return encoded(is_look ? lookScript() : readScript(), now, containers, {}, rest);
}

}  // namespace nimbus::store::redis
