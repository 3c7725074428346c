#pragma once
// State that the server keeps to itself: function scope, and session scope in a call without a
// session. Each operation is one State frame and its reply.

#include <nimbus/function/channel.h>
#include <nimbus/function/error.h>
#include <nimbus/function/json.h>
#include <nimbus/function/space.h>

#include <algorithm>
#include <atomic>

namespace nimbus::native {

// The State frames of one call.
class StateRequests {
 public:
  StateRequests(Channel& channel, std::uint64_t request) : channel_(channel), request_(request) {}

  // `members`: of the head, each after a comma. Throws StateError if the server refuses.
  Frame send(std::string_view members, const std::vector<std::string_view>& values = {}) {
    const std::int64_t id = ++last_id_;
    std::string head = "{\"id\":" + std::to_string(id);
    head += members;
    head += '}';
    std::string frame;
    try {
      appendFrame(frame, FrameType::State, request_, head, values);
    } catch (const FrameTooLarge&) {
      throw StateError("too_large", "the values are too large to be sent");
    }
    Frame reply = channel_.exchange(request_, id, frame);
    const Json answer = Json::parse(reply.head());
    if (answer["success"].asBool(false)) return reply;
    const std::string code = answer["error"].asString("internal");
    const std::string message = answer["message"].asString("the server gave no reason");
    if (code != "version_conflict") throw StateError(code, message);
    throw StateError(code, message, answer["current_version"].asInt(0));
  }

 private:
  Channel& channel_;
  const std::uint64_t request_;
  std::atomic<std::int64_t> last_id_ = 0;
};

class RemoteSpace final : public Space {
 public:
  // `scope` is a literal.
  RemoteSpace(StateRequests& requests, std::string_view scope)
      : requests_(requests), scope_(scope) {}

  std::optional<Found> get(std::string_view key) override {
    const Frame reply = requests_.send(Request(scope_, "get_with_version").key(key).text());
    if (reply.segments.size() < 2) return std::nullopt;
    return Found{std::string(reply.segments[1]), version(reply)};
  }

  std::vector<std::optional<std::string>> getMany(
      const std::vector<std::string_view>& keys) override {
    const Frame reply = requests_.send(Request(scope_, "get_many").keys(keys).text());
    const Json head = Json::parse(reply.head());
    const Json::Array& there = head["keys"].elements();
    std::vector<std::optional<std::string>> texts(keys.size());
    for (std::size_t i = 0; i < there.size() && i + 1 < reply.segments.size(); ++i) {
      for (std::size_t wanted = 0; wanted < keys.size(); ++wanted) {
        if (keys[wanted] == there[i].asString()) texts[wanted] = std::string(reply.segments[i + 1]);
      }
    }
    return texts;
  }

  std::int64_t set(std::string_view key, std::string_view text, std::optional<std::int64_t> version,
                   double ttl) override {
    Request request(scope_, version ? "set_with_version" : "set");
    request.key(key).ttl(ttl);
    if (version) request.json("version", *version);
    return RemoteSpace::version(requests_.send(request.text(), {text}));
  }

  void setMany(const std::vector<KeyAndText>& values, double ttl) override {
    std::vector<std::string_view> keys;
    std::vector<std::string_view> texts;
    for (const auto& [key, text] : values) {
      keys.push_back(key);
      texts.push_back(text);
    }
    requests_.send(Request(scope_, "set_many").keys(keys).ttl(ttl).text(), texts);
  }

  std::int64_t incr(std::string_view key, std::int64_t delta) override {
    return calculate("incr", key, delta);
  }
  std::int64_t decr(std::string_view key, std::int64_t delta) override {
    return calculate("decr", key, delta);
  }

  bool remove(std::string_view key) override {
    return value(Request(scope_, "delete").key(key)).asBool();
  }
  std::int64_t clear() override { return value(Request(scope_, "clear")).asInt(); }
  bool exists(std::string_view key) override {
    return value(Request(scope_, "exists").key(key)).asBool();
  }

  std::vector<std::string> keys(std::string_view pattern) override {
    std::vector<std::string> keys;
    const Json found = value(Request(scope_, "keys").string("pattern", pattern));
    for (const Json& key : found.elements()) keys.push_back(key.asString());
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  void expire(std::string_view key, double ttl) override {
    requests_.send(Request(scope_, "expire").key(key).ttl(ttl).text());
  }
  void persist(std::string_view key) override {
    requests_.send(Request(scope_, "persist").key(key).text());
  }
  double ttl(std::string_view key) override {
    return value(Request(scope_, "ttl").key(key)).asDouble();
  }

 private:
  // Members of the head of a State frame.
  class Request {
   public:
    Request(std::string_view scope, std::string_view operation) {
      string("scope", scope);
      string("operation", operation);
    }

    Request& string(std::string_view name, std::string_view value) {
      member(name);
      appendString(text_, value);
      return *this;
    }
    Request& json(std::string_view name, const Json& value) {
      member(name);
      value.appendTo(text_);
      return *this;
    }
    Request& key(std::string_view key) { return string("key", key); }
    Request& ttl(double ttl) { return json("ttl", ttl); }
    Request& keys(const std::vector<std::string_view>& keys) {
      return json("keys", Json(Json::Array(keys.begin(), keys.end())));
    }

    const std::string& text() const { return text_; }

   private:
    void member(std::string_view name) {
      text_ += ",\"";
      text_ += name;
      text_ += "\":";
    }

    std::string text_;
  };

  static std::int64_t version(const Frame& reply) {
    return Json::parse(reply.head())["version"].asInt();
  }

  Json value(const Request& request) {
    return Json::parse(requests_.send(request.text()).head())["value"];
  }

  std::int64_t calculate(std::string_view operation, std::string_view key, std::int64_t delta) {
    return value(Request(scope_, operation).key(key).json("delta", delta)).asInt();
  }

  StateRequests& requests_;
  const std::string_view scope_;
};

}  // namespace nimbus::native
