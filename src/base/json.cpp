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

static_assert(sizeof(dom::element) == 16 && std::is_trivially_copyable_v<dom::element>);

constexpr std::string_view kSpace = " \t\n\r";

// A parser keeps the memory it has grown to. One that has seen something large is given up, so
// that it does not stay with the thread.
constexpr std::size_t kKeep = 1024UL * 1024;

dom::parser& freshParser(std::size_t size) {
  thread_local std::unique_ptr<dom::parser> parser;
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
  elements.reserve(array.size());
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

namespace {

// Counters are the most frequent values of all.
bool isPlainInteger(std::string_view text) {
  const bool short_enough = !text.empty() && text.size() < 18;
  return short_enough && (text.front() != '0' || text.size() == 1) &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<> checkJson(std::string_view text) {
  if (isPlainInteger(text)) return {};
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

namespace {

// Goes through text that is known to be JSON.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {}

  void skipSpace() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }
  char next() const { return text_[at_]; }
  void skip() { ++at_; }

  // The value that begins here, as it stands.
  std::string_view value() {
    const std::size_t begin = at_;
    if (next() == '"') {
      skipString();
    } else if (next() == '{' || next() == '[') {
      skipNested();
    } else {
      at_ = std::min(text_.find_first_of(",]} \t\n\r", at_), text_.size());
    }
    return text_.substr(begin, at_ - begin);
  }

 private:
  void skipString() {
    at_ = text_.find_first_of("\"\\", at_ + 1);
    while (next() == '\\') at_ = text_.find_first_of("\"\\", at_ + 2);
    ++at_;
  }
  void skipNested() {
    std::size_t depth = 0;
    do {
      const char here = next();
      if (here == '"') {
        skipString();
        continue;
      }
      if (here == '{' || here == '[') ++depth;
      if (here == '}' || here == ']') --depth;
      ++at_;
    } while (depth > 0);
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

Result<std::string> unescaped(std::string_view quoted) {
  const std::string_view inner = quoted.substr(1, quoted.size() - 2);
  if (inner.find('\\') == std::string_view::npos) return std::string(inner);
  NIMBUS_TRY(const JsonValue name, parseJson(quoted));
  return std::string(name.string().value_or(""));
}

}  // namespace

Result<std::vector<RawMember>> splitObject(std::string_view text) {
  NIMBUS_CHECK(checkJson(text));
  Walk walk(text);
  walk.skipSpace();
  if (walk.next() != '{') return Error(Code::InvalidArgument, "this must be a JSON object");
  walk.skip();
  walk.skipSpace();
  std::vector<RawMember> members;
  while (walk.next() != '}') {
    NIMBUS_TRY(std::string name, unescaped(walk.value()));
    walk.skipSpace();
    walk.skip();  // the colon
    walk.skipSpace();
    members.push_back({std::move(name), walk.value()});
    walk.skipSpace();
    if (walk.next() == ',') walk.skip();
    walk.skipSpace();
  }
  std::vector<std::string_view> names;
  names.reserve(members.size());
  for (const RawMember& member : members) names.push_back(member.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return Error(Code::InvalidArgument, fmt::format("\"{}\" is given twice", *twice));
  }
  return members;
}

Result<std::vector<std::string_view>> splitArray(std::string_view text) {
  NIMBUS_CHECK(checkJson(text));
  Walk walk(text);
  walk.skipSpace();
  if (walk.next() != '[') return Error(Code::InvalidArgument, "this must be a JSON array");
  walk.skip();
  walk.skipSpace();
  std::vector<std::string_view> elements;
  while (walk.next() != ']') {
    elements.push_back(walk.value());
    walk.skipSpace();
    if (walk.next() == ',') walk.skip();
    walk.skipSpace();
  }
  return elements;
}

}  // namespace nimbus
