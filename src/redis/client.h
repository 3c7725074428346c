#pragma once
// Sends requests to the server that has their keys, and again where that is safe.
//
// What a server answers before it has done anything (MOVED, ASK, TRYAGAIN, LOADING, CLUSTERDOWN,
// READONLY, NOSCRIPT) is dealt with here, until a request's deadline; nobody else hears of it. A
// request whose answer was lost may have been carried out: unless it is repeatable it fails with
// Unknown.

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "base/task_group.h"
#include "redis/connection.h"
#include "redis/request.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace nimbus::redis {

class Client : protected Connection::Owner {
 public:
  struct Options {
    std::vector<Address>
        addresses;  // of one server, or of some nodes of a cluster, or of Sentinels
    bool cluster = false;
    std::string sentinel;  // the name of the primary, if the addresses are those of Sentinels
    Connection::Options connection;
    // How long a request may take in all, unless it has a deadline of its own.
    Millis timeout{4000};
    // Requests under way; further ones are refused (Unavailable).
    std::size_t max_pending = 100'000;
  };

  // What was published on a channel that is subscribed to, or that something may have been missed.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void onMessage(const std::string& channel) = 0;
    // Subscribed, perhaps again: what was published before was not heard.
    virtual void onSubscribed(const std::string& channel) = 0;
  };

  static std::unique_ptr<Client> make(boost::asio::any_io_executor executor, Options options);
  ~Client() override;

  // ---- on the executor

  void start();
  // Whatever waits fails. Nothing may be sent after it.
  Task<> stop();
  void send(std::shared_ptr<Request> request);
  // To sharded channels; `listener` must outlive stop(). A channel may be subscribed to once.
  void subscribe(const std::string& channel);
  void unsubscribe(const std::string& channel);
  void setListener(Listener* listener) { listener_ = listener; }
  // The primaries known now.
  virtual std::vector<Address> primaries() const = 0;

  // ---- on any thread

  // `key` says where; empty: anywhere. `node`: exactly there.
  Task<Result<Value>> execute(Command command, std::string key = {});
  Task<Result<Value>> executeOn(Address node, Command command);
  Task<std::vector<Address>> findPrimaries();

  SteadyTime deadline() const { return std::chrono::steady_clock::now() + options_.timeout; }

 protected:
  Client(boost::asio::any_io_executor executor, Options options);

  // The connection that shall have the request; null if none is known now.
  virtual Connection* route(const Request& request) = 0;
  // A slot has moved to an address.
  virtual void onMoved(std::uint16_t slot, const Address& address) = 0;
  // What is known of who has what may be wrong.
  virtual void lookAgain() = 0;
  virtual Address homeOf(const std::string& channel) const = 0;

  Connection& connectionTo(const Address& address);
  const Options& options() const { return options_; }
  const boost::asio::any_io_executor& executor() const { return executor_; }
  TaskGroup& tasks() { return tasks_; }
  bool stopped() const { return stopped_; }
  // All that are connected, or try to.
  const std::map<Address, std::shared_ptr<Connection>>& connections() const { return connections_; }
  void drop(const Address& address);
  void resubscribeAll();

  void onReply(Connection& from, std::shared_ptr<Request> request, Value answer) override;
  void onLost(std::shared_ptr<Request> request, Error error) override;
  void onPush(Connection& from, Value push) override;
  void onUp(Connection& connection) override;
  void onDown(Connection& connection, const Error& why) override;

 private:
  class Subscriptions;

  void dispatch(std::shared_ptr<Request> request);
  void retryLater(std::shared_ptr<Request> request, Error why);
  void retryDue();
  bool redirect(Connection& from, const std::shared_ptr<Request>& request, const Value& answer);
  void finish(const std::shared_ptr<Request>& request, Result<Value> answer);
  Task<Result<Value>> executeRequest(Command command, std::string key, std::optional<Address> node);

  const boost::asio::any_io_executor executor_;
  const Options options_;
  TaskGroup tasks_;
  std::map<Address, std::shared_ptr<Connection>> connections_;
  std::unique_ptr<Subscriptions> subscriptions_;
  Listener* listener_ = nullptr;
  std::set<Address> away_;  // whose being away was logged
  std::multimap<SteadyTime, std::pair<std::shared_ptr<Request>, Error>> retries_;
  boost::asio::steady_timer retry_timer_;
  std::size_t pending_ = 0;
  bool stopped_ = false;
};

}  // namespace nimbus::redis
