#pragma once
// A value or an Error. The names are those of std::expected, so that it can become one when every
// compiler and tool we use has it (docs/adr/0002-result.md).

#include "base/assert.h"
#include "base/error.h"

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace nimbus {

template <typename T = void>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  // Asio default-constructs the result of a spawned task that threw; callers never see this one.
  Result() : Result(Error(Code::Internal, "no result", Outcome::Unknown)) {}

  // Implicit on purpose: `return value;` and `return Error(...);` are how results are made. The
  // constraint keeps the first from hiding the copy and the move, which clang-tidy does not see.
  // NOLINTBEGIN(google-explicit-constructor,bugprone-forwarding-reference-overload)
  template <typename U = T>
    requires(std::is_constructible_v<T, U &&> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor,bugprone-forwarding-reference-overload)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& operator*() & { return get<0>(*this); }
  const T& operator*() const& { return get<0>(*this); }
  T&& operator*() && { return std::move(get<0>(*this)); }
  T* operator->() { return &get<0>(*this); }
  const T* operator->() const { return &get<0>(*this); }

  const Error& error() const& { return get<1>(*this); }
  Error&& error() && { return std::move(get<1>(*this)); }

 private:
  template <std::size_t Index, typename Self>
  static auto& get(Self& self) {
    NIMBUS_ASSERT(self.state_.index() == Index, "Result read without a check");
    return *std::get_if<Index>(&self.state_);
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return Error(...);` is how failures are made.
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }

  const Error& error() const& { return *checked(); }
  Error&& error() && {
    static_cast<void>(checked());
    return *std::move(error_);
  }

 private:
  const std::optional<Error>& checked() const {
    NIMBUS_ASSERT(error_.has_value(), "error() of a Result that succeeded");
    return error_;
  }

  std::optional<Error> error_;
};

}  // namespace nimbus

#define NIMBUS_CONCAT_INNER(a, b) a##b
#define NIMBUS_CONCAT(a, b) NIMBUS_CONCAT_INNER(a, b)

#define NIMBUS_TRY_INNER(leave, result, declaration, expression) \
  auto result = (expression);                                    \
  if (!result) leave std::move(result).error();                  \
  declaration = *std::move(result)

// NIMBUS_TRY(auto file, open(path)): the value, or return the error to our caller.
#define NIMBUS_TRY(declaration, expression) \
  NIMBUS_TRY_INNER(return, NIMBUS_CONCAT(try_, __LINE__), declaration, expression)
// The same in a coroutine: NIMBUS_CO_TRY(auto record, co_await store.get(...)).
#define NIMBUS_CO_TRY(declaration, expression) \
  NIMBUS_TRY_INNER(co_return, NIMBUS_CONCAT(try_, __LINE__), declaration, expression)

#define NIMBUS_CHECK_INNER(leave, result, expression) \
  if (auto result = (expression); !result) leave std::move(result).error()

// For results whose value is not wanted.
#define NIMBUS_CHECK(expression) \
  NIMBUS_CHECK_INNER(return, NIMBUS_CONCAT(check_, __LINE__), expression)
#define NIMBUS_CO_CHECK(expression) \
  NIMBUS_CHECK_INNER(co_return, NIMBUS_CONCAT(check_, __LINE__), expression)
