#pragma once
// A connection to a server, for one thread that waits.

#include "base/clock.h"
#include "base/result.h"
#include "client/event_reader.h"
#include "client/url.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::client {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method = "GET";
  std::string target = "/";  // below the URL's prefix, with its query, encoded
  std::string body = {};
  Headers headers = {};
  Millis timeout{60'000};  // for the whole answer; of a stream, for its head
};

struct Answer {
  int status = 0;
  Headers headers;
  std::string body;

  // Case of the name does not matter; empty if there is none.
  std::string_view header(std::string_view name) const;
  bool isOk() const { return status >= 200 && status < 300; }
};

class Client {
 public:
  struct Options {
    std::string key;  // empty: none is sent
    Millis connect_timeout{5'000};
    std::size_t max_body_bytes = 1024UL * 1024 * 1024;
  };

  // Connects when the first request is sent.
  Client(Url url, Options options);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  const Url& url() const { return url_; }

  // The answer, whatever its status. Unavailable: there is no connection, or it broke; Timeout. The
  // connection is kept for the next request; if the server has closed it meanwhile the request is
  // sent once more on a new one, unless it is a POST that might have been carried out.
  Result<Answer> send(const Request& request);

  // Hands the events of the stream that answers to `sink`, until it returns false or the stream
  // ends. An answer that is no stream of status 200 is returned whole.
  Result<Answer> follow(const Request& request, const EventReader::Sink& sink);

 private:
  struct Connection;
  Result<> connect();
  Result<Answer> sendOnce(const Request& request);

  Url url_;
  Options options_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace nimbus::client
