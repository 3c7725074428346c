#include "gateway/log_stream.h"

#include "base/json_text.h"
#include "base/task.h"
#include "base/time_text.h"
#include "gateway/bell.h"
#include "http/event_stream.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;
using session::FunctionLog;
using session::LogLine;

constexpr std::size_t kAtOnce = 100;

Task<bool> send(http::EventStream& stream, std::string data, std::string id, std::string type) {
  http::Event event;
  event.data = data;
  event.id = id;
  event.type = type;
  co_return co_await stream.send(event);
}

Task<> follow(std::shared_ptr<FunctionLog> log, std::uint64_t after, asio::any_io_executor executor,
              http::EventStream& stream) {
  const auto bell = std::make_shared<Bell>(executor);
  FunctionLog::Follower follower(log, [bell] { bell->ring(); });
  while (!stream.isEnded()) {
    const std::vector<LogLine> lines = log->after(after, kAtOnce);
    for (const LogLine& line : lines) {
      if (line.number > after + 1 && after != 0) {
        std::string missed = fmt::format(R"({{"lines":{}}})", line.number - after - 1);
        if (!co_await send(stream, std::move(missed), "", "missed")) co_return;
      }
      after = line.number;
      if (!co_await send(stream, lineText(line), std::to_string(line.number), "")) co_return;
    }
    if (!lines.empty()) continue;
    if (log->isClosed()) co_return;
    if (follower.wait(after)) co_await bell->wait();
  }
}

}  // namespace

std::string lineText(const LogLine& line) {
  std::string text = R"({"time":)";
  appendJsonString(text, timeText(line.time));
  text += R"(,"stream":)";
  appendJsonString(text, line.stream);
  text += R"(,"line":)";
  appendJsonString(text, line.line);
  text += R"(,"request_id":)";
  if (line.request_id.empty()) {
    text += "null}";
  } else {
    appendJsonString(text, line.request_id);
    text += '}';
  }
  return text;
}

http::Response followLog(std::shared_ptr<FunctionLog> log, std::uint64_t after,
                         const asio::any_io_executor& executor) {
  auto stream = std::make_shared<http::EventStream>(executor);
  return http::Response::events(stream,
                                [log = std::move(log), after, executor](http::EventStream& events) {
                                  return follow(log, after, executor, events);
                                });
}

}  // namespace nimbus::gateway
