#pragma once
// One connection to one server, which comes back by itself.
//
// Everything that is ready is written at once, and answers come in the order of the commands: that
// is all of pipelining. What the connection cannot know (whether a command may be sent again, and
// where) it leaves to its owner.

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "base/task_group.h"
#include "redis/address.h"
#include "redis/parser.h"
#include "redis/request.h"
#include "redis/transport.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nimbus::redis {

// Sent right before a request, in the same write, its answers dropped.
struct Preface {
  std::string bytes;
  unsigned int answers = 0;
};

// Single-threaded: every member is called on the executor, and so is the owner.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Options {
    Credentials credentials;
    int database = 0;
    std::shared_ptr<boost::asio::ssl::context> tls;  // null: in the clear
    Millis connect_timeout{2000};
    Millis least_backoff{20};
    Millis longest_backoff{1000};
    // Commands that may wait for their answer; more wait here.
    std::size_t max_in_flight = 4096;
    // Replicas to wait for behind every write that wants them; 0 = none.
    int wait_replicas = 0;
    Millis wait_timeout{2000};
    // Asked before each attempt to connect, if set: the primary may have moved.
    std::function<Task<Result<Address>>()> locate;
  };

  class Owner {
   public:
    virtual ~Owner() = default;
    // The server's answer, errors too.
    virtual void onReply(Connection& from, std::shared_ptr<Request> request, Value answer) = 0;
    // There is no answer, and will be none: NotApplied if it was not sent, else Unknown.
    virtual void onLost(std::shared_ptr<Request> request, Error error) = 0;
    // What nobody asked for, and errors of what was sent by tell().
    virtual void onPush(Connection& from, Value push) = 0;
    virtual void onUp(Connection& connection) = 0;
    // Also after every failed attempt.
    virtual void onDown(Connection& connection, const Error& why) = 0;
  };

  // `owner` must outlive stop().
  Connection(boost::asio::any_io_executor executor, Address address, Options options, Owner& owner);

  void start();
  // Whatever waits is lost.
  Task<> stop();

  const Address& address() const { return address_; }
  bool isUp() const { return state_ == State::Up; }

  // While an attempt to connect has failed and the next has not begun, the request is lost at once.
  void send(std::shared_ptr<Request> request, Preface preface = {});
  // For what is answered by a push or not at all; nothing if it is not up.
  void tell(const std::string& bytes);
  // Connects anew.
  void reset();

 private:
  enum class State { Connecting, Up, Waiting };

  // Who is confirmed by one WAIT.
  using Confirmed = std::vector<std::shared_ptr<Request>>;
  struct InFlight {
    std::shared_ptr<Request> request;  // null: a WAIT
    unsigned int skip = 0;
    std::shared_ptr<Confirmed> confirmed;
    std::size_t place = 0;  // in it
    SteadyTime deadline;
  };
  struct Outgoing {
    std::shared_ptr<Request> request;
    Preface preface;
  };

  Task<> run();
  Task<> watch();
  Task<Result<>> connect();
  Task<Result<>> greet();
  Task<Error> readUntilLost();
  Result<> take(Value value);
  void takeAnswer(InFlight entry, Value value);
  void confirm(const Confirmed& confirmed, const Value& value);
  void lose(const Error& why);
  void scheduleFlush();
  void flush();
  void addWait();
  Error awayBecause(const Error& why, Outcome outcome) const;

  const boost::asio::any_io_executor executor_;
  Address address_;
  const Options options_;
  Owner& owner_;
  TaskGroup tasks_;
  std::shared_ptr<Transport> transport_;
  Parser parser_;
  std::array<char, 65536> read_buffer_{};
  State state_ = State::Connecting;
  std::uint64_t generation_ = 0;  // of the transport: late callbacks of an old one are ignored
  SteadyTime connecting_until_;
  std::deque<Outgoing> waiting_;    // not yet encoded into out_
  std::deque<InFlight> in_flight_;  // in the order of the answers
  std::shared_ptr<Confirmed> confirming_ = std::make_shared<Confirmed>();  // by the next WAIT
  std::string out_;
  bool writing_ = false;
  bool flush_scheduled_ = false;
  bool stopped_ = false;
  Error last_failure_{Code::Unavailable, "not connected yet"};
};

}  // namespace nimbus::redis
