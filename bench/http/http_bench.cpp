// Serves one fixed body from a Router, for bench/http/run to measure.
//
//   http_bench THREADS BODY_BYTES       prints the port, serves until its standard input ends
#include "base/threads.h"
#include "http/server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

using namespace nimbus;

namespace {

Task<Result<http::Response>> answer(const std::string& body, http::Request& /*request*/) {
  co_return http::Response::json(body);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t thread_count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const std::size_t body_size = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 95;
  const std::string body = "\"" + std::string(body_size - 2, 'x') + "\"";

  http::Router router;
  router.add({.method = http::Method::Get,
              .pattern = "/api/v1/fixed",
              .handler = [&](http::Request& request) { return answer(body, request); }});
  router.add({.method = http::Method::Post,
              .pattern = "/api/v1/functions/{id:name}/invoke",
              .handler = [&](http::Request& request) { return answer(body, request); }});

  Threads threads(thread_count);
  auto server = http::Server::open({}, threads, router);
  if (!server) {
    std::cerr << server.error().message() << '\n';
    return 1;
  }
  (*server)->start();
  std::cout << (*server)->port() << std::endl;
  while (std::getchar() != EOF) {
  }
  boost::asio::co_spawn(threads.executor(0), (*server)->stop(std::chrono::seconds(1)),
                        boost::asio::use_future)
      .get();
}
