#pragma once
// The state API as functions see it.

#include <nimbus/function/call.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nimbus {

// As a ttl, in seconds: what the function's state_config says, and no end.
inline constexpr double kDefaultTtl = 0;
inline constexpr double kNever = -1;

struct Versioned {
  Json value;
  std::int64_t version = 0;  // 0: there is none
};

// The state of one scope, for the length of a call. Threads of the handler may use it as long as
// the handler has not returned.
//
// Every operation may throw StateError, and has changed nothing then. Keys have 1 to 256 bytes of
// UTF-8 without control characters.
class State {
 public:
  State(native::Call& call, native::Scope scope) : call_(&call), scope_(scope) {}

  native::Call& call() const { return *call_; }

  // Of the session the call names: committed with the call, or not at all if it fails.
  State session() const { return {*call_, native::Scope::Session}; }
  // Of the function, shared by all its calls: each operation is seen by everyone at once.
  State function() const { return {*call_, native::Scope::Function}; }
  // Of this call.
  State invocation() const { return {*call_, native::Scope::Invocation}; }

  // Has a function called with the payload, once this call has succeeded: in the order of the
  // session, or without one. Calls to one session arrive in the order in which they were sent.
  // `delay` is in seconds.
  void send(std::string_view function, std::optional<std::string_view> session,
            const Json& payload = nullptr, double delay = 0) const {
    if (!(delay >= 0 && delay <= 366.0 * 86'400)) {
      throw StateError("invalid_argument", "a delay is a number of seconds, at most a year");
    }
    std::string head = "[";
    native::appendString(head, function);
    head += ',';
    if (session) {
      native::appendString(head, *session);
    } else {
      head += "null";
    }
    head += ',';
    head += std::to_string(static_cast<std::int64_t>(delay * 1000 + 0.5));
    head += ']';
    call_->send(std::move(head), payload.text());
  }

  // `otherwise` if the key is not there. A stored null is there.
  Json get(std::string_view key, Json otherwise = nullptr) const {
    std::optional<native::Found> found = space().get(checked(key));
    return found ? Json::ofTrustedText(std::move(found->text)) : std::move(otherwise);
  }
  Versioned getWithVersion(std::string_view key) const {
    std::optional<native::Found> found = space().get(checked(key));
    if (!found) return {};
    return {Json::ofTrustedText(std::move(found->text)), found->version};
  }
  // The JSON text, as it was stored.
  std::optional<std::string> getRaw(std::string_view key) const {
    std::optional<native::Found> found = space().get(checked(key));
    if (!found) return std::nullopt;
    return std::move(found->text);
  }
  // An object with those of the keys that are there.
  Json getMany(const std::vector<std::string_view>& keys) const {
    native::Space& space = this->space();
    for (const std::string_view key : keys) static_cast<void>(checked(key));
    auto texts = space.getMany(keys);
    Json::Object found;
    std::unordered_set<std::string_view> seen;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!texts[i] || !seen.insert(keys[i]).second) continue;
      found.push_back({std::string(keys[i]), Json::ofTrustedText(*std::move(texts[i]))});
    }
    return found;
  }

  void set(std::string_view key, const Json& value, double ttl = kDefaultTtl) {
    static_cast<void>(setWithVersion(key, value, std::nullopt, ttl));
  }
  // Sets the value if the key has this version, 0 meaning that it must not be there, and returns
  // the new one. Throws version_conflict otherwise. Without `version` it always sets.
  std::int64_t setWithVersion(std::string_view key, const Json& value,
                              std::optional<std::int64_t> version = std::nullopt,
                              double ttl = kDefaultTtl) {
    native::Space& space = this->space();
    const std::string text = textOf(checked(key), value);
    if (version && *version < 0) throw native::invalid("a version is an integer, at least 0");
    return space.set(key, text, version, checkedTtl(ttl));
  }
  // `text` must be JSON.
  void setRaw(std::string_view key, std::string_view text, double ttl = kDefaultTtl) {
    native::Space& space = this->space();
    static_cast<void>(checked(key));
    try {
      native::checkJson(text);
    } catch (const JsonError& error) {
      throw native::invalid("the value of " + native::named(key) + ": " + error.what());
    }
    space.set(key, text, std::nullopt, checkedTtl(ttl));
  }
  // All or nothing: state.setMany({{"a", 1}, {"b", "two"}}). Where a key stands twice the last one
  // counts.
  void setMany(const Json::Object& values, double ttl = kDefaultTtl) {
    native::Space& space = this->space();
    std::vector<std::string> texts;
    texts.reserve(values.size());
    std::vector<native::KeyAndText> given;
    std::unordered_map<std::string_view, std::size_t> places;
    for (const Member& member : values) {
      const std::string_view key = checked(member.name);
      texts.push_back(textOf(key, member.value));
      const auto [place, is_new] = places.emplace(key, given.size());
      if (is_new) {
        given.push_back({key, texts.back()});
      } else {
        given[place->second].text = texts.back();
      }
    }
    space.setMany(given, checkedTtl(ttl));
  }

  // Whether there was one: `delete` of the API.
  bool remove(std::string_view key) { return space().remove(checked(key)); }
  // Deletes all keys of the scope and says how many there were.
  std::int64_t clear() { return space().clear(); }

  // Adds to an integer of 64 bits and returns the sum. A key that is not there counts as 0.
  std::int64_t incr(std::string_view key, std::int64_t delta = 1) {
    return space().incr(checked(key), delta);
  }
  std::int64_t decr(std::string_view key, std::int64_t delta = 1) {
    return space().decr(checked(key), delta);
  }

  bool exists(std::string_view key) const { return space().exists(checked(key)); }
  // Those that match, sorted by bytes. `*`, `?` and `[a-z]` are as in a shell, `\` makes them
  // ordinary.
  std::vector<std::string> keys(std::string_view pattern = "*") const {
    native::Space& space = this->space();
    if (!native::isUtf8(pattern)) throw native::invalid("a pattern is UTF-8");
    return space.keys(pattern);
  }

  // Lets the key, which must be there, expire `ttl` seconds from now.
  void expire(std::string_view key, double ttl) {
    native::Space& space = this->space();
    if (checkedTtl(ttl) <= 0) throw native::invalid("expire() takes a ttl above 0");
    space.expire(checked(key), ttl);
  }
  // The key, which must be there, will not expire.
  void persist(std::string_view key) { space().persist(checked(key)); }
  // The seconds until the key, which must be there, expires; -1 if it does not.
  double ttl(std::string_view key) const { return space().ttl(checked(key)); }

 private:
  static constexpr std::size_t kMaxKeyBytes = 256;
  // Seconds, 3000 years: milliseconds since 1970 stay integers in every language.
  static constexpr double kMaxTtl = 1e11;

  native::Space& space() const { return call_->space(scope_); }

  static std::string_view checked(std::string_view key) {
    if (key.empty() || key.size() > kMaxKeyBytes) {
      throw native::invalid("a key has 1 to " + std::to_string(kMaxKeyBytes) + " bytes, not " +
                            std::to_string(key.size()));
    }
    for (std::size_t at = 0; at < key.size();) {
      const auto byte = static_cast<unsigned char>(key[at]);
      const std::size_t length = native::sequenceLength(key.substr(at));
      if (length == 0) throw native::invalid("a key is UTF-8");
      const bool is_c1 = byte == 0xC2 && static_cast<unsigned char>(key[at + 1]) < 0xA0;
      if (byte < 0x20 || byte == 0x7F || is_c1) {
        throw native::invalid("a key has no control characters");
      }
      at += length;
    }
    return key;
  }

  static double checkedTtl(double ttl) {
    if ((ttl >= 0 && ttl <= kMaxTtl) || ttl == kNever) return ttl;
    throw native::invalid("a ttl is a number of seconds; 0 stands for the default, -1 for never");
  }

  static std::string textOf(std::string_view key, const Json& value) {
    try {
      return value.text();
    } catch (const JsonError& error) {
      throw native::invalid("the value of " + native::named(key) + ": " + error.what());
    }
  }

  native::Call* call_;
  native::Scope scope_;
};

}  // namespace nimbus
