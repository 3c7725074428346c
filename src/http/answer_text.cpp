#include "http/answer_text.h"

#include "base/json_text.h"
#include "base/random.h"
#include "http/problem.h"
#include "http/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace nimbus::http {
namespace {

void appendStatusLine(std::string& out, int status) {
  if (status == 200) {
    out += "HTTP/1.1 200 OK\r\n";
    return;
  }
  out += "HTTP/1.1 ";
  appendNumber(out, status);
  out += ' ';
  out += reasonOf(status);
  out += "\r\n";
}

}  // namespace

std::string_view DateLine::now() {
  // The coarse clock is a read of memory; a Date needs no better than its few milliseconds.
  timespec time{};
  clock_gettime(CLOCK_REALTIME_COARSE, &time);
  if (time.tv_sec == second_) return text_;
  static constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                            "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  second_ = time.tv_sec;
  std::tm parts{};
  gmtime_r(&second_, &parts);
  text_ = fmt::format("Date: {}, {:02} {} {} {:02}:{:02}:{:02} GMT\r\n",
                      kDays.at(static_cast<std::size_t>(parts.tm_wday)), parts.tm_mday,
                      kMonths.at(static_cast<std::size_t>(parts.tm_mon)), parts.tm_year + 1900,
                      parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text_;
}

RequestIds::RequestIds() : prefix_(SystemRandom().base36(kPrefix)) {}

std::string_view RequestIds::next(Storage& storage) {
  char* const count = std::copy(prefix_.begin(), prefix_.end(), storage.begin());
  const auto [end, failure] = std::to_chars(count, storage.data() + storage.size(), ++count_, 36);
  return {storage.data(), static_cast<std::size_t>(end - storage.data())};
}

void appendHead(std::string& out, const Response& response, const HeadFacts& facts) {
  appendStatusLine(out, response.status);
  out += facts.date_line;
  out += "Nimbus-Request-Id: ";
  out += facts.request_id;
  if (!response.content_type.empty()) {
    out += "\r\nContent-Type: ";
    out += response.content_type;
  }
  if (facts.is_chunked) {
    out += "\r\nTransfer-Encoding: chunked";
  } else if (mayHaveBody(response.status) && !response.stream) {
    out += "\r\nContent-Length: ";
    appendNumber(out, response.content().size());
  }
  switch (facts.persistence) {
    case Persistence::KeepAlive:
      out += "\r\n";
      break;
    case Persistence::KeepAliveSaidAloud:
      out += "\r\nConnection: keep-alive\r\n";
      break;
    case Persistence::Close:
      out += "\r\nConnection: close\r\n";
      break;
  }
  out += response.fields.text();
  out += facts.more_fields;
  out += "\r\n";
}

bool mayHaveBody(int status) {
  return status >= 200 && status != 204 && status != 304;
}

}  // namespace nimbus::http
