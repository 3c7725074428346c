#pragma once
// One answer, as a handler makes it.

#include "base/task.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace nimbus::http {

class EventStream;

// Header fields of an answer, kept as the text that is sent: adding one is an append, sending them
// is one copy.
class Fields {
 public:
  // `name` is sent exactly as given. Control characters in `value` are replaced by '?', so that no
  // caller's text can end the line and begin another.
  Fields& add(std::string_view name, std::string_view value);

  std::string_view text() const { return text_; }
  bool empty() const { return text_.empty(); }
  void clear() { text_.clear(); }

  // The value of the first field of that name; empty if there is none.
  std::string_view find(std::string_view name) const;

 private:
  std::string text_;  // "Name: value\r\n" ...
};

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kProblemJson = "application/problem+json";
inline constexpr std::string_view kPlainText = "text/plain; charset=utf-8";

// Feeds an EventStream; runs on the connection's thread, after the head of the answer was sent. The
// connection waits for its end. It is cancelled when the client leaves or the server stops.
using EventProducer = std::function<Task<>(EventStream&)>;

struct Response {
  static Response json(std::string body, int status = 200);
  static Response text(std::string body, int status = 200);
  static Response noContent();

  // `bytes` are not copied: they must outlive the server.
  static Response asset(std::string_view bytes, std::string_view content_type);

  // Server-sent events. The answer ends when the stream is ended or `producer` returns. Without a
  // producer whoever kept the stream sends, on the connection's thread.
  static Response events(std::shared_ptr<EventStream> stream, EventProducer producer = nullptr);

  Response& header(std::string_view name, std::string_view value) {
    fields.add(name, value);
    return *this;
  }

  std::string_view content() const { return asset_bytes.empty() ? body : asset_bytes; }

  int status = 200;
  // A literal, or else text that outlives the server. Empty: none is sent.
  std::string_view content_type;
  Fields fields;
  std::string body;
  std::string_view asset_bytes;
  std::shared_ptr<EventStream> stream;
  EventProducer producer;
};

}  // namespace nimbus::http
