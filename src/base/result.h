#pragma once

#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/error.h"

namespace cadre {

namespace detail {
// Reading the wrong side of a Result is a defect of ours, never a matter of input: say it and stop.
[[noreturn]] inline void badResult(const char* what, const Error* error) {
  std::fprintf(stderr, "cadre: %s%s%s\n", what, error ? ": " : "",
               error ? error->text().c_str() : "");
  std::abort();
}
}  // namespace detail

// A value, or the Error that says why there is none.
template <class T = void>
class [[nodiscard]] Result {
 public:
  using Value = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: `return value;`
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: `return error;`
  template <class U>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error> &&
             !std::is_same_v<std::remove_cvref_t<U>, T>)
  Result(U&& value)  // NOLINT: `return "text";` for a Result<std::string>
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return const_cast<Result*>(this)->value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &const_cast<Result*>(this)->value(); }

  const Error& error() const& {
    if (ok()) detail::badResult("error() of a Result that holds a value", nullptr);
    return std::get<1>(state_);
  }
  Error&& error() && {
    if (ok()) detail::badResult("error() of a Result that holds a value", nullptr);
    return std::move(std::get<1>(state_));
  }

 private:
  T& value() {
    if (!ok()) detail::badResult("value of a failed Result", &std::get<1>(state_));
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

// Success, or the Error that says why not.
template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: `return error;`

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    if (ok()) detail::badResult("error() of a Result that succeeded", nullptr);
    return *error_;
  }
  Error&& error() && {
    if (ok()) detail::badResult("error() of a Result that succeeded", nullptr);
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace cadre

// Passes a failure on to the caller: CADRE_TRY(store.open(path));
#define CADRE_TRY(expression)                                 \
  do {                                                        \
    if (auto cadre_result = (expression); !cadre_result.ok()) \
      return std::move(cadre_result).error();                 \
  } while (false)

// Passes a failure on, or names the value: CADRE_LET(auto config, loadConfig(path));
#define CADRE_LET(declaration, expression) \
  CADRE_LET_NAMED(CADRE_LET_CONCAT(cadre_result_, __LINE__), declaration, expression)
#define CADRE_LET_NAMED(result, declaration, expression) \
  auto result = (expression);                            \
  if (!result.ok()) return std::move(result).error();    \
  declaration = *std::move(result)
#define CADRE_LET_CONCAT(a, b) CADRE_LET_CONCAT2(a, b)
#define CADRE_LET_CONCAT2(a, b) a##b
