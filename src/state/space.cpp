#include "state/space.h"

#include "state/glob.h"

#include <boost/container/small_vector.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace nimbus::state {
namespace {

using Kind = Operation::Kind;

Error conflict(std::string_view key, Version expected, Version current) {
  return Error(Code::VersionConflict,
               fmt::format("\"{}\" has version {}, not {}", key, current, expected))
      .with("current_version", static_cast<std::int64_t>(current));
}

Error brokenRule(std::string_view key, std::string_view why) {
  return {Code::FunctionError, fmt::format("the instance broke the protocol: \"{}\" {}", key, why)};
}

Result<> checkDistinct(const Changes& changes) {
  boost::container::small_vector<std::string_view, 16> keys;
  for (const Changes::Write& write : changes.writes) keys.push_back(write.key);
  for (const Changes::Touch& touch : changes.touches) keys.push_back(touch.key);
  for (const Changes::Removal& removal : changes.removals) keys.push_back(removal.key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) return brokenRule(*twice, "is in its answer twice");
  return {};
}

}  // namespace

void Space::load(std::string key, Entry entry) {
  bytes_ += entry.value.size();
  noteExpiry(entry.expires_at);
  entries_.emplace(std::move(key), std::move(entry));
}

void Space::noteExpiry(const std::optional<Timestamp>& expires_at) {
  if (expires_at) next_expiry_ = std::min(next_expiry_, *expires_at);
}

void Space::prune(Timestamp now) {
  if (now < next_expiry_) return;
  next_expiry_ = Timestamp::max();
  for (auto place = entries_.begin(); place != entries_.end();) {
    const auto next = std::next(place);
    if (place->second.expires_at && *place->second.expires_at <= now) {
      remove(place);
    } else {
      noteExpiry(place->second.expires_at);
    }
    place = next;
  }
}

const Space::Entry* Space::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() ? &found->second : nullptr;
}

Space::Mark& Space::mark(std::string_view key, Version version) {
  auto place = marks_.find(key);
  if (place == marks_.end()) place = marks_.emplace(std::string(key), Mark()).first;
  place->second.last = std::max(place->second.last, version);
  return place->second;
}

// Gives the key its next version.
Space::Entry& Space::put(std::string_view key, std::string value) {
  auto place = entries_.find(key);
  if (place == entries_.end()) {
    place = entries_.emplace(std::string(key), Entry()).first;
    place->second.version = floor_;
  }
  Entry& entry = place->second;
  bytes_ += value.size();
  bytes_ -= entry.value.size();
  entry.value = std::move(value);
  ++entry.version;
  return entry;
}

void Space::remove(Entries::iterator place) {
  bytes_ -= place->second.value.size();
  floor_ = std::max(floor_, place->second.version);
  entries_.erase(place);
}

// What does not add to what is too much already is let through.
Result<> Space::checkLimits(std::uint64_t keys, std::uint64_t bytes, const Rules& rules) const {
  if (rules.max_keys != 0 && keys > rules.max_keys && keys > entries_.size()) {
    return Error(Code::QuotaExceeded, fmt::format("at most {} keys are allowed", rules.max_keys))
        .with("limit", static_cast<std::int64_t>(rules.max_keys));
  }
  if (rules.max_total_bytes != 0 && bytes > rules.max_total_bytes && bytes > bytes_) {
    return Error(Code::QuotaExceeded,
                 fmt::format("all values together may have {} bytes", rules.max_total_bytes))
        .with("limit", static_cast<std::int64_t>(rules.max_total_bytes));
  }
  return {};
}

Result<Answer> Space::apply(const Operation& operation, const Rules& rules, Timestamp now) {
  if (!rules.enabled) return disabled();
  NIMBUS_CHECK(checkForm(operation));
  prune(now);
  Answer answer;
  switch (operation.kind) {
    case Kind::Get:
    case Kind::GetWithVersion:
      if (const Entry* const entry = find(operation.key)) {
        answer.found.push_back({operation.key, entry->value, entry->version});
        answer.version = entry->version;
      }
      return answer;
    case Kind::GetMany: {
      std::set<std::string_view> seen;
      for (const std::string& key : operation.keys) {
        const Entry* const entry = find(key);
        if (entry == nullptr || !seen.insert(key).second) continue;
        answer.found.push_back({key, entry->value, entry->version});
      }
      return answer;
    }
    case Kind::Exists:
      answer.flag = find(operation.key) != nullptr;
      return answer;
    case Kind::Keys:
      for (const auto& [key, entry] : entries_) {
        if (matches(operation.pattern, key)) answer.keys.push_back(key);
      }
      return answer;
    case Kind::Ttl: {
      const Entry* const entry = find(operation.key);
      if (entry == nullptr) return missing(operation.key);
      if (entry->expires_at) {
        answer.ttl = static_cast<double>((*entry->expires_at - now).count()) / 1000;
      }
      return answer;
    }
    case Kind::Set:
    case Kind::SetWithVersion:
      return write({operation.key}, operation.values, operation, rules, now);
    case Kind::SetMany:
      return write(operation.keys, operation.values, operation, rules, now);
    case Kind::Incr:
    case Kind::Decr:
      return add(operation, rules, now);
    case Kind::Expire: {
      NIMBUS_TRY(const Timestamp at, expiryAfter(*operation.ttl, now));
      return setExpiry(operation.key, at, now);
    }
    case Kind::Persist:
      return setExpiry(operation.key, std::nullopt, now);
    case Kind::Delete: {
      const auto place = entries_.find(operation.key);
      answer.flag = place != entries_.end();
      if (!answer.flag) return answer;
      mark(operation.key, place->second.version).value_changed = true;
      remove(place);
      return answer;
    }
    case Kind::Clear:
      answer.number = static_cast<std::int64_t>(entries_.size());
      while (!entries_.empty()) {
        mark(entries_.begin()->first, entries_.begin()->second.version).value_changed = true;
        remove(entries_.begin());
      }
      return answer;
  }
  return answer;
}

Result<Answer> Space::write(const std::vector<std::string>& keys,
                            const std::vector<std::string>& values, const Operation& operation,
                            const Rules& rules, Timestamp now) {
  NIMBUS_TRY(const auto expires_at, expiryOf(rules, operation.ttl, now));
  std::uint64_t count = entries_.size();
  std::uint64_t bytes = bytes_;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    NIMBUS_CHECK(checkValue(rules, keys[i], values[i]));
    const Entry* const entry = find(keys[i]);
    if (operation.kind == Kind::SetWithVersion && operation.version) {
      const Version current = entry != nullptr ? entry->version : 0;
      if (current != *operation.version) return conflict(keys[i], *operation.version, current);
    }
    if (entry == nullptr) ++count;
    bytes += values[i].size();
    bytes -= entry != nullptr ? entry->value.size() : 0;
  }
  NIMBUS_CHECK(checkLimits(count, bytes, rules));
  Answer answer;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Entry& entry = put(keys[i], values[i]);
    entry.expires_at = expires_at;
    entry.updated_at = now;
    noteExpiry(expires_at);
    mark(keys[i], entry.version).value_changed = true;
    answer.version = entry.version;
    answer.versions.push_back(entry.version);
  }
  return answer;
}

Result<Answer> Space::add(const Operation& operation, const Rules& rules, Timestamp now) {
  const std::string& key = operation.key;
  const Entry* const before = find(key);
  std::int64_t number = 0;
  if (before != nullptr) {
    const auto held = integerOf(before->value);
    if (!held) return noInteger(key);
    number = *held;
  }
  const bool overflown = operation.kind == Kind::Decr
                             ? __builtin_sub_overflow(number, operation.delta, &number)
                             : __builtin_add_overflow(number, operation.delta, &number);
  if (overflown) return overflows(key);
  std::string text = std::to_string(number);
  NIMBUS_CHECK(checkValue(rules, key, text));
  NIMBUS_CHECK(checkLimits(entries_.size() + (before == nullptr ? 1 : 0),
                           bytes_ + text.size() - (before != nullptr ? before->value.size() : 0),
                           rules));
  std::optional<Timestamp> expires_at;
  if (before != nullptr) {
    expires_at = before->expires_at;
  } else if (rules.default_ttl) {
    expires_at = now + *rules.default_ttl;
  }
  Entry& entry = put(key, std::move(text));
  entry.expires_at = expires_at;
  entry.updated_at = now;
  noteExpiry(expires_at);
  mark(key, entry.version).value_changed = true;
  Answer answer;
  answer.number = number;
  answer.version = entry.version;
  return answer;
}

Result<Answer> Space::setExpiry(std::string_view key, std::optional<Timestamp> expires_at,
                                Timestamp now) {
  const auto place = entries_.find(key);
  if (place == entries_.end()) return missing(key);
  Entry& entry = place->second;
  entry.expires_at = expires_at;
  entry.updated_at = now;
  ++entry.version;
  noteExpiry(expires_at);
  mark(key, entry.version);
  Answer answer;
  answer.version = entry.version;
  return answer;
}

Changes Space::takeChanges() {
  Changes changes;
  for (auto& [key, mark] : std::exchange(marks_, {})) {
    const Entry* const entry = find(key);
    if (entry == nullptr) {
      changes.removals.push_back({key, mark.last});
    } else if (mark.value_changed) {
      changes.writes.push_back({key, entry->value, entry->version, entry->expires_at});
    } else {
      changes.touches.push_back({key, entry->version, entry->expires_at});
    }
  }
  return changes;
}

// Looked through whole before the first is made.
Result<> Space::accept(const Changes& changes, const Rules& rules, Timestamp now) {
  if (changes.empty()) return {};
  if (!rules.enabled) return disabled();
  NIMBUS_CHECK(checkDistinct(changes));
  std::uint64_t count = entries_.size();
  std::uint64_t bytes = bytes_;
  const auto check = [&](std::string_view key, Version version) -> Result<const Entry*> {
    NIMBUS_CHECK(checkKey(key));
    const Entry* const entry = find(key);
    if (version <= (entry != nullptr ? entry->version : floor_)) {
      return brokenRule(key, "was given a version that it has had before");
    }
    return entry;
  };
  for (const Changes::Write& write : changes.writes) {
    NIMBUS_TRY(const Entry* const entry, check(write.key, write.version));
    NIMBUS_CHECK(checkValue(rules, write.key, write.value));
    if (entry == nullptr) ++count;
    bytes += write.value.size();
    bytes -= entry != nullptr ? entry->value.size() : 0;
  }
  for (const Changes::Touch& touch : changes.touches) {
    NIMBUS_TRY(const Entry* const entry, check(touch.key, touch.version));
    if (entry == nullptr) return brokenRule(touch.key, "is not there to be touched");
  }
  for (const Changes::Removal& removal : changes.removals) {
    NIMBUS_CHECK(checkKey(removal.key));
    const Entry* const entry = find(removal.key);
    if (entry == nullptr) continue;
    --count;
    bytes -= entry->value.size();
  }
  NIMBUS_CHECK(checkLimits(count, bytes, rules));

  for (const Changes::Write& write : changes.writes) {
    Entry& entry = put(write.key, write.value);
    entry.version = write.version;
    entry.expires_at = write.expires_at;
    entry.updated_at = now;
    noteExpiry(write.expires_at);
  }
  for (const Changes::Touch& touch : changes.touches) {
    Entry& entry = entries_.find(touch.key)->second;
    entry.version = touch.version;
    entry.expires_at = touch.expires_at;
    entry.updated_at = now;
    noteExpiry(touch.expires_at);
  }
  for (const Changes::Removal& removal : changes.removals) {
    if (const auto place = entries_.find(removal.key); place != entries_.end()) remove(place);
    floor_ = std::max(floor_, removal.last);
  }
  return {};
}

}  // namespace nimbus::state
