#include "store/redis/layout.h"

namespace nimbus::store::redis {
namespace {

std::string tagged(std::string_view what, std::string_view tag) {
  std::string key;
  key.reserve(what.size() + tag.size() + 3);
  key += what;
  key += ":{";
  key += tag;
  key += '}';
  return key;
}

std::string of(std::string_view name, std::string_view part, std::string_view tag) {
  std::string what(name);
  what += ':';
  what += part;
  return tagged(what, tag);
}

constexpr std::string_view kLimiters = "nimbus:limiters:expiry";

}  // namespace

std::string metaKey(std::string_view partition) {
  return tagged("nimbus:meta", partition);
}

std::string limitersKey(std::string_view partition) {
  return tagged(kLimiters, partition);
}

std::string missingKey(std::string_view partition) {
  return tagged("nimbus:none", partition);
}

std::vector<std::string> keysOf(Kind kind, std::string_view name, std::string_view partition) {
  switch (kind) {
    case Kind::Space:
      return {tagged(name, partition), of(name, "keys", partition), of(name, "expiry", partition)};
    case Kind::Log:
      return {of(name, "data", partition), of(name, "seq", partition), of(name, "idx", partition)};
    case Kind::Queue:
      break;
  }
  return {of(name, "items", partition), of(name, "line", partition),
          of(name, "scheduled", partition), of(name, "parked", partition)};
}

DirectoryKeys directoryKeys(std::string_view directory) {
  const std::string name = encodePart(directory);
  return {tagged("nimbus:directory", name), tagged("nimbus:directory:keys", name)};
}

bool parseExpiryKey(std::string_view key, ExpiryKey& parsed) {
  const std::size_t tag = key.find(":{");
  if (tag == key.npos || !key.ends_with('}')) return false;
  const std::string_view what = key.substr(0, tag);
  parsed.partition = key.substr(tag + 2, key.size() - tag - 3);
  if (what == kLimiters) {
    parsed.space.clear();
    return true;
  }
  constexpr std::string_view kEnd = ":expiry";
  if (!what.ends_with(kEnd)) return false;
  parsed.space = what.substr(0, what.size() - kEnd.size());
  return !parsed.space.empty() && parsed.space.find(':') == std::string::npos;
}

std::string_view partitionOf(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == key.npos || !key.ends_with('}')) return {};
  return key.substr(open + 1, key.size() - open - 2);
}

}  // namespace nimbus::store::redis
