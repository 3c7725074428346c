#pragma once
// Server-sent events: the part of an answer that has no end yet.

#include "base/task.h"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace nimbus::http {

struct Event {
  std::string_view data;  // may hold line breaks
  std::string_view id = {};
  std::string_view type = {};
};

// Single-threaded: every member is called on the thread of the connection that carries the stream,
// which is the executor given. What is sent waits in a bounded buffer for the client to read it; a
// client that does not read costs that buffer, then its connection, never the sender's memory.
class EventStream {
 public:
  // How many bytes may wait before send() does.
  static constexpr std::size_t kMaxWaiting = 64 * 1024;

  explicit EventStream(const boost::asio::any_io_executor& executor);
  ~EventStream();

  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // Sends as soon as there is room, and returns when the event is in the buffer. False: the stream
  // has ended, the event will not be sent. `event` is copied before the first wait.
  Task<bool> send(Event event);

  // Sends if there is room at once; false otherwise, or if the stream has ended.
  bool trySend(const Event& event);

  // The client left, the server stops, or end() was called. A sender should then stop.
  bool isEnded() const { return ended_; }

  // Returns when the stream has ended: for senders that wait for something else meanwhile.
  Task<> waitForEnd();

  // Nothing more will be sent. What waits still goes out.
  void end();

 private:
  friend class StreamWriter;
  struct Signals;

  void append(const Event& event);
  // The connection's side: takes what waits; waits for something to do.
  std::string take();
  Task<> waitForWork();
  void comment();
  void wakeConnection();

  std::string waiting_;
  bool ended_ = false;
  bool work_ = false;
  std::unique_ptr<Signals> signals_;
};

}  // namespace nimbus::http
