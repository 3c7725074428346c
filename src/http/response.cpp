#include "http/response.h"

#include "http/text.h"

#include <algorithm>
#include <utility>

namespace nimbus::http {

Fields& Fields::add(std::string_view name, std::string_view value) {
  constexpr std::size_t kUsual = 160;  // what an answer's fields have together
  if (text_.empty()) text_.reserve(kUsual);
  text_ += name;
  text_ += ": ";
  const std::size_t begin = text_.size();
  text_ += value;
  const auto isControl = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  };
  std::replace_if(text_.begin() + static_cast<std::ptrdiff_t>(begin), text_.end(), isControl, '?');
  text_ += "\r\n";
  return *this;
}

std::string_view Fields::find(std::string_view name) const {
  for (std::string_view rest = text_; !rest.empty();) {
    const std::size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    const std::size_t colon = line.find(':');
    if (equalIgnoringCase(line.substr(0, colon), name)) return line.substr(colon + 2);
    rest.remove_prefix(end + 2);
  }
  return {};
}

Response Response::json(std::string body, int status) {
  Response response;
  response.status = status;
  response.content_type = kJson;
  response.body = std::move(body);
  return response;
}

Response Response::text(std::string body, int status) {
  Response response = json(std::move(body), status);
  response.content_type = kPlainText;
  return response;
}

Response Response::noContent() {
  Response response;
  response.status = 204;
  return response;
}

Response Response::asset(std::string_view bytes, std::string_view content_type) {
  Response response;
  response.content_type = content_type;
  response.asset_bytes = bytes;
  return response;
}

Response Response::events(std::shared_ptr<EventStream> stream, EventProducer producer) {
  Response response;
  response.content_type = "text/event-stream";
  response.fields.add("Cache-Control", "no-store");
  response.stream = std::move(stream);
  response.producer = std::move(producer);
  return response;
}

}  // namespace nimbus::http
