// Feeds the request parser whatever libFuzzer thinks of and checks what must hold of every input:
// it is cut anywhere and means the same, views stay inside the head, and what we accept Beast's own
// parser accepts too, with the same framing and the same body.
//
//   cmake --preset asan && cmake --build --preset asan --target http_request_fuzz
//   build-asan/src/http/http_request_fuzz -max_total_time=60 DIRECTORY src/http/fuzz_seeds/request
#include "http/chunked.h"
#include "http/head_parser.h"
#include "http/router.h"

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace nimbus;
using namespace nimbus::http;

namespace {

constexpr std::size_t kMaxBody = 1 << 16;

void require(bool condition) {
  if (!condition) std::abort();
}

Task<Result<Response>> nothing(Request& /*request*/) {
  co_return Response::noContent();
}

const Router& router() {
  static const Router kRouter = [] {
    Router made;
    for (const char* pattern : {"/", "/health", "/f/{id:name}", "/f/{id:name}/s/{key:text}",
                                "/f/{id}:verb", "/a/{path:rest}"}) {
      made.add({.method = Method::Get, .pattern = pattern, .handler = nothing});
    }
    return made;
  }();
  return kRouter;
}

struct Body {
  ChunkedDecoder::Progress progress;
  std::string text;
  std::size_t used;
};

Body decode(std::string_view bytes, std::size_t cut) {
  ChunkedDecoder decoder;
  Body body{};
  std::string_view first = bytes.substr(0, cut);
  body.progress = decoder.decode(first, kMaxBody, body.text);
  if (body.progress != ChunkedDecoder::Progress::NeedMore) {
    body.used = cut - first.size();
    return body;
  }
  std::string_view second = bytes.substr(cut);
  body.progress = decoder.decode(second, kMaxBody, body.text);
  body.used = bytes.size() - second.size();
  return body;
}

// Beast on the same bytes, as the second opinion.
void compareWithBeast(std::string_view message, const Framing& framing, const std::string& body) {
  namespace beast = boost::beast;
  beast::http::parser<true, beast::http::string_body> parser;
  parser.header_limit(64 * 1024);
  parser.eager(true);
  beast::error_code failure;
  parser.put(boost::asio::const_buffer(message.data(), message.size()), failure);
  require(!failure && parser.is_done());
  require(parser.get().body() == body);
  require(parser.keep_alive() == framing.keep_alive);
}

void checkViews(const Request& request, std::string_view head) {
  for (const HeaderField& field : request.headers) {
    require(field.name.data() >= head.data() &&
            field.value.data() + field.value.size() <= head.data() + head.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // The first byte says where the input is cut in two.
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = input.size() * data[0] / 256;

  HeadScanner scanner;
  HeadScanner::Found found = scanner.scan(input.substr(0, cut), {});
  if (found == HeadScanner::Found::NeedMore) found = scanner.scan(input, {});
  HeadScanner at_once;
  require(at_once.scan(input, {}) == found);
  if (found != HeadScanner::Found::Head) return 0;
  require(at_once.headSize() == scanner.headSize());

  const std::string_view head = input.substr(0, scanner.headSize());
  Request request;
  Framing framing;
  if (parseHead(head, {}, request, framing)) return 0;
  checkViews(request, head);
  if (auto match = router().match(request); match && match->route != nullptr) {
    static_cast<void>(request.queryParameters().limit(20));
  }

  const std::string_view rest = input.substr(head.size());
  if (framing.body == Framing::Body::Chunked) {
    const Body once = decode(rest, rest.size());
    const Body twice = decode(rest, rest.size() * data[0] / 256);
    require(once.progress == twice.progress);
    if (once.progress != ChunkedDecoder::Progress::Done) return 0;
    require(once.text == twice.text && once.used == twice.used);
    compareWithBeast(input.substr(0, head.size() + once.used), framing, once.text);
  } else if (rest.size() >= framing.content_length && framing.content_length < kMaxBody) {
    const std::string_view body = rest.substr(0, framing.content_length);
    compareWithBeast(input.substr(0, head.size() + body.size()), framing, std::string(body));
  }
  return 0;
}
