#include "runtime/instance.h"

#include "base/json.h"
#include "base/log.h"
#include "base/one_shot.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <tuple>
#include <utility>

namespace nimbus::runtime {
namespace {

namespace asio = boost::asio;

using Socket = asio::basic_stream_socket<asio::local::stream_protocol, asio::any_io_executor>;
using Pipe = asio::posix::basic_stream_descriptor<asio::any_io_executor>;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

// How long the end of a process may lag behind the end of its socket.
constexpr std::chrono::milliseconds kUntilReaped{2000};

// A longer line is cut into several.
constexpr std::size_t kMaxLine = 16UL * 1024;

// What a process wrote is in its pipe when it ends, which holds no more than this. Whatever it left
// behind may go on writing.
constexpr std::size_t kMaxPipe = 1024UL * 1024;

}  // namespace

struct Instance::State : std::enable_shared_from_this<Instance::State> {
  State(std::string its_id, const asio::any_io_executor& executor, Ends ends, Keeper& its_keeper,
        Listener& its_listener)
      : id(std::move(its_id)),
        socket(executor, asio::local::stream_protocol(), ends.socket.release()),
        out(executor, ends.out.release()),
        err(executor, ends.err.release()),
        process(ends.process),
        cell(std::move(ends.cell)),
        memory_limit(ends.memory_limit),
        end(executor),
        keeper(its_keeper),
        listener(its_listener) {
    socket.non_blocking(true);
    out.non_blocking(true);
    err.non_blocking(true);
  }

  void watchProcess();
  void awaitEnd();
  Task<> receive();
  Task<> readOutput(Pipe& pipe, Stream stream);
  void stopOutput();
  bool handle(const Frame& frame);
  Result<> handleHello(const Frame& frame);
  void flush();
  void waitToFlush();
  void kill(std::string why);
  void limitMemory() const;

  Instance* owner = nullptr;
  const std::string id;
  Socket socket;
  Pipe out;
  Pipe err;
  pid_t process = 0;
  Cell cell;
  const std::size_t memory_limit;
  Pipe end;  // becomes readable when the process ends
  Keeper& keeper;
  Listener& listener;
  FrameReader reader;
  std::string outgoing;
  std::size_t sent = 0;  // of `outgoing`
  bool flush_posted = false;
  bool flush_waits = false;
  bool ended = false;
  bool output_ended = false;
  std::string why;  // it was killed
  std::shared_ptr<OneShot<Result<>>> hello = std::make_shared<OneShot<Result<>>>();
  std::shared_ptr<OneShot<Result<>>> ready = std::make_shared<OneShot<Result<>>>();
};

namespace {

Result<> readyOf(const Frame& frame) {
  const Result<JsonValue> head = parseJson(frame.head);
  if (!head) return Error(Code::FunctionCrashed, "the instance sent a Ready that is no JSON");
  const auto error = head->member("error");
  if (!error) return {};
  const auto text = [&](std::string_view name) {
    return std::string(error->string(name).value_or(""));
  };
  std::string message = text("type") + ": " + text("message");
  Error failure = Error(Code::Unprocessable, std::move(message)).with("error_type", text("type"));
  if (const std::string file = text("file"); !file.empty()) {
    failure = std::move(failure).with("file", file);
  }
  if (const auto line = error->integer("line")) failure = std::move(failure).with("line", *line);
  if (std::string trace = text("trace"); !trace.empty()) {
    failure = std::move(failure).with("trace", std::move(trace));
  }
  return failure;
}

}  // namespace

Result<> Instance::State::handleHello(const Frame& frame) {
  const Result<JsonValue> head = parseJson(frame.head);
  if (!head) return Error(Code::FunctionCrashed, "the instance sent a Hello that is no JSON");
  if (head->integer("protocol") != 1) {
    return Error(Code::FunctionCrashed, "the instance speaks another version of the protocol");
  }
  if (process == 0) {
    process = static_cast<pid_t>(head->integer("pid").value_or(0));
    watchProcess();
  }
  return {};
}

// The end of the socket tells the end of the process unless the function has left a process behind
// that has the socket too. What was sent before the end is still received.
void Instance::State::watchProcess() {
  const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0U));
  if (descriptor < 0) return;  // it has ended already, or this kernel cannot tell
  end.assign(descriptor);
  awaitEnd();
}

void Instance::State::awaitEnd() {
  end.async_wait(Pipe::wait_read,
                 [self = shared_from_this()](const boost::system::error_code& cancelled) {
                   if (cancelled) return;
                   // Asio may say so when it is not: an event of a descriptor that was closed
                   // meanwhile counts for the one that has taken its place.
                   pollfd ended_process{self->end.native_handle(), POLLIN, 0};
                   if (::poll(&ended_process, 1, 0) == 0) return self->awaitEnd();
                   boost::system::error_code ignored;
                   self->socket.shutdown(Socket::shutdown_both, ignored);
                 });
}

// False: it said what it may not.
bool Instance::State::handle(const Frame& frame) {
  switch (frame.type) {
    case FrameType::Hello:
      if (hello->isSet()) return false;
      hello->set(handleHello(frame));
      return true;
    case FrameType::Ready:
      if (!hello->isSet() || ready->isSet()) return false;
      ready->set(readyOf(frame));
      return true;
    case FrameType::Result:
    case FrameType::State:
    case FrameType::Log:
      listener.onFrame(*owner, frame);
      return true;
    default:
      return true;  // of a later version
  }
}

Task<> Instance::State::receive() {
  while (true) {
    const std::span<char> room = reader.room();
    const auto [failed, bytes] =
        co_await socket.async_read_some(asio::buffer(room.data(), room.size()), kToken);
    if (failed) co_return;
    reader.received(bytes);
    while (true) {
      const Result<std::optional<Frame>> frame = reader.next();
      if (!frame) co_return kill(frame.error().message());
      if (!*frame) break;
      if (!handle(**frame)) co_return kill("the instance broke the protocol");
      if (ended) co_return;
    }
  }
}

Task<> Instance::State::readOutput(Pipe& pipe, Stream stream) {
  std::string held;
  std::array<char, 8192> room;
  std::size_t left = kMaxPipe;
  while (left > 0) {
    boost::system::error_code failed;
    std::size_t bytes = 0;
    if (output_ended) {
      bytes = pipe.read_some(asio::buffer(room), failed);
      left -= std::min(left, bytes);
    } else {
      std::tie(failed, bytes) = co_await pipe.async_read_some(asio::buffer(room), kToken);
      if (failed == asio::error::operation_aborted) continue;
    }
    if (failed) break;
    held.append(room.data(), bytes);
    std::size_t whole = held.rfind('\n') + 1;  // 0 if there is none
    if (whole == 0 && held.size() >= kMaxLine) whole = held.size();
    if (whole == 0) continue;
    listener.onOutput(*owner, stream, std::string_view(held).substr(0, whole));
    held.erase(0, whole);
  }
  if (!held.empty()) listener.onOutput(*owner, stream, held);
}

// What has been printed is read, and nothing more is waited for: a process that the function left
// behind keeps the pipes open.
void Instance::State::stopOutput() {
  output_ended = true;
  boost::system::error_code ignored;
  out.cancel(ignored);
  err.cancel(ignored);
}

void Instance::State::flush() {
  flush_posted = false;
  if (flush_waits || ended) return;
  while (sent < outgoing.size()) {
    const ssize_t written = ::send(socket.native_handle(), outgoing.data() + sent,
                                   outgoing.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written > 0) {
      sent += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      return waitToFlush();
    } else if (errno != EINTR) {
      break;  // it has gone, as receive() will see
    }
  }
  outgoing.clear();
  sent = 0;
}

void Instance::State::waitToFlush() {
  flush_waits = true;
  socket.async_wait(Socket::wait_write,
                    [self = shared_from_this()](const boost::system::error_code& failed) {
                      self->flush_waits = false;
                      if (!failed) self->flush();
                    });
}

// Resident memory is watched by whoever uses the instance; this stops what grows faster than that.
// Address space would be the wrong thing to limit: interpreters reserve far more than they use.
void Instance::State::limitMemory() const {
  if (memory_limit == 0 || process <= 0) return;
  std::ifstream statm(fmt::format("/proc/{}/statm", process));
  std::array<std::size_t, 6> pages{};  // the last is what is written to: data and stack
  for (std::size_t& one : pages) statm >> one;
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const rlimit limit{pages.back() * size + memory_limit, pages.back() * size + memory_limit};
  if (statm) ::prlimit(process, RLIMIT_DATA, &limit, nullptr);
}

void Instance::State::kill(std::string reason) {
  if (ended) return;
  if (why.empty()) why = std::move(reason);
  ended = true;
  if (process > 0) keeper.kill(process);
  cell.end();  // and with it whatever the function has left there
  boost::system::error_code ignored;
  socket.shutdown(Socket::shutdown_both, ignored);
}

Instance::Instance(std::string id, const asio::any_io_executor& executor, Ends ends, Keeper& keeper,
                   Listener& listener)
    : state_(std::make_shared<State>(std::move(id), executor, std::move(ends), keeper, listener)) {
  state_->owner = this;
  if (state_->process > 0) state_->watchProcess();
}

Instance::~Instance() = default;

const std::string& Instance::id() const {
  return state_->id;
}

Task<> Instance::run() {
  using boost::asio::experimental::awaitable_operators::operator&&;
  const std::shared_ptr<State> state = state_;
  // What it printed last is heard before its end: the pipes end with the process.
  co_await state->receive();
  const std::string last_words = state->cell.lastWords();
  const bool was_killed = state->ended || !last_words.empty();
  state->kill(last_words.empty() ? "it closed its socket" : last_words);
  if (!state->hello->isSet()) {
    state->hello->set(Error(Code::FunctionCrashed, "the instance ended before it began"));
  }
  std::string why = state->why;
  if (state->process > 0) {
    const Result<ExitStatus> status = co_await state->keeper.exitOf(state->process, kUntilReaped);
    if (!was_killed && status) why = status->text();
  }
  boost::system::error_code ignored;
  state->end.close(ignored);
  state->stopOutput();
  if (!state->ready->isSet()) {
    state->ready->set(Error(Code::FunctionCrashed, "the instance ended while it loaded: " + why));
  }
  state->listener.onEnd(*this, why);
}

Task<> Instance::listenToOutput() {
  const std::shared_ptr<State> state = state_;
  using boost::asio::experimental::awaitable_operators::operator&&;
  co_await (state->readOutput(state->out, Stream::Out) &&
            state->readOutput(state->err, Stream::Err));
}

Task<Result<>> Instance::load(std::string head, std::chrono::milliseconds patience) {
  const std::shared_ptr<State> state = state_;
  asio::steady_timer timer(state->socket.get_executor(), patience);
  timer.async_wait([state](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    if (!state->hello->isSet())
      state->hello->set(Error(Code::Timeout, "the instance says nothing"));
    if (!state->ready->isSet()) {
      state->ready->set(Error(Code::Timeout, "the function did not load in time"));
    }
  });
  Result<> loaded = co_await state->hello->wait(state->hello);
  if (loaded) {
    state->limitMemory();
    FrameWriter writer(state->outgoing, FrameType::Load, 0, 1);
    writer.segment(head);
    writer.finish();
    flushSoon();
    loaded = co_await state->ready->wait(state->ready);
  }
  if (!loaded) state->kill("the function did not load");
  co_return loaded;
}

std::string& Instance::outgoing() {
  return state_->outgoing;
}

void Instance::flushSoon() {
  if (std::exchange(state_->flush_posted, true)) return;
  asio::post(state_->socket.get_executor(), [state = state_] { state->flush(); });
}

void Instance::kill(std::string why) {
  state_->kill(std::move(why));
}

bool Instance::hasEnded() const {
  return state_->ended;
}

void Instance::checkMemory() const {
  if (state_->memory_limit != 0) state_->cell.checkMemory(state_->memory_limit);
}

std::size_t Instance::residentBytes() const {
  if (state_->process <= 0) return 0;
  std::ifstream statm(fmt::format("/proc/{}/statm", state_->process));
  std::size_t total = 0;
  std::size_t resident = 0;
  if (!(statm >> total >> resident)) return 0;
  return resident * 4096;
}

}  // namespace nimbus::runtime
