#pragma once
// One request, as the server hands it to a handler.
//
// Nothing of the head is copied: target, query and header fields are views into the connection's
// read buffer. They, and the Request itself, live until the handler's task has ended; what must
// live longer is copied by whoever needs it.

#include "http/method.h"
#include "http/query.h"
#include "http/response.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::http {

struct HeaderField {
  std::string_view name;  // as sent; compare without case
  std::string_view value;
};

// The values of a pattern's {parameters}, decoded, in the order of the pattern.
class PathParameters {
 public:
  static constexpr std::size_t kMost = 8;

  // The value of a parameter the matched pattern has. Asking for another is a bug.
  std::string_view operator[](std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::size_t size() const { return size_; }

  void clear() { size_ = 0; }
  // `name` and `value` must live as long as the parameters.
  void add(std::string_view name, std::string_view value);

 private:
  struct Parameter {
    std::string_view name;
    std::string_view value;
  };
  const Parameter* find(std::string_view name) const;

  std::array<Parameter, kMost> parameters_;
  std::size_t size_ = 0;
};

struct Request {
  Request() = default;
  ~Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // The first field of that name; empty if there is none.
  std::string_view header(std::string_view name) const;
  // How many fields of that name there are: some must not be given twice.
  std::size_t headerCount(std::string_view name) const;
  Query queryParameters() const { return Query(query); }

  // Forgets the request and keeps the memory it used.
  void reset();

  Method method = Method::Get;
  int version = 11;           // 10 or 11
  std::string_view target;    // as sent
  std::string_view raw_path;  // the target's path, still encoded; routing works on this
  std::string_view path;      // decoded; for people and logs: an encoded '/' looks like any other
  std::string_view query;     // without '?', still encoded; known to decode
  std::vector<HeaderField> headers;
  std::string body;
  PathParameters parameters;

  // Made by us for every request, unique over all nodes and restarts.
  std::string_view id;
  // The W3C trace context the client sent; empty if it sent none that is well-formed.
  std::string_view traceparent;
  std::string_view peer_address;  // of the connection, without the port

  // Who is asking: set by the Authorizer, of a type it and the handlers agree on. Shared, so that
  // to know who asks costs a request no memory of its own.
  std::shared_ptr<const void> principal;
  // Goes out with the answer, whoever makes it: a rate limiter's fields, for example.
  Fields answer_fields;

  // Backing store of the views that are not into the read buffer.
  std::string decoded_path;
  std::string decoded_parameters;
};

}  // namespace nimbus::http
