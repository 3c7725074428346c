#pragma once
// A JSON value.
//
// Values pass through Nimbus as the texts they are, and so they do here: a value that came from
// outside is read when somebody looks into it, and written as it came if nobody changed it. Objects
// keep their order. Integers of 64 bits are exact; other numbers keep their spelling.

#include <nimbus/function/json_text.h>

#include <cmath>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace nimbus {

struct Member;

// Different threads may read the same one.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  // Implicit, so that a handler returns what it has and state.set() takes it.
  Json();  // null
  Json(std::nullptr_t);
  Json(bool value);
  template <std::integral T>
    requires(!std::same_as<T, char> && sizeof(T) <= 8)
  Json(T value);
  Json(double value);
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  Json(Array elements);
  Json(Object members);
  template <typename T>
    requires(!std::same_as<T, char>)
  Json(T*) = delete;    // would be taken for a bool
  Json(char) = delete;  // a letter or a number?

  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  // Json::array({1, "two"}), Json::object({{"name", "alice"}, {"age", 7}})
  static Json array(std::initializer_list<Json> elements = {});
  static Json object(std::initializer_list<Member> members = {});

  // Reads it at once. JsonError, with the place, if `text` is not one JSON value.
  static Json parse(std::string_view text);
  // Checks it and keeps it as it is.
  static Json ofText(std::string text);

  // ---- What it is, and what it holds. JsonError if it is something else.

  bool isNull() const { return is<std::nullptr_t>(); }
  bool isBool() const { return is<bool>(); }
  bool isNumber() const { return is<std::int64_t>() || is<double>() || is<Number>(); }
  bool isInteger() const { return is<std::int64_t>(); }  // of 64 bits
  bool isString() const { return is<std::string>(); }
  bool isArray() const { return is<Array>(); }
  bool isObject() const { return is<Object>(); }

  bool asBool() const { return get<bool>("a bool"); }
  std::int64_t asInt() const { return get<std::int64_t>("an integer of 64 bits"); }
  double asDouble() const;
  const std::string& asString() const { return get<std::string>("a string"); }
  const Array& elements() const { return get<Array>("an array"); }
  const Object& members() const { return get<Object>("an object"); }

  // The same, and `otherwise` for null: event["limit"].asInt(20).
  bool asBool(bool otherwise) const { return isNull() ? otherwise : asBool(); }
  std::int64_t asInt(std::int64_t otherwise) const { return isNull() ? otherwise : asInt(); }
  double asDouble(double otherwise) const { return isNull() ? otherwise : asDouble(); }
  std::string asString(std::string_view otherwise) const {
    return isNull() ? std::string(otherwise) : asString();
  }

  // How many elements or members; 0 of anything else.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // Null if there is no such member, or if this is null itself. Where a name stands twice the last
  // one counts.
  const Json& operator[](std::string_view name) const;
  const Json* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // JsonError if there are not so many elements.
  template <std::integral Index>
  const Json& operator[](Index index) const {
    return elements()[checkedIndex(index)];
  }

  // ---- Changing it. Null becomes an object or an array.

  Json& operator[](std::string_view name);
  template <std::integral Index>
  Json& operator[](Index index) {
    const std::size_t checked = checkedIndex(index);
    return change<Array>("an array")[checked];
  }
  // Whether there was one.
  bool remove(std::string_view name);
  void append(Json element);

  // ---- Its text: as it came, or compact. JsonError if it has none: NaN, a string that is not
  // UTF-8, more than 64 arrays or objects inside each other.

  std::string text() const {
    std::string out;
    appendTo(out);
    return out;
  }
  void appendTo(std::string& out) const { write(out, 0); }

  // Of what they mean: the spelling of numbers and the order of members do not count.
  friend bool operator==(const Json& left, const Json& right) { return left.isSame(right); }

  // What the server sent: JSON, that much is known.
  static Json ofTrustedText(std::string text);

 private:
  struct Number {
    std::string spelling;
  };
  // A text that is read when it has to be, once.
  struct Unread;

  template <typename T>
  bool is() const {
    return read().value_.kind() == kindOf<T>();
  }
  template <typename T>
  const T& get(const char* wanted) const {
    const T* const held = read().value_.template as<T>();
    if (held == nullptr) throw JsonError(std::string("this is ") + kindName() + ", not " + wanted);
    return *held;
  }
  template <typename T>
  T& change(const char* wanted);

  template <std::integral Index>
  std::size_t checkedIndex(Index index) const {
    if (std::cmp_less(index, 0) || std::cmp_greater_equal(index, elements().size())) {
      throw JsonError("there is no element " + std::to_string(index));
    }
    return static_cast<std::size_t>(index);
  }
  static Json read(native::Scanner& scanner, std::size_t depth);
  const Json& read() const;
  const char* kindName() const;
  void write(std::string& out, std::size_t depth) const;
  bool isSame(const Json& other) const;

  using UnreadPtr = std::shared_ptr<const Unread>;

  enum class Kind : std::uint8_t {
    Null,
    Bool,
    Integer,
    Double,
    Number,
    String,
    Array,
    Object,
    Unread,
  };
  template <typename T>
  static constexpr Kind kindOf();

  // One value of one of these kinds. A std::variant takes a compiler longer than all the rest of
  // this header.
  class Value {
   public:
    Value() = default;
    template <typename T>
      requires(!std::same_as<T, Value>)
    explicit Value(T value);
    Value(const Value& other);
    Value(Value&& other) noexcept
        : kind_(std::exchange(other.kind_, Kind::Null)), scalar_(other.scalar_) {}
    Value& operator=(Value other) noexcept {
      std::swap(kind_, other.kind_);
      std::swap(scalar_, other.scalar_);
      return *this;
    }
    ~Value();

    Kind kind() const { return kind_; }
    // Null if it is of another kind.
    template <typename T>
    const T* as() const;
    template <typename T>
    T* as() {
      return const_cast<T*>(std::as_const(*this).template as<T>());
    }

   private:
    // Calls `use` with what is held, if that is not in here.
    template <typename Use>
    void withContent(Use use) const;

    Kind kind_ = Kind::Null;
    union Scalar {
      std::int64_t integer = 0;
      bool boolean;
      double floating;
      void* content;
    } scalar_;
  };

  Value value_;
};

struct Member {
  std::string name;
  Json value;
};

inline Json::Json() = default;
inline Json::Json(std::nullptr_t) {}
inline Json::Json(bool value) : value_(value) {}
template <std::integral T>
  requires(!std::same_as<T, char> && sizeof(T) <= 8)
Json::Json(T value) {
  if (std::in_range<std::int64_t>(value)) {
    value_ = Value(static_cast<std::int64_t>(value));
  } else {
    value_ = Value(Number{std::to_string(value)});
  }
}
inline Json::Json(double value) : value_(value) {}
inline Json::Json(const char* text) : value_(std::string(text)) {}
inline Json::Json(std::string_view text) : value_(std::string(text)) {}
inline Json::Json(std::string text) : value_(std::move(text)) {}
inline Json::Json(Array elements) : value_(std::move(elements)) {}
inline Json::Json(Object members) : value_(std::move(members)) {}
inline Json::Json(const Json&) = default;
inline Json::Json(Json&&) noexcept = default;
inline Json& Json::operator=(const Json&) = default;
inline Json& Json::operator=(Json&&) noexcept = default;
inline Json::~Json() = default;

template <typename T>
constexpr Json::Kind Json::kindOf() {
  if constexpr (std::same_as<T, std::nullptr_t>) return Kind::Null;
  if constexpr (std::same_as<T, bool>) return Kind::Bool;
  if constexpr (std::same_as<T, std::int64_t>) return Kind::Integer;
  if constexpr (std::same_as<T, double>) return Kind::Double;
  if constexpr (std::same_as<T, Number>) return Kind::Number;
  if constexpr (std::same_as<T, std::string>) return Kind::String;
  if constexpr (std::same_as<T, Array>) return Kind::Array;
  if constexpr (std::same_as<T, Object>) return Kind::Object;
  return Kind::Unread;
}

template <typename T>
  requires(!std::same_as<T, Json::Value>)
Json::Value::Value(T value) : kind_(kindOf<T>()) {
  if constexpr (std::same_as<T, bool>) {
    scalar_.boolean = value;
  } else if constexpr (std::same_as<T, std::int64_t>) {
    scalar_.integer = value;
  } else if constexpr (std::same_as<T, double>) {
    scalar_.floating = value;
  } else {
    scalar_.content = new T(std::move(value));
  }
}

template <typename Use>
void Json::Value::withContent(Use use) const {
  switch (kind_) {
    case Kind::Number:
      return use(static_cast<Number*>(scalar_.content));
    case Kind::String:
      return use(static_cast<std::string*>(scalar_.content));
    case Kind::Array:
      return use(static_cast<Array*>(scalar_.content));
    case Kind::Object:
      return use(static_cast<Object*>(scalar_.content));
    case Kind::Unread:
      return use(static_cast<UnreadPtr*>(scalar_.content));
    default:
      return;
  }
}

inline Json::Value::Value(const Value& other) : kind_(other.kind_), scalar_(other.scalar_) {
  other.withContent([this](auto* content) {
    scalar_.content = new std::remove_pointer_t<decltype(content)>(*content);
  });
}

inline Json::Value::~Value() {
  withContent([](auto* content) { delete content; });
}

template <typename T>
const T* Json::Value::as() const {
  if (kind_ != kindOf<T>()) return nullptr;
  if constexpr (std::same_as<T, bool>) {
    return &scalar_.boolean;
  } else if constexpr (std::same_as<T, std::int64_t>) {
    return &scalar_.integer;
  } else if constexpr (std::same_as<T, double>) {
    return &scalar_.floating;
  } else {
    return static_cast<const T*>(scalar_.content);
  }
}

struct Json::Unread {
  explicit Unread(std::string its_text) : text(std::move(its_text)) {}

  const Json& value() const {
    std::call_once(once, [&] { read = parse(text); });
    return read;
  }

  const std::string text;
  mutable std::once_flag once;
  mutable Json read;
};

inline Json Json::array(std::initializer_list<Json> elements) {
  return Json(Array(elements));
}

inline Json Json::object(std::initializer_list<Member> members) {
  return Json(Object(members));
}

inline const Json& Json::read() const {
  const auto* const unread = value_.as<UnreadPtr>();
  return unread == nullptr ? *this : (*unread)->value();
}

inline Json Json::parse(std::string_view text) {
  native::Scanner scanner(text);
  Json value = read(scanner, 0);
  scanner.expectEnd();
  return value;
}

inline Json Json::ofText(std::string text) {
  native::checkJson(text);
  return ofTrustedText(std::move(text));
}

inline Json Json::ofTrustedText(std::string text) {
  Json value;
  value.value_ = Value(UnreadPtr(std::make_shared<const Unread>(std::move(text))));
  return value;
}

inline Json Json::read(native::Scanner& scanner, std::size_t depth) {
  Json value;
  switch (scanner.peek()) {
    case '{': {
      Object members;
      scanner.members(depth, [&](const native::Quoted& name) {
        std::string decoded = name.decoded();
        members.push_back({std::move(decoded), read(scanner, depth + 1)});
      });
      value.value_ = Value(std::move(members));
      break;
    }
    case '[': {
      Array elements;
      scanner.elements(depth, [&] { elements.push_back(read(scanner, depth + 1)); });
      value.value_ = Value(std::move(elements));
      break;
    }
    case '"':
      value.value_ = Value(scanner.string().decoded());
      break;
    case 't':
    case 'f':
      value.value_ = Value(scanner.boolean());
      break;
    case 'n':
      scanner.word("null");
      break;
    default: {
      const std::string_view spelling = scanner.number();
      std::int64_t integer = 0;
      if (native::readInteger(spelling, integer)) {
        value.value_ = Value(integer);
      } else {
        value.value_ = Value(Number{std::string(spelling)});
      }
    }
  }
  return value;
}

inline const char* Json::kindName() const {
  if (isNull()) return "null";
  if (isBool()) return "a bool";
  if (isInteger()) return "an integer";
  if (isNumber()) return "a number";
  if (isString()) return "a string";
  return isArray() ? "an array" : "an object";
}

inline double Json::asDouble() const {
  const Json& value = read();
  if (const auto* const integer = value.value_.as<std::int64_t>()) {
    return static_cast<double>(*integer);
  }
  if (const auto* const held = value.value_.as<double>()) return *held;
  const std::string& spelling = value.get<Number>("a number").spelling;
  double number = 0;
  const auto [stopped, failed] =
      std::from_chars(spelling.data(), spelling.data() + spelling.size(), number);
  if (failed != std::errc()) throw JsonError(spelling + " is no double");
  return number;
}

inline std::size_t Json::size() const {
  const Json& value = read();
  if (const auto* const elements = value.value_.as<Array>()) return elements->size();
  if (const auto* const members = value.value_.as<Object>()) return members->size();
  return 0;
}

inline const Json* Json::find(std::string_view name) const {
  const auto* const members = read().value_.as<Object>();
  if (members == nullptr) return nullptr;
  for (auto member = members->rbegin(); member != members->rend(); ++member) {
    if (member->name == name) return &member->value;
  }
  return nullptr;
}

inline const Json& Json::operator[](std::string_view name) const {
  static const Json missing;
  if (!isNull()) static_cast<void>(members());
  const Json* const found = find(name);
  return found != nullptr ? *found : missing;
}

template <typename T>
T& Json::change(const char* wanted) {
  if (const Json& value = read(); &value != this) {
    // In two steps: what is read goes with the text that it came from.
    Json copy = value;
    *this = std::move(copy);
  }
  if (isNull()) value_ = Value(T());
  static_cast<void>(get<T>(wanted));
  return *value_.template as<T>();
}

inline Json& Json::operator[](std::string_view name) {
  auto& members = change<Object>("an object");
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    if (member->name == name) return member->value;
  }
  members.push_back({std::string(name), Json()});
  return members.back().value;
}

inline bool Json::remove(std::string_view name) {
  return std::erase_if(change<Object>("an object"),
                       [&](const Member& member) { return member.name == name; }) != 0;
}

inline void Json::append(Json element) {
  change<Array>("an array").push_back(std::move(element));
}

inline void Json::write(std::string& out, std::size_t depth) const {
  if (const auto* const unread = value_.as<UnreadPtr>()) {
    const std::string& text = (*unread)->text;
    // Alone it is not too deep, inside of something else it may be.
    if (depth > 0) native::Scanner(text).skip(depth);
    out += text;
    return;
  }
  if (const auto* const integer = value_.as<std::int64_t>()) {
    std::array<char, 24> digits;
    out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), *integer).ptr);
  } else if (const auto* const string = value_.as<std::string>()) {
    native::appendString(out, *string);
  } else if (const auto* const number = value_.as<Number>()) {
    out += number->spelling;
  } else if (const auto* const floating = value_.as<double>()) {
    if (!std::isfinite(*floating)) throw JsonError("NaN and infinity cannot be JSON");
    std::array<char, 32> digits;
    out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), *floating).ptr);
  } else if (const auto* const boolean = value_.as<bool>()) {
    out += *boolean ? "true" : "false";
  } else if (isNull()) {
    out += "null";
  } else {
    if (depth >= native::kMaxDepth) {
      throw JsonError("more than " + std::to_string(native::kMaxDepth) +
                      " arrays or objects inside each other");
    }
    bool first = true;
    if (const auto* const elements = value_.as<Array>()) {
      out += '[';
      for (const Json& element : *elements) {
        if (!std::exchange(first, false)) out += ',';
        element.write(out, depth + 1);
      }
      out += ']';
    } else {
      out += '{';
      for (const Member& member : *value_.as<Object>()) {
        if (!std::exchange(first, false)) out += ',';
        native::appendString(out, member.name);
        out += ':';
        member.value.write(out, depth + 1);
      }
      out += '}';
    }
  }
}

inline bool Json::isSame(const Json& other) const {
  const Json& left = read();
  const Json& right = other.read();
  if (left.isNumber() && right.isNumber()) {
    if (left.isInteger() && right.isInteger()) return left.asInt() == right.asInt();
    const auto* const one = left.value_.as<Number>();
    const auto* const another = right.value_.as<Number>();
    if (one != nullptr && another != nullptr && one->spelling == another->spelling) return true;
    return left.asDouble() == right.asDouble();
  }
  if (left.value_.kind() != right.value_.kind() || left.size() != right.size()) return false;
  if (left.isArray()) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!left[i].isSame(right[i])) return false;
    }
    return true;
  }
  if (left.isObject()) {
    for (const Member& member : left.members()) {
      const Json* const found = right.find(member.name);
      if (found == nullptr || !left[member.name].isSame(*found)) return false;
    }
    return true;
  }
  if (left.isString()) return left.asString() == right.asString();
  return left.isNull() || left.asBool() == right.asBool();
}

}  // namespace nimbus
