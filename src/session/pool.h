#pragma once
// The instances of one version of a function. They are started as load asks for them, within the
// function's bounds, and ended when they are idle.
//
// Single-threaded: every member is called on the executor.

#include "base/steady_clock.h"
#include "base/task_group.h"
#include "events/call_append.h"
#include "runtime/instance.h"
#include "session/call.h"
#include "state/space.h"

#include <boost/asio/any_io_executor.hpp>
#include <nimbus/dispatch/async.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::session {

// How a call in an instance ended.
struct Ending {
  enum class Kind : std::uint8_t { Returned, Raised, Crashed, TimedOut, Cancelled };

  Kind kind = Kind::Crashed;
  int status = 200;
  std::string body = {};
  state::Changes changes = {};
  std::vector<std::string> events = {};           // that it appended, as JSON
  std::optional<events::CallAppend> append = {};  // what becomes of them
  std::vector<SentCall> sent = {};
  FunctionFailure failure = {};  // Raised; the others but Returned have a message
};

class Pool final : public runtime::Instance::Listener {
 public:
  struct Running;
  struct Member;
  using MemberPtr = std::shared_ptr<Member>;

  // Somebody who waits for a slot. Who has waited longest is the first; each step of priority
  // counts as much as a second of waiting, so nobody waits for ever.
  struct Waiting {
    dispatch::Signal<Result<MemberPtr>> signal;
    SteadyTime since;
    SteadyTime rank;
    bool takes_turns = false;  // takes no slot ahead of its turn, so that others can pass it
  };

  // An instance that may be given calls: as many as it runs at once, and some ahead, which wait in
  // it for their turn, so that it need not wait for us between two.
  struct Member {
    const Pool* pool = nullptr;
    std::shared_ptr<runtime::Instance> instance;
    std::uint64_t next_request = 1;
    unsigned taken = 0;     // slots, with those of calls that were given ahead
    std::size_t bound = 0;  // sessions that stick to it
    bool retiring = false;  // is given nothing more
    std::string_view retired_for = "replaced";
    std::string_view ended_by = "crashed";  // unless we end it
    SteadyTime idle_since;
    SteadyTime kill_at = SteadyTime::max();
    std::vector<Running*> running;  // in the order in which they were given
    std::deque<Waiting> waiting;

    bool isUsable() const { return !retiring && !instance->hasEnded(); }
  };

  // A call that an instance has been given. It lies with whoever waits for it, until it is over.
  struct Running {
    CallPtr call;
    MemberPtr member;
    const state::Space* space = nullptr;  // of its session; null: stateless
    std::uint64_t request = 0;
    std::optional<SteadyTime> begun;  // absent: others are before it in its instance
    // What became of it, when `ended` is set. A call that never began can be given to another.
    enum class Fate : std::uint8_t { Ended, NeverBegan };
    Ending ending = {};
    dispatch::Signal<Fate> ended;
    // Only of one that has timed out: nothing of it runs any more.
    std::optional<dispatch::Signal<bool>> over;
    // Its instance was told that nobody wants it; it is ended if this does not help.
    std::optional<SteadyTime> cancelled_at;
  };

  // What the pool does not know itself.
  class Host {
   public:
    virtual ~Host() = default;
    virtual void onState(Running& running, const runtime::Frame& frame) = 0;
    virtual void onLog(std::string_view request_id, std::string_view stream,
                       std::string_view lines) = 0;
    // Makes the next instance's id.
    virtual std::string nextInstanceId() = 0;
    // There is one more, or one less.
    virtual void onInstances(int change) = 0;
    // There is something to tick() for.
    virtual void needsTicks() = 0;
  };

  struct Parts {
    runtime::Keeper& keeper;
    const SteadyClock& clock;
    Host& host;
  };

  Pool(FunctionPtr function, const boost::asio::any_io_executor& executor, Parts parts);
  ~Pool() override;

  const FunctionSpec& function() const { return *function_; }

  // A slot of the instance it sticks to, if that lives; else of any. Null: none is free.
  MemberPtr tryTake(const MemberPtr& bound, const Call& call);
  // The next that is free. What is driven or has a priority of its own is given no slot ahead of
  // its turn.
  dispatch::Signal<Result<MemberPtr>> take(const MemberPtr& bound, const Call& call);
  // Gives the slot back.
  void release(const MemberPtr& member);

  // Gives the call to the instance, whose outgoing() has its Invoke frame, with the request that
  // nextRequest() gave. `running` ends later; never at once.
  std::uint64_t nextRequest(Member& member) { return member.next_request++; }
  void begin(Running& running);

  // Tells the instance that runs the call that nobody wants it; see Running::cancelled_at. Nothing
  // happens if none runs it.
  void cancel(const Call& call);

  // What is due: calls that have run out of time, instances that are missing, idle or too large.
  // Says when it must be called again.
  SteadyTime tick(SteadyTime now);

  bool isIdle() const;

  // Ends every instance.
  Task<> stop();

 private:
  // Enough that an instance never idles while the next frame is on its way; few enough that a new
  // session finds another instance sooner.
  static constexpr unsigned kAhead = 16;

  void onFrame(runtime::Instance& instance, const runtime::Frame& frame) override;
  void onOutput(runtime::Instance& instance, runtime::Stream stream,
                std::string_view lines) override;
  void onEnd(runtime::Instance& instance, const std::string& why) override;

  const MemberPtr& memberOf(const runtime::Instance& instance) const;
  MemberPtr bestFree(bool takes_turns) const;
  static void enqueue(std::deque<Waiting>& line, Waiting one);
  // Calls that an instance may hold: of sessions that stick to it, and of others.
  unsigned slots() const { return function_->concurrency + kAhead; }
  unsigned slotsForAnyone() const;
  // Whether a session may stick to it: it lives, and runs this version.
  bool isOurs(const MemberPtr& bound) const {
    return bound && bound->pool == this && bound->isUsable();
  }
  void kill(const MemberPtr& member, std::string_view reason, std::string why);
  void start();
  Task<> startMember();
  void serveWaiting();
  void refuseWaiting();
  void serveBound(const MemberPtr& member);
  void retire(const MemberPtr& member, std::string_view reason, const std::string& why);
  void timeOut(const MemberPtr& member, Running& running);
  void endCancelled(const MemberPtr& member, Running& running);
  // Starts the clocks of calls whose turn has come.
  void noteBegun(Member& member) const;
  void checkMemory();

  const FunctionPtr function_;
  const boost::asio::any_io_executor executor_;
  const Parts parts_;
  const std::string load_head_;
  std::vector<MemberPtr> members_;
  std::size_t starting_ = 0;
  std::deque<Waiting> waiting_;
  SteadyTime next_look_;
  bool stopping_ = false;
  TaskGroup group_;
};

}  // namespace nimbus::session
