#pragma once
// One thread's share of a server: its connections and what they have in common. Everything here is
// touched by that thread alone. Private to http/.

#include "http/answer_text.h"
#include "http/chunked.h"
#include "http/head_parser.h"
#include "http/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace nimbus::http {

class Connection;

// The same type-erased executor as a Task's: Asio sees that both are the context's own and resumes
// the task directly. With a concrete type here and Task's there it would count work and dispatch.
using Executor = boost::asio::any_io_executor;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Executor>;
using Time = SteadyTime;

// What all connections of a server share and none changes.
struct Settings {
  const SteadyClock& clock() const { return hooks.clock != nullptr ? *hooks.clock : own_clock; }

  ServerOptions options;
  const Router& router;
  ServerHooks hooks;
  SystemSteadyClock own_clock;
  std::unique_ptr<boost::asio::ssl::context> tls;
  // Open connections of all threads, those turned away included.
  mutable std::atomic<std::size_t> connections = 0;
};

// Bytes received and not yet used: [begin, end) of a fixed piece of memory.
class Buffer {
 public:
  static constexpr std::size_t kSize = 16 * 1024;

  explicit Buffer(std::size_t capacity)
      : bytes_(std::make_unique_for_overwrite<char[]>(capacity)), capacity_(capacity) {}

  std::string_view view() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  std::size_t capacity() const { return capacity_; }
  char* space() { return bytes_.get() + end_; }
  std::size_t spaceSize() const { return capacity_ - end_; }

  void produced(std::size_t count) { end_ += count; }
  void consume(std::size_t count) {
    begin_ += count;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  // Keeps views into what was consumed valid until the next compact().
  void consumeInPlace(std::size_t count) { begin_ += count; }
  // Moves what is left to the front.
  void compact();
  void clear() { begin_ = end_ = 0; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// Everything a connection needs only while it has a request, borrowed for that time: an idle
// connection is a socket and little more.
struct Workspace {
  Workspace() : in(std::make_unique<Buffer>(Buffer::kSize)) {}

  void reset();

  std::unique_ptr<Buffer> in;       // holds the head while the request lives
  std::unique_ptr<Buffer> body_in;  // a body's later parts, when they came apart from the head
  std::string out;                  // answers not yet written
  Request request;
  RequestIds::Storage id{};
  HeadScanner scanner;
  Framing framing;
  ChunkedDecoder chunked;
};

class Lane : public std::enable_shared_from_this<Lane> {
 public:
  Lane(boost::asio::io_context& context, std::shared_ptr<const Settings> settings);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  boost::asio::io_context& context() { return context_; }
  const Settings& settings() const { return *settings_; }

  void start();
  void adopt(Socket socket);

  // See Server::stop(). Returns how many connections had to be left to themselves.
  Task<std::size_t> stop(Time deadline);
  bool isStopping() const { return is_stopping_; }

  // Ends what has waited too long, now; else a timer does.
  void sweep();

  Time now() const { return settings_->clock().roughly(); }
  DateLine& date() { return date_; }
  RequestIds& requestIds() { return request_ids_; }

  std::unique_ptr<Workspace> borrow();
  void giveBack(std::unique_ptr<Workspace> workspace);
  // Whether connections may keep their workspace for their next request: few enough are out.
  bool hasRoomToIdle() const;

  void add(Connection& connection);
  void remove(Connection& connection);
  // Has the connection's waiting answers written when the handler now running first waits, so that
  // an answer is not held up by the request pipelined behind it.
  void flushSoon(Connection& connection);

 private:
  void armSweep();
  void flushDirty();

  struct Lists;

  boost::asio::io_context& context_;
  const std::shared_ptr<const Settings> settings_;
  std::unique_ptr<Lists> lists_;
  std::size_t open_ = 0;
  std::vector<std::unique_ptr<Workspace>> spare_;
  std::size_t borrowed_ = 0;
  DateLine date_;
  RequestIds request_ids_;
  boost::asio::steady_timer sweep_timer_;
  boost::asio::steady_timer emptied_;  // cancelled when the last connection has gone
  const std::chrono::milliseconds sweep_interval_;
  bool is_stopping_ = false;
  bool is_flush_posted_ = false;
};

}  // namespace nimbus::http
