#include "redis/connection.h"

#include "base/one_shot.h"
#include "base/random.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::redis {

namespace asio = boost::asio;

namespace {

using Steady = std::chrono::steady_clock;

// How often deadlines are looked at.
constexpr Millis kTick{100};

// What was sent late is still given some time: to give up on it is to give up on all behind it.
constexpr Millis kLeastPatience{1000};

// Half of it at random: many clients that lost one server must not come back at one moment.
Millis jittered(Millis time) {
  SystemRandom random;
  const auto half = time / 2;
  return half + Millis(random.below(static_cast<std::uint64_t>(half.count()) + 1));
}

}  // namespace

Connection::Connection(asio::any_io_executor executor, Address address, Options options,
                       Owner& owner)
    : executor_(std::move(executor)),
      address_(std::move(address)),
      options_(std::move(options)),
      owner_(owner),
      tasks_(executor_, "redis connection") {}

void Connection::start() {
  tasks_.add(run());
  tasks_.add(watch());
}

Task<> Connection::stop() {
  const auto self = shared_from_this();
  stopped_ = true;
  ++generation_;
  if (transport_) transport_->close();
  tasks_.cancel();
  co_await tasks_.join();
  lose(Error(Code::Unavailable, "the client was stopped"));
}

void Connection::reset() {
  if (transport_) transport_->close();
}

Error Connection::awayBecause(const Error& why, Outcome outcome) const {
  return {Code::Unavailable,
          fmt::format("Redis at {} is away: {}", toString(address_), why.message()), outcome};
}

// ---- the life of the connection

Task<> Connection::run() {
  Millis backoff = options_.least_backoff;
  while (!stopped_) {
    state_ = State::Connecting;
    auto up = co_await connect();
    if (up) {
      state_ = State::Up;
      backoff = options_.least_backoff;
      owner_.onUp(*this);
      scheduleFlush();
      up = co_await readUntilLost();
    }
    if (stopped_) co_return;
    state_ = State::Waiting;
    last_failure_ = up.error();
    ++generation_;
    transport_->close();
    lose(up.error());
    owner_.onDown(*this, up.error());
    asio::steady_timer timer(executor_, jittered(backoff));
    co_await timer.async_wait(asio::use_awaitable);
    backoff = std::min(backoff * 2, options_.longest_backoff);
  }
}

// Closes what has been silent for too long; run() then learns it as any other loss.
Task<> Connection::watch() {
  asio::steady_timer timer(executor_);
  while (!stopped_) {
    timer.expires_after(kTick);
    co_await timer.async_wait(asio::use_awaitable);
    const SteadyTime now = Steady::now();
    const bool slow_to_connect = state_ == State::Connecting && now > connecting_until_;
    const bool silent = !in_flight_.empty() && now > in_flight_.front().deadline;
    if ((slow_to_connect || silent) && transport_) transport_->close();
  }
}

Task<Result<>> Connection::connect() {
  connecting_until_ = Steady::now() + options_.connect_timeout;
  transport_ = makeTransport(executor_, options_.tls);
  parser_ = Parser();
  out_.clear();
  writing_ = false;
  if (options_.locate) {
    auto located = co_await options_.locate();
    if (!located) co_return std::move(located).error();
    address_ = *std::move(located);
  }
  NIMBUS_CO_CHECK(co_await transport_->open(address_));
  co_return co_await greet();
}

Task<Result<>> Connection::greet() {
  Command hello("HELLO");
  hello.add("3");
  if (!options_.credentials.password.empty()) {
    const std::string& user = options_.credentials.username;
    hello.add("AUTH").add(user.empty() ? "default" : user).add(options_.credentials.password);
  }
  hello.add("SETNAME").add("nimbus");
  auto greeting = std::make_shared<std::string>(hello.bytes());
  std::size_t answers = 1;
  if (options_.database != 0) {
    *greeting += Command("SELECT").add(options_.database).bytes();
    ++answers;
  }
  transport_->write(asio::buffer(*greeting), [greeting, transport = transport_](const auto&) {});
  while (answers > 0) {
    NIMBUS_CO_TRY(const std::size_t size, co_await transport_->read(asio::buffer(read_buffer_)));
    parser_.feed({read_buffer_.data(), size});
    while (answers > 0) {
      NIMBUS_CO_TRY(const auto value, parser_.next());
      if (!value) break;
      if (value->isError()) co_return errorOf(*value);
      --answers;
    }
  }
  co_return Result<>();
}

Task<Error> Connection::readUntilLost() {
  while (true) {
    auto size = co_await transport_->read(asio::buffer(read_buffer_));
    if (!size) co_return std::move(size).error();
    parser_.feed({read_buffer_.data(), *size});
    // Whoever waits for one of these answers is woken together with the others.
    const ResumeTogether together;
    while (true) {
      auto value = parser_.next();
      if (!value) co_return std::move(value).error();
      if (!*value) break;
      if (auto taken = take(**std::move(value)); !taken) co_return std::move(taken).error();
    }
    if (!waiting_.empty()) scheduleFlush();
  }
}

// ---- answers

Result<> Connection::take(Value value) {
  if (value.kind == Value::Kind::Push) {
    owner_.onPush(*this, std::move(value));
    return {};
  }
  if (in_flight_.empty()) {
    if (!value.isError()) return Error(Code::Internal, "an answer to nothing", Outcome::Unknown);
    owner_.onPush(*this, std::move(value));
    return {};
  }
  InFlight& front = in_flight_.front();
  if (front.skip > 0) {
    --front.skip;
    return {};
  }
  InFlight entry = std::move(front);
  in_flight_.pop_front();
  takeAnswer(std::move(entry), std::move(value));
  return {};
}

void Connection::takeAnswer(InFlight entry, Value value) {
  if (!entry.request) {
    confirm(*entry.confirmed, value);
    return;
  }
  // What was refused has written nothing that a replica could have.
  if (entry.confirmed && value.isError()) (*entry.confirmed)[entry.place].reset();
  owner_.onReply(*this, std::move(entry.request), std::move(value));
}

void Connection::confirm(const Confirmed& confirmed, const Value& value) {
  Result<> result;
  if (!value.isInteger() || value.integer < options_.wait_replicas) {
    result = Error(Code::Unavailable,
                   fmt::format("{} of {} replicas have it", value.integer, options_.wait_replicas),
                   Outcome::Unknown);
  }
  for (const auto& request : confirmed) {
    if (request) request->onConfirmed(result);
  }
}

void Connection::lose(const Error& why) {
  const ResumeTogether together;
  auto in_flight = std::exchange(in_flight_, {});
  auto waiting = std::exchange(waiting_, {});
  confirming_ = std::make_shared<Confirmed>();
  // Those that were not answered are lost themselves, and must not hear of a WAIT as well.
  for (const InFlight& entry : in_flight) {
    if (entry.request && entry.confirmed) (*entry.confirmed)[entry.place].reset();
  }
  for (InFlight& entry : in_flight) {
    if (entry.request) {
      owner_.onLost(std::move(entry.request), awayBecause(why, Outcome::Unknown));
    } else {
      const Result<> lost = awayBecause(why, Outcome::Unknown);
      for (const auto& request : *entry.confirmed) {
        if (request) request->onConfirmed(lost);
      }
    }
  }
  for (Outgoing& outgoing : waiting) {
    owner_.onLost(std::move(outgoing.request), awayBecause(why, Outcome::NotApplied));
  }
}

// ---- commands

void Connection::send(std::shared_ptr<Request> request, Preface preface) {
  if (state_ == State::Waiting || stopped_) {
    asio::post(executor_, [self = shared_from_this(), request = std::move(request)]() mutable {
      self->owner_.onLost(std::move(request),
                          self->awayBecause(self->last_failure_, Outcome::NotApplied));
    });
    return;
  }
  waiting_.push_back({std::move(request), std::move(preface)});
  scheduleFlush();
}

void Connection::tell(const std::string& bytes) {
  if (state_ != State::Up) return;
  out_ += bytes;
  scheduleFlush();
}

// Posted, so that all that is sent in one turn of the loop is one write.
void Connection::scheduleFlush() {
  if (flush_scheduled_ || state_ != State::Up) return;
  flush_scheduled_ = true;
  asio::post(executor_, [self = shared_from_this()] {
    self->flush_scheduled_ = false;
    self->flush();
  });
}

void Connection::flush() {
  if (writing_ || state_ != State::Up || stopped_) return;
  const SteadyTime now = Steady::now();
  while (!waiting_.empty() && in_flight_.size() < options_.max_in_flight) {
    Outgoing next = std::move(waiting_.front());
    waiting_.pop_front();
    out_ += next.preface.bytes;
    out_ += next.request->bytes;
    InFlight entry{next.request, next.preface.answers, nullptr, 0,
                   std::max(next.request->deadline, now + kLeastPatience)};
    if (options_.wait_replicas > 0 && next.request->wants_replicas) {
      entry.confirmed = confirming_;
      entry.place = confirming_->size();
      confirming_->push_back(std::move(next.request));
    }
    in_flight_.push_back(std::move(entry));
  }
  if (!confirming_->empty()) addWait();
  if (out_.empty()) return;
  writing_ = true;
  // The transport and the bytes live until the write has ended, also if the connection is lost.
  const auto bytes = std::make_shared<std::string>(std::exchange(out_, {}));
  auto written = [self = shared_from_this(), transport = transport_, bytes,
                  generation = generation_](const boost::system::error_code& failure) {
    if (generation != self->generation_) return;
    self->writing_ = false;
    if (failure) {
      transport->close();
    } else {
      self->flush();
    }
  };
  transport_->write(asio::buffer(*bytes), std::move(written));
}

// One WAIT for all that was just encoded: it holds for whatever this connection wrote before it.
void Connection::addWait() {
  Command wait("WAIT");
  wait.add(options_.wait_replicas).add(options_.wait_timeout.count());
  out_ += wait.bytes();
  in_flight_.push_back({nullptr, 0, std::exchange(confirming_, std::make_shared<Confirmed>()), 0,
                        Steady::now() + options_.wait_timeout + Millis(1000)});
}

}  // namespace nimbus::redis
