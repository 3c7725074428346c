#include "base/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace nimbus {
namespace {

namespace dom = simdjson::dom;
namespace ondemand = simdjson::ondemand;

static_assert(sizeof(dom::element) == 16 && std::is_trivially_copyable_v<dom::element>);

constexpr std::string_view kSpace = " \t\n\r";

// Parsers keep the memory they have grown to. One that has seen something large is given up, so
// that it does not stay with the thread.
constexpr std::size_t kKeep = 1024UL * 1024;

template <typename Parser>
std::unique_ptr<Parser>& ofThread() {
  thread_local std::unique_ptr<Parser> parser;
  return parser;
}

dom::parser& freshParser(std::size_t size) {
  std::unique_ptr<dom::parser>& parser = ofThread<dom::parser>();
  if (!parser || parser->capacity() > std::max(kKeep, size)) {
    parser = std::make_unique<dom::parser>();
    static_cast<void>(parser->allocate(std::max<std::size_t>(size, 4096), kMaxJsonDepth));
  }
  return *parser;
}

Error notJson(simdjson::error_code code) {
  if (code == simdjson::DEPTH_ERROR) {
    return {Code::InvalidJson,
            fmt::format("more than {} arrays or objects inside each other", kMaxJsonDepth)};
  }
  return {Code::InvalidJson, fmt::format("this is no JSON: {}", simdjson::error_message(code))};
}

// simdjson refuses numbers that it cannot represent. They are JSON all the same, and a user's.
class AnyNumbers {
 public:
  static bool areAllThatIsWrong(std::string_view text) {
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::json::basic_parser<AnyNumbers> parser(options);
    boost::json::error_code failed;
    const std::size_t read = parser.write_some(false, text.data(), text.size(), failed);
    return !failed && read == text.size();
  }

  // What basic_parser asks for. Everything is fine.
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  using Failure = boost::json::error_code;
  bool on_document_begin(Failure&) { return true; }
  bool on_document_end(Failure&) { return true; }
  bool on_array_begin(Failure&) { return true; }
  bool on_array_end(std::size_t, Failure&) { return true; }
  bool on_object_begin(Failure&) { return true; }
  bool on_object_end(std::size_t, Failure&) { return true; }
  bool on_string_part(std::string_view, std::size_t, Failure&) { return true; }
  bool on_string(std::string_view, std::size_t, Failure&) { return true; }
  bool on_key_part(std::string_view, std::size_t, Failure&) { return true; }
  bool on_key(std::string_view, std::size_t, Failure&) { return true; }
  bool on_number_part(std::string_view, Failure&) { return true; }
  bool on_int64(std::int64_t, std::string_view, Failure&) { return true; }
  bool on_uint64(std::uint64_t, std::string_view, Failure&) { return true; }
  bool on_double(double, std::string_view, Failure&) { return true; }
  bool on_bool(bool, Failure&) { return true; }
  bool on_null(Failure&) { return true; }
  bool on_comment_part(std::string_view, Failure&) { return true; }
  bool on_comment(std::string_view, Failure&) { return true; }
};

}  // namespace

struct JsonAccess {
  static JsonValue wrap(const dom::element& element) {
    JsonValue value;
    std::memcpy(value.element_.data(), &element, sizeof element);
    return value;
  }
  static dom::element unwrap(const JsonValue& value) {
    dom::element element;
    std::memcpy(&element, value.element_.data(), sizeof element);
    return element;
  }
};

JsonValue::Kind JsonValue::kind() const {
  switch (JsonAccess::unwrap(*this).type()) {
    case dom::element_type::NULL_VALUE:
      return Kind::Null;
    case dom::element_type::BOOL:
      return Kind::Boolean;
    case dom::element_type::STRING:
      return Kind::String;
    case dom::element_type::ARRAY:
      return Kind::Array;
    case dom::element_type::OBJECT:
      return Kind::Object;
    default:
      return Kind::Number;
  }
}

std::optional<bool> JsonValue::boolean() const {
  bool value = false;
  if (JsonAccess::unwrap(*this).get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

std::optional<std::int64_t> JsonValue::integer() const {
  const dom::element element = JsonAccess::unwrap(*this);
  if (!element.is_int64()) return std::nullopt;
  return element.get_int64().value_unsafe();
}

std::optional<double> JsonValue::number() const {
  double value = 0;
  if (JsonAccess::unwrap(*this).get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

std::optional<std::string_view> JsonValue::string() const {
  std::string_view value;
  if (JsonAccess::unwrap(*this).get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

std::optional<JsonValue> JsonValue::member(std::string_view name) const {
  dom::object object;
  if (JsonAccess::unwrap(*this).get(object) != simdjson::SUCCESS) return std::nullopt;
  dom::element found;
  if (object.at_key(name).get(found) != simdjson::SUCCESS) return std::nullopt;
  return JsonAccess::wrap(found);
}

std::optional<std::int64_t> JsonValue::integer(std::string_view name) const {
  const auto found = member(name);
  return found ? found->integer() : std::nullopt;
}

std::optional<std::string_view> JsonValue::string(std::string_view name) const {
  const auto found = member(name);
  return found ? found->string() : std::nullopt;
}

std::optional<bool> JsonValue::boolean(std::string_view name) const {
  const auto found = member(name);
  return found ? found->boolean() : std::nullopt;
}

std::vector<JsonValue> JsonValue::elements() const {
  std::vector<JsonValue> elements;
  dom::array array;
  if (JsonAccess::unwrap(*this).get(array) != simdjson::SUCCESS) return elements;
  for (const dom::element element : array) elements.push_back(JsonAccess::wrap(element));
  return elements;
}

std::vector<std::pair<std::string_view, JsonValue>> JsonValue::members() const {
  std::vector<std::pair<std::string_view, JsonValue>> members;
  dom::object object;
  if (JsonAccess::unwrap(*this).get(object) != simdjson::SUCCESS) return members;
  for (const dom::key_value_pair pair : object) {
    members.emplace_back(pair.key, JsonAccess::wrap(pair.value));
  }
  return members;
}

Result<JsonValue> parseJson(std::string_view text) {
  dom::element root;
  const auto failed = freshParser(text.size()).parse(text.data(), text.size(), true).get(root);
  if (failed != simdjson::SUCCESS) return notJson(failed);
  return JsonAccess::wrap(root);
}

Result<> checkJson(std::string_view text) {
  dom::element root;
  const auto failed = freshParser(text.size()).parse(text.data(), text.size(), true).get(root);
  if (failed == simdjson::SUCCESS) return {};
  if (failed == simdjson::NUMBER_ERROR && AnyNumbers::areAllThatIsWrong(text)) return {};
  return notJson(failed);
}

std::string_view trimJson(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

Result<std::vector<RawMember>> splitObject(std::string_view text) {
  NIMBUS_CHECK(checkJson(text));
  if (trimJson(text).front() != '{') {
    return Error(Code::InvalidArgument, "this must be a JSON object");
  }

  // Known to be valid from here on. On-demand parsing says where values lie, and the other does
  // not.
  thread_local std::string padded;
  padded.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  padded.assign(text);
  std::unique_ptr<ondemand::parser>& parser = ofThread<ondemand::parser>();
  if (!parser) parser = std::make_unique<ondemand::parser>();
  ondemand::document document;
  std::vector<RawMember> members;
  auto failed = parser->iterate(padded.data(), padded.size(), padded.capacity()).get(document);
  if (failed != simdjson::SUCCESS) return notJson(failed);
  for (auto field : document.get_object()) {
    std::string_view name;
    if (failed = field.unescaped_key().get(name); failed != simdjson::SUCCESS)
      return notJson(failed);
    std::string_view raw;
    if (failed = simdjson::to_json_string(field.value()).get(raw); failed != simdjson::SUCCESS) {
      return notJson(failed);
    }
    const std::string_view trimmed = trimJson(raw);
    const auto begin = static_cast<std::size_t>(trimmed.data() - padded.data());
    members.push_back({std::string(name), text.substr(begin, trimmed.size())});
  }
  std::vector<std::string_view> names;
  for (const RawMember& member : members) names.push_back(member.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return Error(Code::InvalidArgument, fmt::format("\"{}\" is given twice", *twice));
  }
  if (parser->capacity() > kKeep) parser.reset();
  if (padded.capacity() > kKeep) padded = std::string();
  return members;
}

}  // namespace nimbus
