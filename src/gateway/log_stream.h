#pragma once
// A function's log as it grows, as server-sent events: one event per line, whose id is the number
// of the line.

#include "http/response.h"
#include "session/function_log.h"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace nimbus::gateway {

// {"time", "stream", "line", "request_id"}
std::string lineText(const session::LogLine& line);

// Sends what comes after line `after`, on the executor of the connection, until the client leaves,
// the server stops or the function is gone. A reader that is too slow misses lines, and is told how
// many by an event `missed`; nobody waits for it.
http::Response followLog(std::shared_ptr<session::FunctionLog> log, std::uint64_t after,
                         const boost::asio::any_io_executor& executor);

}  // namespace nimbus::gateway
