#include "http/target.h"

#include "http/percent.h"
#include "http/text.h"

#include <algorithm>

namespace nimbus::http {
namespace {

// "http://host/path" becomes "/path"; proxies are sent this form.
std::optional<Refusal> stripOrigin(std::string_view host, std::string_view& target) {
  const std::size_t scheme = target.find("://");
  const std::string_view name = target.substr(0, scheme);
  if (scheme == std::string_view::npos ||
      !(equalIgnoringCase(name, "http") || equalIgnoringCase(name, "https"))) {
    return Refusal("the request target must begin with '/'");
  }
  target.remove_prefix(scheme + 3);
  const std::size_t end = target.find_first_of("/?");
  if (!equalIgnoringCase(target.substr(0, end), host)) {
    return Refusal("the request target names another host than Host");
  }
  target.remove_prefix(std::min(end, target.size()));
  if (target.empty()) target = "/";
  if (target.front() != '/') return Refusal("the request target has no path");
  return std::nullopt;
}

bool isForbidden(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte <= 0x20 || byte >= 0x7f || c == '#' || c == '\\';
}

std::optional<Refusal> checkSegments(std::string_view path) {
  for (std::size_t begin = 1; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    if (segment.empty() && end < path.size()) return Refusal("the path has an empty segment");
    if (segment == "..") return Refusal("the path must not hold '..'");
    begin = end + 1;
  }
  return std::nullopt;
}

// The same after decoding, one segment at a time: an encoded '/' is data and cannot make a segment.
std::optional<Refusal> decodePath(Request& request) {
  const std::string_view raw = request.raw_path;
  std::string& decoded = request.decoded_path;
  for (std::size_t begin = 1; begin <= raw.size();) {
    const std::size_t end = std::min(raw.find('/', begin), raw.size());
    decoded += '/';
    const std::size_t from = decoded.size();
    auto result = percentDecode(raw.substr(begin, end - begin), Plus::Literal, decoded);
    if (!result) return Refusal(std::move(result).error());
    if (std::string_view(decoded).substr(from) == "..") {
      return Refusal("the path must not hold '..'");
    }
    begin = end + 1;
  }
  request.path = decoded;
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> parseTarget(std::string_view host, Request& request) {
  std::string_view target = request.target;
  if (request.method == Method::Connect) {
    Refusal refusal(405, Code::MethodNotAllowed, "this server is no proxy");
    refusal.error = std::move(refusal.error).with("allowed", "GET, HEAD, POST, PUT, PATCH, DELETE");
    return refusal;
  }
  if (target == "*" && request.method == Method::Options) {
    request.raw_path = request.path = target;
    return std::nullopt;
  }
  if (target.front() != '/') {
    if (auto refusal = stripOrigin(host, target)) return refusal;
  }
  if (std::any_of(target.begin(), target.end(), isForbidden)) {
    return Refusal("the request target holds a forbidden character");
  }
  const std::size_t question = target.find('?');
  request.raw_path = target.substr(0, question);
  if (question != std::string_view::npos) {
    request.query = target.substr(question + 1);
    if (auto checked = checkQuery(request.query); !checked) {
      return Refusal(std::move(checked).error().in("query"));
    }
  }
  if (auto refusal = checkSegments(request.raw_path)) return refusal;
  if (request.raw_path.find('%') != std::string_view::npos) return decodePath(request);
  request.path = request.raw_path;
  return std::nullopt;
}

}  // namespace nimbus::http
