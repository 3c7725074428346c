#pragma once
// Task<T> is the one asynchronous return type in our headers. How tasks are spawned, on which
// executor and with which completion token, stays in .cpp files.

#include <boost/asio/awaitable.hpp>

namespace nimbus {

template <typename T = void>
using Task = boost::asio::awaitable<T>;

}  // namespace nimbus
