#include "client/client.h"

#include "base/version.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

namespace nimbus::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

Headers headersOf(const http::fields& fields) {
  Headers headers;
  for (const auto& field : fields) headers.emplace_back(field.name_string(), field.value());
  return headers;
}

template <typename Parser>
Answer headOf(const Parser& parser) {
  Answer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  answer.headers = headersOf(parser.get());
  return answer;
}

}  // namespace

std::string_view Answer::header(std::string_view name) const {
  for (const auto& [have, value] : headers) {
    if (beast::iequals(have, name)) return value;
  }
  return {};
}

struct Client::Connection {
  Connection() : tls(asio::ssl::context::tls_client), plain(context) {}

  // Runs one operation to its end. `start` begins it with the handler it is given; its deadline is
  // that of the stream.
  template <typename Start>
  error_code run(Start start) {
    error_code failure = asio::error::operation_aborted;
    start([&failure](const error_code& ended, auto&&... /*rest*/) { failure = ended; });
    context.restart();
    context.run();
    return failure;
  }

  template <typename Use>
  auto with(Use use) {
    return secure ? use(*secure) : use(plain);
  }

  beast::tcp_stream& lowest() { return secure ? beast::get_lowest_layer(*secure) : plain; }

  asio::io_context context{1};
  asio::ssl::context tls;
  beast::tcp_stream plain;
  std::optional<beast::ssl_stream<beast::tcp_stream>> secure;
  beast::flat_buffer buffer;
  bool was_used = false;
};

Client::Client(Url url, Options options) : url_(std::move(url)), options_(std::move(options)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

namespace {

Error failed(const Url& url, std::string_view doing, const error_code& why) {
  if (why == beast::error::timeout) {
    return {Code::Timeout, fmt::format("{} does not answer in time", url.text()), Outcome::Unknown};
  }
  if (why == http::error::end_of_stream || why == asio::error::eof) {
    return {Code::Unavailable, fmt::format("{} closed the connection", url.text()),
            Outcome::Unknown};
  }
  return {Code::Unavailable, fmt::format("{} {}: {}", doing, url.text(), why.message()),
          Outcome::Unknown};
}

http::request<http::string_body> messageOf(const Url& url, const std::string& key,
                                           const Request& request) {
  http::request<http::string_body> message;
  message.method_string(request.method);
  message.target(url.prefix + request.target);
  message.set(http::field::host, url.authority());
  message.set(http::field::user_agent, fmt::format("nimbus/{}", version()));
  if (!key.empty()) message.set(http::field::authorization, "Bearer " + key);
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  return message;
}

}  // namespace

Result<> Client::connect() {
  auto connection = std::make_unique<Connection>();
  error_code failure;
  tcp::resolver resolver(connection->context);
  const auto places = resolver.resolve(url_.host, std::to_string(url_.port), failure);
  if (failure) return failed(url_, "cannot find", failure);
  connection->plain.expires_after(options_.connect_timeout);
  failure =
      connection->run([&](auto done) { connection->plain.async_connect(places, std::move(done)); });
  if (failure) return failed(url_, "cannot reach", failure);
  connection->plain.socket().set_option(tcp::no_delay(true), failure);
  if (url_.tls) {
    connection->tls.set_default_verify_paths(failure);
    connection->secure.emplace(std::move(connection->plain), connection->tls);
    auto& secure = *connection->secure;
    secure.set_verify_mode(asio::ssl::verify_peer);
    secure.set_verify_callback(asio::ssl::host_name_verification(url_.host));
    ::SSL_set_tlsext_host_name(secure.native_handle(), url_.host.c_str());
    failure = connection->run([&](auto done) {
      secure.async_handshake(asio::ssl::stream_base::client, std::move(done));
    });
    if (failure) return failed(url_, "no trusted connection to", failure);
  }
  connection_ = std::move(connection);
  return {};
}

Result<Answer> Client::sendOnce(const Request& request) {
  if (!connection_) NIMBUS_CHECK(connect());
  Connection& connection = *connection_;
  connection.lowest().expires_after(request.timeout);
  const auto message = messageOf(url_, options_.key, request);
  error_code failure = connection.with([&](auto& stream) {
    return connection.run([&](auto done) { http::async_write(stream, message, std::move(done)); });
  });
  http::response_parser<http::string_body> parser;
  parser.body_limit(options_.max_body_bytes);
  if (request.method == "HEAD") parser.skip(true);
  // A server that refuses a body may have answered before it was all sent.
  const error_code read = connection.with([&](auto& stream) {
    return connection.run(
        [&](auto done) { http::async_read(stream, connection.buffer, parser, std::move(done)); });
  });
  if (!parser.is_done()) {
    connection_.reset();
    return failed(url_, "the connection broke to", failure ? failure : read);
  }
  Answer answer = headOf(parser);
  answer.body = std::move(parser.get().body());
  connection.was_used = true;
  if (failure || !parser.get().keep_alive()) connection_.reset();
  return answer;
}

Result<Answer> Client::send(const Request& request) {
  const bool was_kept = connection_ != nullptr && connection_->was_used;
  Result<Answer> answer = sendOnce(request);
  const bool may_repeat = request.method != "POST";
  if (answer || !was_kept || !may_repeat || answer.error().code() == Code::Timeout) return answer;
  return sendOnce(request);
}

Result<Answer> Client::follow(const Request& request, const EventReader::Sink& sink) {
  connection_.reset();  // what is left of a stream is of no use to anyone
  NIMBUS_CHECK(connect());
  const auto connection = std::move(connection_);
  connection->lowest().expires_after(request.timeout);
  const auto message = messageOf(url_, options_.key, request);
  return connection->with([&](auto& stream) -> Result<Answer> {
    error_code failure =
        connection->run([&](auto done) { http::async_write(stream, message, std::move(done)); });
    if (failure) return failed(url_, "the connection broke to", failure);
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    failure = connection->run([&](auto done) {
      http::async_read_header(stream, connection->buffer, parser, std::move(done));
    });
    if (failure) return failed(url_, "the connection broke to", failure);
    Answer answer = headOf(parser);
    const bool is_stream =
        answer.status == 200 && answer.header("Content-Type").starts_with("text/event-stream");
    if (is_stream) connection->lowest().expires_never();
    EventReader reader;
    std::array<char, 16UL * 1024> bytes;
    while (!parser.is_done()) {
      parser.get().body().data = bytes.data();
      parser.get().body().size = bytes.size();
      failure = connection->run([&](auto done) {
        http::async_read_some(stream, connection->buffer, parser, std::move(done));
      });
      const std::string_view got(bytes.data(), bytes.size() - parser.get().body().size);
      if (!is_stream) {
        answer.body += got;
      } else if (!reader.read(got, sink)) {
        return answer;
      }
      if (failure == http::error::need_buffer) continue;
      if (failure) return failed(url_, "the connection broke to", failure);
    }
    return answer;
  });
}

}  // namespace nimbus::client
