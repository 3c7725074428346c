#pragma once
// Runs calls: on the main thread, one after another, or with a concurrency above 1 on threads.

#include <nimbus/function/context.h>
#include <nimbus/function/log.h>
#include <nimbus/function/result.h>
#include <nimbus/function/state.h>

#include <cstdio>
#include <thread>

namespace nimbus::native {

// `context` is JSON: few handlers look at it.
using Handler = Json (*)(Json& event, State& state, std::string_view context);

class Runner {
 public:
  Runner(Channel& channel, Handler handler, const Limits& limits)
      : channel_(channel), handler_(handler), limits_(limits) {}

  // A result leaves before the next call begins. To hold it back for company would save system
  // calls, but that next call may take long, or take the process down with it.
  void run(Frame frame) {
    std::optional<Call> call;
    try {
      call.emplace(channel_, limits_, std::move(frame));
    } catch (const std::exception& wrong) {
      fail(std::string("what came is no Invoke: ") + wrong.what());
    }
    log_place = {&channel_, call->request()};
    std::string out;
    out.reserve(256);
    ResultWriter result(out);
    try {
      Json event = Json::ofTrustedText(std::string(call->event()));
      State state(*call, Scope::Session);
      result.returned(*call, handler_(event, state, call->context()));
    } catch (const abi::__forced_unwind&) {
      throw;  // the thread is being ended, which must go on
    } catch (...) {
      result.failed(*call, currentFailure());
    }
    log_place = {};
    // What was printed is there before the result: then the server knows whose it is.
    std::fflush(stdout);
    channel_.send(out);
  }

  void refuse(const Frame& frame, const std::string& reason) {
    std::string out;
    ResultWriter(out).cancelled(frame.request, reason);
    channel_.send(out);
  }

 private:
  Channel& channel_;
  const Handler handler_;
  const Limits& limits_;
};

// Calls that have come and not begun, in the order they came.
class Waiting {
 public:
  bool empty() const { return calls_.empty(); }

  Frame takeFirst() {
    Frame frame = std::move(calls_.front());
    calls_.pop_front();
    return frame;
  }

  // Takes in what came. A call that is cancelled before it has begun need not begin, and is
  // returned. One that runs cannot be stopped from outside: the server ends the process if it takes
  // too long. Frames of unknown types are for instances newer than this one.
  std::optional<Frame> takeIn(Frame frame) {
    if (frame.type == FrameType::Invoke) {
      calls_.push_back(std::move(frame));
    } else if (frame.type == FrameType::Cancel) {
      for (auto place = calls_.begin(); place != calls_.end(); ++place) {
        if (place->request != frame.request) continue;
        Frame cancelled = std::move(*place);
        calls_.erase(place);
        return cancelled;
      }
    }
    return std::nullopt;
  }

 private:
  std::deque<Frame> calls_;
};

inline std::string reasonOf(const Frame& cancel) {
  try {
    return Json::parse(cancel.head())["reason"].asString("cancelled");
  } catch (const JsonError&) {
    return "cancelled";
  }
}

[[noreturn]] inline void serveOnMainThread(Channel& channel, Runner& runner) {
  Waiting waiting;
  const auto takeIn = [&](Frame frame) {
    const std::string reason = frame.type == FrameType::Cancel ? reasonOf(frame) : std::string();
    if (const auto cancelled = waiting.takeIn(std::move(frame))) runner.refuse(*cancelled, reason);
  };
  while (true) {
    if (waiting.empty()) takeIn(channel.next());
    while (auto frame = channel.nextIfThere()) takeIn(*std::move(frame));
    if (!waiting.empty()) runner.run(waiting.takeFirst());
  }
}

class Threads {
 public:
  Threads(Runner& runner, std::int64_t most) : runner_(runner), most_(most) {}

  void takeIn(Frame frame) {
    const std::string reason = frame.type == FrameType::Cancel ? reasonOf(frame) : std::string();
    std::optional<Frame> cancelled;
    {
      const std::lock_guard lock(mutex_);
      cancelled = waiting_.takeIn(std::move(frame));
      if (!waiting_.empty() && idle_ == 0 && threads_ < most_) {
        ++threads_;
        std::thread([this] { work(); }).detach();  // it ends with the process
      }
    }
    came_.notify_one();
    if (cancelled) runner_.refuse(*cancelled, reason);
  }

 private:
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      ++idle_;
      came_.wait(lock, [&] { return !waiting_.empty(); });
      --idle_;
      Frame frame = waiting_.takeFirst();
      lock.unlock();
      runner_.run(std::move(frame));
    }
  }

  Runner& runner_;
  const std::int64_t most_;
  std::mutex mutex_;
  std::condition_variable came_;
  Waiting waiting_;
  std::int64_t idle_ = 0;
  std::int64_t threads_ = 0;
};

[[noreturn]] inline void serveOnThreads(Channel& channel, Runner& runner,
                                        std::int64_t concurrency) {
  Threads threads(runner, concurrency);
  while (true) threads.takeIn(channel.next());
}

}  // namespace nimbus::native
