#include "cli/v1_source.h"

#include "redis/client.h"
#include "redis/command.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>

namespace nimbus::cli {

namespace asio = boost::asio;
using redis::Command;
using redis::Value;

namespace {

constexpr std::int64_t kAtOnce = 500;

redis::Client::Options optionsOf(const redis::Url& url) {
  redis::Client::Options options;
  options.addresses = url.addresses;
  options.cluster = url.cluster;
  options.connection.credentials = url.credentials;
  options.connection.database = url.database;
  options.timeout = Millis(10'000);
  if (url.tls) {
    auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
    tls->set_default_verify_paths();
    tls->set_verify_mode(asio::ssl::verify_peer);
    options.connection.tls = std::move(tls);
  }
  return options;
}

Error odd(std::string_view command) {
  return {Code::Internal, "Redis answered " + std::string(command) + " with something else"};
}

}  // namespace

struct V1Source::Connection {
  explicit Connection(const redis::Url& url)
      : work(asio::make_work_guard(context)),
        client(redis::Client::make(context.get_executor(), optionsOf(url))),
        thread([this] { context.run(); }) {
    asio::post(context, [this] { client->start(); });
  }
  ~Connection() {
    asio::co_spawn(context, client->stop(), asio::use_future).get();
    work.reset();
    thread.join();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Result<Value> ask(const Command& command, const std::string& key) {
    return asio::co_spawn(context, client->execute(command, key), asio::use_future).get();
  }
  Result<Value> askOn(const redis::Address& node, const Command& command) {
    return asio::co_spawn(context, client->executeOn(node, command), asio::use_future).get();
  }
  std::vector<redis::Address> nodes() {
    return asio::co_spawn(context, client->findPrimaries(), asio::use_future).get();
  }

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::unique_ptr<redis::Client> client;
  std::thread thread;
};

V1Source::V1Source(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
V1Source::~V1Source() = default;
V1Source::V1Source(V1Source&&) noexcept = default;

Result<V1Source> V1Source::open(const redis::Url& url) {
  V1Source source(std::make_unique<Connection>(url));
  NIMBUS_CHECK(source.connection_->ask(Command("PING"), ""));
  return source;
}

Result<std::vector<std::string>> V1Source::keys(std::string_view prefix, std::string_view type) {
  std::set<std::string> found;  // SCAN may name a key twice
  for (const redis::Address& node : connection_->nodes()) {
    std::string cursor = "0";
    do {
      Command scan("SCAN");
      scan.add(cursor).add("MATCH").add(std::string(prefix) + "*").add("COUNT").add(kAtOnce);
      scan.add("TYPE").add(type);
      NIMBUS_TRY(const Value answer, connection_->askOn(node, scan));
      if (answer.items.size() != 2) return odd("SCAN");
      cursor = answer.items[0].text;
      for (const Value& key : answer.items[1].items) found.insert(key.text);
    } while (cursor != "0");
  }
  return std::vector<std::string>(found.begin(), found.end());
}

Result<std::vector<std::pair<std::string, std::string>>> V1Source::fields(const std::string& key) {
  std::set<std::pair<std::string, std::string>> found;
  std::string cursor = "0";
  do {
    Command scan("HSCAN");
    scan.add(key).add(cursor).add("COUNT").add(kAtOnce);
    NIMBUS_TRY(const Value answer, connection_->ask(scan, key));
    if (answer.items.size() != 2) return odd("HSCAN");
    cursor = answer.items[0].text;
    const std::vector<Value>& items = answer.items[1].items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      found.emplace(items[i].text, items[i + 1].text);
    }
  } while (cursor != "0");
  return std::vector<std::pair<std::string, std::string>>(found.begin(), found.end());
}

Result<std::uint64_t> V1Source::count(const std::string& key) {
  NIMBUS_TRY(const Value answer, connection_->ask(Command("ZCARD").add(key), key));
  if (answer.isInteger()) return static_cast<std::uint64_t>(answer.integer);
  return odd("ZCARD");
}

Result<> V1Source::members(const std::string& key, const Sink& sink) {
  std::vector<V1Member> members;
  for (std::int64_t at = 0;; at += kAtOnce) {
    Command range("ZRANGE");
    range.add(key).add(at).add(at + kAtOnce - 1).add("WITHSCORES");
    NIMBUS_TRY(Value answer, connection_->ask(range, key));
    std::vector<Value> flat;  // RESP3 pairs them
    for (Value& item : answer.items) {
      if (item.isArray()) {
        std::move(item.items.begin(), item.items.end(), std::back_inserter(flat));
      } else {
        flat.push_back(std::move(item));
      }
    }
    for (std::size_t i = 0; i + 1 < flat.size(); i += 2) {
      members.push_back({std::move(flat[i].text), std::strtod(flat[i + 1].text.c_str(), nullptr)});
    }
    const bool is_last = flat.size() < 2 * static_cast<std::size_t>(kAtOnce);
    // Those of the last score may go on, and are put in order together.
    std::size_t ready = members.size();
    while (!is_last && ready > 0 && members[ready - 1].score == members.back().score) --ready;
    std::vector<V1Member> some(
        std::make_move_iterator(members.begin()),
        std::make_move_iterator(members.begin() + static_cast<std::ptrdiff_t>(ready)));
    members.erase(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(ready));
    orderV1Members(some);
    if (!some.empty()) NIMBUS_CHECK(sink(std::move(some)));
    if (is_last) return {};
  }
}

}  // namespace nimbus::cli
