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

  // No operation comes through any more. What the call did to its session: see LocalSpace::close().
  void end(std::string& head, std::vector<std::string_view>& values) {
    {
      const std::lock_guard lock(opening_);
      has_ended_ = true;
    }
    if (session_) session_->close(head, values);
  }

 private:
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
  std::optional<LocalSpace> session_;
  std::optional<RemoteSpace> default_session_;
  std::optional<RemoteSpace> function_;
  std::optional<LocalSpace> invocation_;
};

}  // namespace nimbus::native
