#include "http/router.h"

#include "base/assert.h"
#include "base/ids.h"
#include "http/pattern.h"
#include "http/percent.h"

#include <algorithm>
#include <array>

namespace nimbus::http {
namespace {

constexpr std::size_t kMaxRestBytes = 1024;

std::size_t slot(Method method) {
  return static_cast<std::size_t>(method);
}

Result<> checkParameter(const PatternSegment& segment, std::string_view value) {
  switch (segment.type) {
    case ParameterType::Name:
      return checkName(segment.text, value);
    case ParameterType::Text:
      return checkText(segment.text, value);
    case ParameterType::Rest:
      break;
  }
  if (value.size() <= kMaxRestBytes) return {};
  return Error(Code::InvalidArgument, "the path is too long");
}

}  // namespace

// A route and its parameters, taken apart once.
struct Router::Entry {
  const Route* route = nullptr;
  std::vector<PatternSegment> parameters;
};

// A place in the tree of patterns: the segments from the root to here.
struct Router::Node {
  struct Literal {
    std::string text;
    std::unique_ptr<Node> node;
  };
  struct Parameter {
    std::string suffix;
    bool takes_rest;
    std::unique_ptr<Node> node;
  };

  Node& child(const PatternSegment& segment);

  const Entry* entryFor(Method method) const {
    const Entry* found = entries[slot(method)];
    if (found == nullptr && method == Method::Head) found = entries[slot(Method::Get)];
    return found;
  }

  std::vector<Literal> literals;      // sorted by text
  std::vector<Parameter> parameters;  // those with a suffix first, what takes the rest last
  std::array<const Entry*, kMethodCount> entries{};
};

Router::Node& Router::Node::child(const PatternSegment& segment) {
  if (!segment.is_parameter) {
    const auto place = std::lower_bound(
        literals.begin(), literals.end(), segment.text,
        [](const Literal& literal, const std::string& text) { return literal.text < text; });
    if (place != literals.end() && place->text == segment.text) return *place->node;
    return *literals.insert(place, {segment.text, std::make_unique<Node>()})->node;
  }
  const bool takes_rest = segment.type == ParameterType::Rest;
  for (const Parameter& parameter : parameters) {
    if (parameter.suffix == segment.suffix && parameter.takes_rest == takes_rest) {
      return *parameter.node;
    }
  }
  parameters.push_back({segment.suffix, takes_rest, std::make_unique<Node>()});
  Node& added = *parameters.back().node;
  const auto rank = [](const Parameter& parameter) {
    return parameter.takes_rest ? 2 : (parameter.suffix.empty() ? 1 : 0);
  };
  std::stable_sort(parameters.begin(), parameters.end(),
                   [&](const Parameter& a, const Parameter& b) { return rank(a) < rank(b); });
  return added;
}

// One walk through the tree. Values are remembered raw, in order; names come from the route.
struct Router::Search {
  // Visits every place the path leads to, best first, until one has a route for the method.
  const Entry* visit(const Node& node, std::size_t begin) {
    if (begin > path.size()) {
      for (std::size_t i = 0; i < kMethodCount; ++i) {
        has_method[i] = has_method[i] || node.entries[i] != nullptr;
      }
      return node.entryFor(method);
    }
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    if (const Node* literal = literalOf(node, segment)) {
      if (const Entry* found = visit(*literal, end + 1)) return found;
    }
    for (const Node::Parameter& parameter : node.parameters) {
      if (const Entry* found = visitParameter(parameter, segment, begin, end)) return found;
    }
    return nullptr;
  }

  const Entry* visitParameter(const Node::Parameter& parameter, std::string_view segment,
                              std::size_t begin, std::size_t end) {
    if (!segment.ends_with(parameter.suffix) || depth == values.size()) return nullptr;
    const bool takes_rest = parameter.takes_rest;
    values[depth++] = takes_rest ? path.substr(begin)
                                 : segment.substr(0, segment.size() - parameter.suffix.size());
    const Entry* found = visit(*parameter.node, takes_rest ? path.size() + 1 : end + 1);
    if (found == nullptr) --depth;
    return found;
  }

  static const Node* literalOf(const Node& node, std::string_view segment) {
    std::string decoded;
    if (segment.find('%') != std::string_view::npos) {
      if (!percentDecode(segment, Plus::Literal, decoded)) return nullptr;
      segment = decoded;
    }
    const auto place = std::lower_bound(
        node.literals.begin(), node.literals.end(), segment,
        [](const Node::Literal& literal, std::string_view text) { return literal.text < text; });
    return place != node.literals.end() && place->text == segment ? place->node.get() : nullptr;
  }

  std::string allowed() const {
    std::string names;
    for (std::size_t i = 0; i < kMethodCount; ++i) {
      const auto each = static_cast<Method>(i);
      if (each == Method::Options) continue;  // every path has it
      if (!has_method[i] && !(each == Method::Head && has_method[slot(Method::Get)])) continue;
      names += methodName(each);
      names += ", ";
    }
    return names.empty() ? names : names + "OPTIONS";
  }

  Method method;
  std::string_view path;
  std::array<std::string_view, PathParameters::kMost> values;
  std::size_t depth = 0;
  std::array<bool, kMethodCount> has_method{};
};

Router::Router() : root_(std::make_unique<Node>()) {}
Router::~Router() = default;
Router::Router(Router&&) noexcept = default;
Router& Router::operator=(Router&&) noexcept = default;

void Router::add(Route route) {
  auto entry = std::make_unique<Entry>();
  Node* node = root_.get();
  for (PatternSegment& segment : parsePattern(route.pattern)) {
    node = &node->child(segment);
    if (segment.is_parameter) entry->parameters.push_back(std::move(segment));
  }
  NIMBUS_ASSERT(entry->parameters.size() <= PathParameters::kMost,
                "a pattern has too many parameters");
  NIMBUS_ASSERT(route.handler != nullptr, "a route has a handler");
  const Entry*& place = node->entries[slot(route.method)];
  NIMBUS_ASSERT(place == nullptr, "two routes have the same method and pattern");

  routes_.push_back(std::make_unique<Route>(std::move(route)));
  entry->route = routes_.back().get();
  place = entry.get();
  entries_.push_back(std::move(entry));
}

void Router::decorate(const std::function<Handler(const Route& route, Handler handler)>& wrap) {
  for (const auto& route : routes_) route->handler = wrap(*route, std::move(route->handler));
}

void Router::addSchema(std::string name, Schema schema) {
  schemas_.emplace_back(std::move(name), std::move(schema));
}

Result<Router::Match> Router::match(Request& request) const {
  Search search{.method = request.method, .path = request.raw_path, .values = {}};
  const Entry* const entry = search.visit(*root_, 1);
  if (entry == nullptr) return Match{.route = nullptr, .allowed = search.allowed()};

  // Views into the string are handed out while it grows, so it must not move.
  if (search.depth > 0) request.decoded_parameters.reserve(request.raw_path.size());
  for (std::size_t i = 0; i < search.depth; ++i) {
    std::string_view value = search.values[i];
    if (value.find('%') != std::string_view::npos) {
      const std::size_t from = request.decoded_parameters.size();
      NIMBUS_CHECK(percentDecode(value, Plus::Literal, request.decoded_parameters));
      value = std::string_view(request.decoded_parameters).substr(from);
    }
    NIMBUS_CHECK(checkParameter(entry->parameters[i], value));
    request.parameters.add(entry->parameters[i].text, value);
  }
  return Match{.route = entry->route};
}

}  // namespace nimbus::http
