#include "state/operation.h"

#include "state/rules.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <utility>

namespace nimbus::state {
namespace {

using Kind = Operation::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 15> kKinds = {{
    {"get", Kind::Get},
    {"get_with_version", Kind::GetWithVersion},
    {"set", Kind::Set},
    {"set_with_version", Kind::SetWithVersion},
    {"delete", Kind::Delete},
    {"incr", Kind::Incr},
    {"decr", Kind::Decr},
    {"exists", Kind::Exists},
    {"keys", Kind::Keys},
    {"expire", Kind::Expire},
    {"ttl", Kind::Ttl},
    {"persist", Kind::Persist},
    {"clear", Kind::Clear},
    {"get_many", Kind::GetMany},
    {"set_many", Kind::SetMany},
}};

constexpr std::array<std::pair<std::string_view, Scope>, 3> kScopes = {{
    {"session", Scope::Session},
    {"function", Scope::Function},
    {"invocation", Scope::Invocation},
}};

Error givenTwice(std::string_view key) {
  return {Code::InvalidArgument, fmt::format("\"{}\" is given twice", key)};
}

template <typename Table, typename Value>
std::string_view nameIn(const Table& table, Value value) {
  for (const auto& [name, one] : table) {
    if (one == value) return name;
  }
  return {};
}

template <typename Value, std::size_t N>
std::optional<Value> namedIn(const std::array<std::pair<std::string_view, Value>, N>& table,
                             std::string_view name) {
  for (const auto& [known, value] : table) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Kind> kindNamed(std::string_view name) {
  return namedIn(kKinds, name);
}

std::string_view nameOf(Kind kind) {
  return nameIn(kKinds, kind);
}

std::optional<Scope> scopeNamed(std::string_view name) {
  return namedIn(kScopes, name);
}

std::string_view nameOf(Scope scope) {
  return nameIn(kScopes, scope);
}

bool isWrite(Kind kind) {
  switch (kind) {
    case Kind::Get:
    case Kind::GetWithVersion:
    case Kind::Exists:
    case Kind::Keys:
    case Kind::Ttl:
    case Kind::GetMany:
      return false;
    default:
      return true;
  }
}

Result<> checkForm(const Operation& operation) {
  switch (operation.kind) {
    case Kind::Keys:
    case Kind::Clear:
      return {};
    case Kind::GetMany:
    case Kind::SetMany:
      for (const std::string& key : operation.keys) NIMBUS_CHECK(checkKey(key));
      if (operation.kind == Kind::SetMany && operation.values.size() != operation.keys.size()) {
        return Error(Code::InvalidArgument, "set_many needs one value for each key");
      }
      if (operation.kind == Kind::SetMany) {
        std::set<std::string_view> seen;
        for (const std::string& key : operation.keys) {
          if (!seen.insert(key).second) return givenTwice(key);
        }
      }
      return {};
    case Kind::Set:
    case Kind::SetWithVersion:
      if (operation.values.size() != 1) return Error(Code::InvalidArgument, "a value is missing");
      break;
    case Kind::Expire:
      if (!operation.ttl) return Error(Code::InvalidArgument, "expire needs a ttl");
      break;
    default:
      break;
  }
  return checkKey(operation.key);
}

}  // namespace nimbus::state
