#pragma once
// A call while it runs, and what belongs to it.

#include <nimbus/function/local_space.h>
#include <nimbus/function/remote_space.h>

#include <atomic>

namespace nimbus::native {

enum class Scope : std::uint8_t { Session, Function, Invocation };

class Call final : private Loader {
 public:
  // Throws std::exception if the frame is no Invoke. `channel` and `limits` must outlive this.
  Call(Channel& channel, const Limits& limits, Frame frame)
      : limits_(limits), frame_(std::move(frame)), requests_(channel, frame_.request) {
    if (frame_.segments.size() < 2) throw ProtocolError("an Invoke without an event");
    // Not into a tree: most of it is for the few who ask.
    Scanner scanner(frame_.head());
    scanner.members(0, [&](const Quoted& name) {
      if (name.raw == "now") {
        now_ = scanner.integer();
      } else if (name.raw == "context") {
        context_ = scanner.trusted();
      } else if (name.raw == "state") {
        state_ = scanner.trusted();
      } else {
        static_cast<void>(scanner.trusted());
      }
    });
  }

  std::uint64_t request() const { return frame_.request; }
  std::string_view event() const { return frame_.segments[1]; }
  std::string_view context() const { return context_; }

  // Throws StateError if the function has no state, or the call has ended.
  Space& space(Scope scope) {
    const std::lock_guard lock(opening_);
    if (!limits_.enabled) {
      throw StateError("forbidden", "this function has no state: state_config.enabled is false");
    }
    if (has_ended_) throw ended();
    switch (scope) {
      case Scope::Function:
        if (!function_) function_.emplace(requests_, "function");
        return *function_;
      case Scope::Invocation:
        if (!invocation_) invocation_.emplace(limits_, clock(), Beginning(), nullptr);
        return *invocation_;
      case Scope::Session:
        break;
    }
    if (state_.empty()) {
      if (!default_session_) default_session_.emplace(requests_, "session");
      return *default_session_;
    }
    if (!session_) openSession();
    return *session_;
  }

  // Leaves with what the call writes, or not at all. `head` is [function, session, delay], JSON.
  void send(std::string head, std::string payload) {
    const std::lock_guard lock(opening_);
    if (has_ended_) throw ended();
    if (sent_.size() == kMostSent) throw StateError("quota_exceeded", "a call sends no more");
    sent_.push_back({std::move(head), std::move(payload)});
  }

  // No operation comes through any more. What the call did to its session: see LocalSpace::close().
  void end(std::string& head, std::vector<std::string_view>& values) {
    {
      const std::lock_guard lock(opening_);
      has_ended_ = true;
    }
    if (session_) session_->close(head, values);
    if (!events_.empty()) {
      head += ",\"events\":" + std::to_string(events_.size());
      values.insert(values.end(), events_.begin(), events_.end());
    }
    if (sent_.empty()) return;
    head += ",\"sends\":[";
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      if (i != 0) head += ',';
      head += sent_[i].head;
      values.push_back(sent_[i].payload);
    }
    head += ']';
  }

  // The event log of the session. Throws StateError if the call has none, or has ended.
  void appendEvent(std::string text) {
    const std::lock_guard lock(opening_);
    checkHasLog();
    if (events_.size() >= kMostEvents) {
      throw StateError("quota_exceeded", "a call appends at most 500 events");
    }
    events_.push_back(std::move(text));
  }
  Json::Array recentEvents(std::int64_t count) {
    Json::Array events;
    std::vector<std::string> own;
    {
      const std::lock_guard lock(opening_);
      checkHasLog();
      if (count < 1 || count > kMostRecent) {
        throw StateError("invalid_argument", "1 to 1000 events can be read");
      }
      const auto wanted = std::min(events_.size(), static_cast<std::size_t>(count));
      own.assign(events_.end() - static_cast<std::ptrdiff_t>(wanted), events_.end());
    }
    if (const std::int64_t rest = count - static_cast<std::int64_t>(own.size()); rest > 0) {
      const Frame reply =
          requests_.send(R"(,"operation":"events.recent","count":)" + std::to_string(rest));
      for (std::size_t i = 1; i < reply.segments.size(); ++i) {
        events.push_back(Json::ofTrustedText(std::string(reply.segments[i])));
      }
    }
    for (std::string& text : own) events.push_back(Json::ofTrustedText(std::move(text)));
    return events;
  }

 private:
  static constexpr std::size_t kMostSent = 1000;
  struct Sent {
    std::string head;
    std::string payload;
  };
  static constexpr std::size_t kMostEvents = 500;
  static constexpr std::int64_t kMostRecent = 1000;

  void checkHasLog() const {
    if (has_ended_) throw ended();
    if (state_.empty()) {
      throw StateError("invalid_argument", "a call without a session has no event log");
    }
  }

  StoreClock clock() const { return {now_, frame_.arrived}; }

  void openSession() {
    Beginning beginning;
    std::string_view rows = "[]";
    Scanner scanner(state_);
    scanner.members(1, [&](const Quoted& name) {
      if (name.raw == "floor") {
        beginning.floor = scanner.integer();
      } else if (name.raw == "complete") {
        beginning.is_complete = scanner.boolean();
      } else if (name.raw == "keys") {
        rows = scanner.trusted();
      } else {
        static_cast<void>(scanner.trusted());
      }
    });
    Loader* const loader = this;
    session_.emplace(limits_, clock(), beginning, loader);
    session_->takeIn(rows, std::span(frame_.segments).subspan(2));
  }

  Frame load(const std::vector<std::string_view>* keys) override {
    std::string members = R"(,"scope":"session","operation":"load")";
    if (keys != nullptr) {
      members += R"(,"keys":)";
      Json(Json::Array(keys->begin(), keys->end())).appendTo(members);
    }
    return requests_.send(members);
  }

  const Limits& limits_;
  const Frame frame_;
  std::int64_t now_ = 0;
  std::string_view context_ = "{}";
  std::string_view state_;  // empty: there is no session
  StateRequests requests_;
  std::mutex opening_;
  bool has_ended_ = false;
  std::vector<std::string> events_;  // appended, as JSON
  std::optional<LocalSpace> session_;
  std::optional<RemoteSpace> default_session_;
  std::optional<RemoteSpace> function_;
  std::optional<LocalSpace> invocation_;
  std::vector<Sent> sent_;
};

}  // namespace nimbus::native
