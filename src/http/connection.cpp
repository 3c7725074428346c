#include "http/connection.h"

#include "base/log.h"
#include "http/problem.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <tuple>
#include <utility>

namespace nimbus::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// Answers gathered for one write; with more than this waiting they go out first.
constexpr std::size_t kMostGathered = 64 * 1024;

Refusal tooLate() {
  return {408, Code::Timeout, "the request did not arrive in time"};
}

}  // namespace

void Connection::start(std::shared_ptr<Lane> lane, Socket socket, Role role) {
  const auto executor = socket.get_executor();
  auto owner = std::make_unique<Connection>(std::move(lane), std::move(socket), role);
  Connection& connection = *owner;
  // The signal lives in the connection, so the connection lives until the task has let go of it.
  auto ended = [owner = std::move(owner)](const std::exception_ptr& failure) mutable {
    if (failure) {
      try {
        std::rethrow_exception(failure);
      } catch (const boost::system::system_error&) {
        // Cut off, or the client vanished in the middle of something.
      } catch (const std::exception& error) {
        log::error("a connection failed", {{"reason", error.what()}});
      }
    }
    owner.reset();
  };
  asio::co_spawn(executor, connection.run(),
                 asio::bind_cancellation_slot(connection.cancel_.slot(), std::move(ended)));
}

Connection::Connection(std::shared_ptr<Lane> lane, Socket socket, Role role)
    : lane_(std::move(lane)), socket_(std::move(socket)), role_(role) {
  enter(Phase::Idle, options().idle_timeout);
  lane_->add(*this);
  if (auto* observer = lane_->settings().hooks.observer) observer->onConnectionOpened();
}

Connection::~Connection() {
  if (work_) lane_->giveBack(std::move(work_));
  if (auto* observer = lane_->settings().hooks.observer) observer->onConnectionClosed();
  lane_->remove(*this);
}

Task<> Connection::run() {
  error_code failure;
  // Answers are written whole: waiting to fill a packet could only delay them.
  socket_.set_option(asio::ip::tcp::no_delay(true), failure);
  socket_.non_blocking(true, failure);
  const auto peer = socket_.remote_endpoint(failure);
  if (failure) co_return;  // it left already
  peer_address_ = peer.address().to_string();

  if (const auto& tls = lane_->settings().tls) {
    if (role_ == Role::TurnAway) co_return;  // a handshake to say no is not worth it
    tls_ = std::make_unique<asio::ssl::stream<Socket&>>(socket_, *tls);
    enter(Phase::Handshake, options().header_timeout);
    const auto [refused] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
    if (refused) co_return;
  }
  if (role_ == Role::TurnAway) {
    co_await turnAway();
  } else {
    co_await serve();
  }
  co_await close();
}

Task<> Connection::serve() {
  while (!is_broken_) {
    switch (work_ ? scanHead() : HeadScanner::Found::NeedMore) {
      case HeadScanner::Found::Head:
        if (!co_await answerRequest()) co_return;
        continue;
      case HeadScanner::Found::Refused:
        beginRequest(work_->in->view().size());
        co_await refuse(work_->scanner.refusal());
        co_return;
      case HeadScanner::Found::NeedMore:
        break;
    }
    if (work_ && !work_->out.empty() && !flushNow() && !co_await flushSlowly()) co_return;
    awaitRequest();
    if (phase_ == Phase::Idle && lane_->isStopping()) co_return;
    if (!work_) {
      // TLS may have read the first request together with the end of the handshake; then nothing
      // more need ever come.
      if (!tls_) {
        const auto [failure] = co_await socket_.async_wait(Socket::wait_read, kAwait);
        if (failure) co_return;
      }
      work_ = lane_->borrow();
    }
    if (!makeRoom()) co_return;
    const auto space = asio::buffer(work_->in->space(), work_->in->spaceSize());
    // A read looks before it waits, mostly in vain. To wait without looking would cost more: Asio
    // then arms the descriptor anew.
    const auto [failure, count] = tls_ ? co_await tls_->async_read_some(space, kAwait)
                                       : co_await socket_.async_read_some(space, kAwait);
    switch (received(failure, count)) {
      case Received::Bytes:
        work_->in->produced(count);
        continue;
      case Received::Parked:
        lane_->giveBack(std::move(work_));
        continue;
      case Received::Expired:
        beginRequest(work_->in->view().size());
        co_await refuse(tooLate());
        co_return;
      case Received::Ended:
        co_return;
    }
  }
}

// Decides what the connection waits for, and how long.
void Connection::awaitRequest() {
  const bool has_begun = work_ && !work_->in->empty();
  if (has_begun && phase_ == Phase::Head) return;  // the head's time runs from its first byte
  if (has_begun) {
    enter(Phase::Head, options().header_timeout);
    return;
  }
  enter(Phase::Idle, options().idle_timeout);
  // TLS may hold decrypted bytes that the socket would not announce.
  if (work_ && !tls_ && !lane_->hasRoomToIdle()) lane_->giveBack(std::move(work_));
}

Connection::Received Connection::received(const error_code& failure, std::size_t count) {
  const bool was_expired = std::exchange(is_expired_, false);
  const bool was_parking = std::exchange(is_parking_, false);
  if (!failure && count > 0) return Received::Bytes;
  if (failure != asio::error::operation_aborted) return Received::Ended;
  if (was_expired) return phase_ == Phase::Idle ? Received::Ended : Received::Expired;
  return was_parking ? Received::Parked : Received::Ended;
}

HeadScanner::Found Connection::scanHead() {
  if (!skipped_blank_ && work_->in->view().starts_with("\r\n")) {
    // Some old clients end a body with a line break of their own (RFC 9112 section 2.2).
    work_->in->consume(2);
    work_->scanner.reset();
    skipped_blank_ = true;
  }
  return work_->scanner.scan(work_->in->view(), options().head);
}

// Makes sure there is room to read into. The scanner bounds how much is ever needed.
bool Connection::makeRoom() {
  Buffer& in = *work_->in;
  in.compact();
  if (in.spaceSize() > 0) return true;
  auto larger = std::make_unique<Buffer>(options().head.max_header_bytes + Buffer::kSize);
  const std::string_view held = in.view();
  if (held.size() >= larger->capacity()) return false;
  std::copy(held.begin(), held.end(), larger->space());
  larger->produced(held.size());
  work_->in = std::move(larger);
  return true;
}

void Connection::beginRequest(std::size_t received) {
  phase_ = Phase::Processing;
  Request& request = work_->request;
  request.reset();
  request.id = lane_->requestIds().next(work_->id);
  request.peer_address = peer_address_;
  route_ = nullptr;
  received_size_ = received;
  if (isObserved()) request_time_ = lane_->settings().clock().now();
}

Task<bool> Connection::answerRequest() {
  beginRequest(work_->scanner.headSize());
  if (auto refusal = takeHead()) {
    co_await refuse(*std::move(refusal));
    co_return false;
  }
  Request& request = work_->request;
  std::optional<Response> answer = findRoute();
  if (work_->framing.content_length > maxBody()) {
    co_await refuse(Refusal(413, Code::TooLarge, "the request body is too long"));
    co_return false;
  }
  if (auto* authorizer = lane_->settings().hooks.authorizer; authorizer != nullptr && !answer) {
    const auto allowed = co_await authorizer->authorize(request, *route_);
    if (!allowed) answer = problem(allowed.error(), request.id);
  }

  const bool has_body_begun = !work_->in->empty();
  Body body = takeBody();
  if (body == Body::NeedMore && !answer) {
    // A client that waits for leave to send its body has not begun it.
    if (work_->framing.expects_continue && !has_body_begun) work_->out += kContinue;
    body = co_await readBody();
  }
  received_size_ += request.body.size();
  switch (body) {
    case Body::Complete:
      break;
    case Body::NeedMore:
      // A body we do not want to wait for ends the connection: its bytes must not be read as a
      // request.
      must_close_ = has_unread_ = true;
      break;
    case Body::Refused:
      co_await refuse(work_->chunked.refusal());
      co_return false;
    case Body::Late:
      co_await refuse(tooLate());
      co_return false;
    case Body::Gone:
      co_return false;
  }

  if (!answer) {
    phase_ = Phase::Handling;
    if (!work_->out.empty()) {
      if (!tls_) {
        lane_->flushSoon(*this);
      } else if (!co_await flush()) {
        co_return false;
      }
    }
    answer = co_await respond(*route_);
  }
  if (!append(*answer) && !co_await sendRest(*std::move(answer))) co_return false;
  finishRequest();
  co_return !must_close_;
}

std::optional<Refusal> Connection::takeHead() {
  const std::string_view head = work_->in->view().substr(0, work_->scanner.headSize());
  auto refusal = parseHead(head, options().head, work_->request, work_->framing);
  if (refusal) return refusal;
  // The head stays where it is: the request's views point into it.
  work_->in->consumeInPlace(head.size());
  must_close_ = !work_->framing.keep_alive;
  return std::nullopt;
}

std::size_t Connection::maxBody() const {
  return std::max(options().max_body_bytes, route_ != nullptr ? route_->max_body_bytes : 0);
}

std::optional<Response> Connection::findRoute() {
  const auto match = lane_->settings().router.match(work_->request);
  if (!match) return problem(match.error(), work_->request.id);
  if (match->route == nullptr) return unrouted(*match);
  route_ = match->route;
  return std::nullopt;
}

Response Connection::unrouted(const Router::Match& match) const {
  const Request& request = work_->request;
  if (request.method == Method::Options && request.raw_path == "*") return Response::noContent();
  if (match.allowed.empty()) {
    return problem(Error(Code::NotFound, "there is nothing at this path"), request.id);
  }
  if (request.method == Method::Options) {
    Response response = Response::noContent();
    response.header("Allow", match.allowed);
    return response;
  }
  return problem(Error(Code::MethodNotAllowed, "this path does not have that method")
                     .with("allowed", match.allowed),
                 request.id);
}

Task<Response> Connection::respond(const Route& route) {
  std::optional<Result<Response>> result;
  std::string reason = "an exception of unknown type";
  try {
    result = co_await route.handler(work_->request);
  } catch (const std::exception& failure) {
    reason = failure.what();
  } catch (...) {
  }
  phase_ = Phase::Processing;
  if (is_watching_ || has_left_) {
    // Cancelled or not, there is an answer to make, and a cancelled task cannot await anything.
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    if (is_watching_) co_await endWatch();
    co_await asio::this_coro::reset_cancellation_state(asio::enable_terminal_cancellation());
  }
  if (result && *result) co_return **std::move(result);

  const std::string_view id = work_->request.id;
  if (has_left_) {
    co_return problem(Refusal(499, Code::Unavailable, "the client did not wait for this"), id);
  }
  if (result) {
    if (result->error().code() == Code::Internal) {
      log::error(
          "a request failed",
          {{"request_id", id}, {"route", route.pattern}, {"reason", result->error().message()}});
    }
    co_return problem(result->error(), id);
  }
  if (is_cut_off_) {
    co_return problem(Error(Code::Unavailable, "the server stops", Outcome::Unknown), id);
  }
  log::error("a handler threw", {{"request_id", id}, {"route", route.pattern}, {"reason", reason}});
  // What was thrown is for the log; it may name files or hold other people's data.
  co_return problem(
      Error(Code::Internal, "an internal error; the log has more under this id", Outcome::Unknown),
      id);
}

Connection::Body Connection::takeBody() {
  Buffer& source = work_->body_in ? *work_->body_in : *work_->in;
  std::string& body = work_->request.body;
  if (work_->framing.body == Framing::Body::None) return Body::Complete;
  if (work_->framing.body == Framing::Body::Length) {
    const std::string_view have =
        source.view().substr(0, work_->framing.content_length - body.size());
    body.append(have);
    source.consumeInPlace(have.size());
    return body.size() == work_->framing.content_length ? Body::Complete : Body::NeedMore;
  }
  std::string_view bytes = source.view();
  const std::size_t before = bytes.size();
  const auto progress = work_->chunked.decode(bytes, maxBody(), body);
  source.consumeInPlace(before - bytes.size());
  if (progress == ChunkedDecoder::Progress::Done) return Body::Complete;
  return progress == ChunkedDecoder::Progress::Refused ? Body::Refused : Body::NeedMore;
}

Task<Connection::Body> Connection::readBody() {
  if (!work_->out.empty() && !co_await flush()) co_return Body::Gone;

  // Not into the head's buffer, where the request's views point.
  work_->body_in = std::make_unique<Buffer>(Buffer::kSize);
  const Time last = lane_->now() + options().body_total_timeout;
  Body body = Body::NeedMore;
  while (body == Body::NeedMore) {
    enter(Phase::Body, options().body_timeout);
    deadline_ = std::min(deadline_, last);
    work_->body_in->clear();
    const auto space = asio::buffer(work_->body_in->space(), work_->body_in->spaceSize());
    const auto [failure, count] = tls_ ? co_await tls_->async_read_some(space, kAwait)
                                       : co_await socket_.async_read_some(space, kAwait);
    const Received outcome = received(failure, count);
    if (outcome == Received::Expired) co_return Body::Late;
    if (outcome != Received::Bytes) co_return Body::Gone;
    work_->body_in->produced(count);
    body = takeBody();
  }
  co_return body;
}

// Leaves in work_->in what came after the request.
void Connection::finishRequest() {
  if (work_->body_in) {
    work_->in = std::move(work_->body_in);
  } else {
    work_->in->consume(0);
  }
  work_->scanner.reset();
  if (work_->framing.body == Framing::Body::Chunked) work_->chunked.reset();
  skipped_blank_ = false;
}

// Adds the answer to what will be written. False: only its head, sendRest() must follow.
bool Connection::append(const Response& response) {
  const Request& request = work_->request;
  must_close_ = must_close_ || lane_->isStopping() || response.stream != nullptr;
  HeadFacts facts{.date_line = lane_->date().now(),
                  .request_id = request.id,
                  .more_fields = request.answer_fields.text()};
  facts.is_chunked = response.stream != nullptr && request.version == 11;
  if (must_close_) {
    facts.persistence = Persistence::Close;
  } else if (request.version == 10) {
    facts.persistence = Persistence::KeepAliveSaidAloud;
  }
  std::string& out = work_->out;
  const std::size_t before = out.size();
  appendHead(out, response, facts);
  const bool has_body = request.method != Method::Head && mayHaveBody(response.status);
  if (!has_body) {
    report(response.status, out.size() - before);
    if (response.stream) response.stream->end();
    return true;
  }
  if (response.stream) return false;
  const std::string_view content = response.content();
  report(response.status, out.size() - before + content.size());
  if (out.size() + content.size() > kMostGathered) return false;
  out += content;
  return true;
}

Task<bool> Connection::sendRest(Response response) {
  if (!response.stream) co_return co_await writeLarge(response.content());
  co_await stream(std::move(response));
  co_return false;
}

bool Connection::isObserved() const {
  const Settings& settings = lane_->settings();
  return settings.hooks.observer != nullptr || settings.options.access_log;
}

void Connection::report(int status, std::size_t bytes_out) {
  if (!isObserved()) return;
  const Settings& settings = lane_->settings();
  const Request& request = work_->request;
  const Exchange exchange{.route = route_ != nullptr ? std::string_view(route_->pattern) : "",
                          .method = request.method,
                          .status = status,
                          .duration = settings.clock().now() - request_time_,
                          .bytes_in = received_size_,
                          .bytes_out = bytes_out,
                          .request_id = request.id};
  if (settings.hooks.observer != nullptr) settings.hooks.observer->onRequest(exchange);
  if (!settings.options.access_log) return;
  // Whoever asks for this line wants it, however little else is to be logged.
  log::write(log::Level::Info, "request",
             {{"request_id", request.id},
              {"peer", request.peer_address},
              {"method", methodName(request.method)},
              {"path", request.path},
              {"status", status},
              {"duration_us",
               std::chrono::duration_cast<std::chrono::microseconds>(exchange.duration).count()},
              {"bytes_in", exchange.bytes_in},
              {"bytes_out", exchange.bytes_out}});
}

Task<> Connection::refuse(Refusal refusal) {
  must_close_ = has_unread_ = true;
  Response answer = problem(refusal, work_->request.id);
  if (append(answer)) {
    co_await flush();
  } else {
    co_await sendRest(std::move(answer));  // behind answers that fill the buffer
  }
}

Task<> Connection::turnAway() {
  work_ = lane_->borrow();
  beginRequest(0);
  Refusal refusal(Error(Code::Unavailable, "too many connections").with("retry_after_ms", 1000));
  co_await refuse(std::move(refusal));
}

}  // namespace nimbus::http
