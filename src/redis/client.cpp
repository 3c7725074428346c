#include "redis/client.h"

#include "base/log.h"
#include "base/one_shot.h"
#include "base/random.h"
#include "redis/cluster.h"
#include "redis/single.h"
#include "redis/slot.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::redis {

namespace asio = boost::asio;

namespace {

using Steady = std::chrono::steady_clock;

// A request that a task waits for.
class Awaited final : public Request {
 public:
  void onAnswer(Result<Value> answer) override { done.set(std::move(answer)); }

  OneShot<Result<Value>> done;
};

Millis pauseBefore(unsigned int attempt) {
  SystemRandom random;
  const std::int64_t longest = std::min<std::int64_t>(200, 10LL << std::min(attempt, 6U));
  return Millis(longest / 2 + static_cast<std::int64_t>(
                                  random.below(static_cast<std::uint64_t>(longest / 2) + 1)));
}

// Whoever lets go of a connection does not wait for its end.
Task<> stopKept(std::shared_ptr<Connection> connection) {
  co_await connection->stop();
}

struct Redirection {
  std::uint16_t slot = 0;
  Address address;
};

// "MOVED 3999 127.0.0.1:6381". A server that does not know its own name leaves the host out.
std::optional<Redirection> redirection(const std::string& text, const Address& from) {
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  if (first == text.npos || second == text.npos) return std::nullopt;
  std::string where = text.substr(second + 1);
  const std::size_t colon = where.rfind(':');
  if (colon == where.npos) return std::nullopt;
  Redirection found;
  found.address.host = where.substr(0, colon);
  if (found.address.host.empty()) found.address.host = from.host;
  try {
    found.slot = static_cast<std::uint16_t>(std::stoul(text.substr(first + 1)) % kSlots);
    found.address.port = static_cast<std::uint16_t>(std::stoul(where.substr(colon + 1)));
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return found;
}

}  // namespace

Error errorOf(const Value& answer) {
  const auto is = [&](std::string_view code) { return answer.isError(code); };
  const std::string message = "Redis: " + answer.text;
  if (is("OOM")) return {Code::InsufficientStorage, message};
  if (is("NOAUTH") || is("WRONGPASS") || is("NOPERM")) return {Code::Forbidden, message};
  for (const char* code : {"MOVED", "ASK", "TRYAGAIN", "LOADING", "CLUSTERDOWN", "READONLY",
                           "NOSCRIPT", "MASTERDOWN", "MISCONF", "NOREPLICAS", "BUSY"}) {
    if (is(code)) return {Code::Unavailable, message};
  }
  return {Code::Internal, message, Outcome::Unknown};
}

// ---- subscriptions: connections of their own, because a subscription is answered by a push, and a
// refused one by an error that stands in no order

class Client::Subscriptions final : public Connection::Owner {
 public:
  explicit Subscriptions(Client& client) : client_(client) {}

  void add(const std::string& channel) {
    channels_.insert(channel);
    ask(channel);
  }
  void remove(const std::string& channel) {
    channels_.erase(channel);
    for (const auto& [address, connection] : connections_) {
      if (address == client_.homeOf(channel)) {
        connection->tell(Command("SUNSUBSCRIBE").add(channel).bytes());
      }
    }
  }
  void again() {
    for (const std::string& channel : channels_) ask(channel);
  }
  Task<> stop() {
    for (const auto& [address, connection] : connections_) co_await connection->stop();
  }

 private:
  void ask(const std::string& channel) {
    const Address home = client_.homeOf(channel);
    auto& connection = connections_[home];
    if (!connection) {
      connection =
          std::make_shared<Connection>(client_.executor_, home, client_.options_.connection, *this);
      connection->start();
    }
    connection->tell(Command("SSUBSCRIBE").add(channel).bytes());  // else onUp() does
  }
  void onReply(Connection&, std::shared_ptr<Request>, Value) override {}
  void onLost(std::shared_ptr<Request>, Error) override {}
  void onPush(Connection&, Value push) override {
    if (push.isError()) {  // the slot is elsewhere
      client_.lookAgain();
      return;
    }
    if (push.items.size() < 2 || client_.listener_ == nullptr) return;
    const std::string& kind = push.items[0].text;
    const std::string& channel = push.items[1].text;
    if (kind == "smessage") {
      client_.listener_->onMessage(channel);
    } else if (kind == "ssubscribe") {
      client_.listener_->onSubscribed(channel);
    } else if (kind == "sunsubscribe" && channels_.contains(channel)) {
      client_.lookAgain();  // it was not us: its slot has moved
    }
  }
  void onUp(Connection& connection) override {
    for (const std::string& channel : channels_) {
      const auto home = connections_.find(client_.homeOf(channel));
      if (home == connections_.end() || home->second.get() != &connection) continue;
      connection.tell(Command("SSUBSCRIBE").add(channel).bytes());
    }
  }
  void onDown(Connection&, const Error&) override { client_.lookAgain(); }

  Client& client_;
  std::set<std::string> channels_;
  std::map<Address, std::shared_ptr<Connection>> connections_;
};

// ---- the client

std::unique_ptr<Client> Client::make(asio::any_io_executor executor, Options options) {
  if (options.cluster) return std::make_unique<Cluster>(std::move(executor), std::move(options));
  return std::make_unique<Single>(std::move(executor), std::move(options));
}

Client::Client(asio::any_io_executor executor, Options options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      tasks_(executor_, "redis client"),
      subscriptions_(std::make_unique<Subscriptions>(*this)),
      retry_timer_(executor_) {}

Client::~Client() = default;

void Client::start() {
  lookAgain();
}

Task<> Client::stop() {
  stopped_ = true;
  retry_timer_.cancel();
  tasks_.cancel();
  co_await subscriptions_->stop();
  for (const auto& [address, connection] : std::map(connections_)) co_await connection->stop();
  for (auto& [when, waiting] : std::exchange(retries_, {})) {
    finish(waiting.first, Error(Code::Unavailable, "the client was stopped"));
  }
  co_await tasks_.join();
}

Connection& Client::connectionTo(const Address& address) {
  auto& connection = connections_[address];
  if (!connection) {
    Connection::Owner& owner = *this;
    connection = std::make_shared<Connection>(executor_, address, options_.connection, owner);
    connection->start();
  }
  return *connection;
}

void Client::drop(const Address& address) {
  const auto found = connections_.find(address);
  if (found == connections_.end()) return;
  tasks_.add(stopKept(std::move(found->second)));
  connections_.erase(found);
}

void Client::send(std::shared_ptr<Request> request) {
  if (stopped_ || pending_ >= options_.max_pending) {
    // Posted, like every other answer: whoever sends need not expect one before send() returns.
    asio::post(executor_, [request = std::move(request), stopped = stopped_] {
      request->onAnswer(Error(Code::Unavailable, stopped ? "the client was stopped"
                                                         : "too many requests wait for Redis"));
    });
    return;
  }
  ++pending_;
  dispatch(std::move(request));
}

void Client::dispatch(std::shared_ptr<Request> request) {
  Connection* const connection = request->node ? &connectionTo(*request->node) : route(*request);
  if (connection == nullptr) {
    retryLater(std::move(request), Error(Code::Unavailable, "no node of Redis is known"));
  } else {
    connection->send(std::move(request));
  }
}

void Client::finish(const std::shared_ptr<Request>& request, Result<Value> answer) {
  --pending_;
  request->onAnswer(std::move(answer));
}

void Client::retryLater(std::shared_ptr<Request> request, Error why) {
  const SteadyTime when = Steady::now() + pauseBefore(request->attempts++);
  if (stopped_ || when >= request->deadline) {
    finish(request, Error(why.code(), why.message(), Outcome::NotApplied));
    return;
  }
  retries_.emplace(when, std::pair(std::move(request), std::move(why)));
  retry_timer_.expires_at(retries_.begin()->first);
  retry_timer_.async_wait([this](const boost::system::error_code& failure) {
    if (!failure && !stopped_) retryDue();
  });
}

void Client::retryDue() {
  const SteadyTime now = Steady::now();
  while (!retries_.empty() && retries_.begin()->first <= now) {
    auto request = std::move(retries_.begin()->second.first);
    retries_.erase(retries_.begin());
    dispatch(std::move(request));
  }
  if (retries_.empty()) return;
  retry_timer_.expires_at(retries_.begin()->first);
  retry_timer_.async_wait([this](const boost::system::error_code& failure) {
    if (!failure && !stopped_) retryDue();
  });
}

void Client::onReply(Connection& from, std::shared_ptr<Request> request, Value answer) {
  if (!answer.isError()) {
    finish(request, std::move(answer));
  } else if (!redirect(from, request, answer)) {
    finish(request, errorOf(answer));
  }
}

// Sends a request elsewhere, or again, if that is what the answer asks for.
bool Client::redirect(Connection& from, const std::shared_ptr<Request>& request,
                      const Value& answer) {
  constexpr unsigned int kMaxAtOnce = 8;  // more follow with pauses
  if (answer.isError("NOSCRIPT") && request->script != nullptr) {
    if (request->attempts++ >= kMaxAtOnce) return false;
    Preface load{Command("SCRIPT").add("LOAD").add(request->script->body()).bytes(), 1};
    from.send(request, std::move(load));
    return true;
  }
  const bool moved = answer.isError("MOVED");
  if (moved || answer.isError("ASK")) {
    const auto where = redirection(answer.text, from.address());
    if (!where) return false;
    if (moved) onMoved(where->slot, where->address);
    if (request->attempts++ >= kMaxAtOnce) {
      retryLater(request, errorOf(answer));
    } else {
      connectionTo(where->address)
          .send(request, moved ? Preface() : Preface{Command("ASKING").bytes(), 1});
    }
    return true;
  }
  if (answer.isError("READONLY") || answer.isError("MASTERDOWN")) {
    lookAgain();
    from.reset();  // the primary is another one now
    retryLater(request, errorOf(answer));
    return true;
  }
  if (answer.isError("TRYAGAIN") || answer.isError("LOADING") || answer.isError("CLUSTERDOWN")) {
    if (answer.isError("CLUSTERDOWN")) lookAgain();
    retryLater(request, errorOf(answer));
    return true;
  }
  return false;
}

void Client::onLost(std::shared_ptr<Request> request, Error error) {
  if (error.outcome() == Outcome::NotApplied || request->repeatable) {
    retryLater(std::move(request), std::move(error));
  } else {
    finish(request, std::move(error));
  }
}

void Client::onPush(Connection&, Value) {}

void Client::onUp(Connection& connection) {
  away_.erase(connection.address());
  log::info("connected to Redis", {{"address", toString(connection.address())}});
}

void Client::onDown(Connection& connection, const Error& why) {
  if (away_.insert(connection.address()).second) {
    log::warn("Redis is away",
              {{"address", toString(connection.address())}, {"reason", why.message()}});
  }
  lookAgain();
}

void Client::subscribe(const std::string& channel) {
  subscriptions_->add(channel);
}
void Client::unsubscribe(const std::string& channel) {
  subscriptions_->remove(channel);
}
void Client::resubscribeAll() {
  subscriptions_->again();
}

Task<Result<Value>> Client::executeRequest(Command command, std::string key,
                                           std::optional<Address> node) {
  auto request = std::make_shared<Awaited>();
  request->bytes = command.bytes();
  if (!key.empty()) request->slot = slotOf(key);
  request->node = std::move(node);
  request->deadline = deadline();
  request->repeatable = true;
  asio::post(executor_, [this, request] { send(request); });
  co_return co_await request->done.wait(request);
}

Task<Result<Value>> Client::execute(Command command, std::string key) {
  return executeRequest(std::move(command), std::move(key), std::nullopt);
}
Task<Result<Value>> Client::executeOn(Address node, Command command) {
  return executeRequest(std::move(command), {}, std::move(node));
}

Task<std::vector<Address>> Client::findPrimaries() {
  auto found = std::make_shared<OneShot<std::vector<Address>>>();
  asio::post(executor_, [this, found] { found->set(primaries()); });
  co_return co_await found->wait(found);
}

}  // namespace nimbus::redis
