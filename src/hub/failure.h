#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "json/value.h"
#include "kube/meta.h"
#include "kube/validate.h"

namespace cadre::hub {

// Why a request is refused, as the API says it.
struct Failure {
  int code = 500;
  std::string reason;  // "NotFound"
  std::string message;
  json::Object details = {};
  bool details_shown = false;  // also when there are none
  std::string next = {};       // of a list: the token to go on with all the same

  json::Value status() const;  // the body of the answer
};

Failure notFound(const kube::Resource& resource, std::string_view name);
Failure noSuchResource();
Failure alreadyExists(const kube::Resource& resource, std::string_view name);
Failure conflict(const kube::Resource& resource, std::string_view name, std::string_view why);
// `Deployment.apps "web" is invalid: ...`, with a cause for each error.
Failure invalid(const kube::Resource& resource, std::string_view name,
                const std::vector<kube::FieldError>& errors);
Failure badRequest(std::string message);
Failure forbidden(const kube::Resource& resource, std::string_view name, std::string_view why);
Failure unauthorized();
Failure methodNotAllowed();
Failure notAcceptable(std::string_view types);
Failure unsupportedMediaType(std::string_view types);
Failure tooLarge(std::size_t limit);
Failure expired(std::string message);
Failure internal(std::string message);
// What went wrong below.
Failure failureOf(const Error& error);

// What was asked for, or why not.
template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::move(value)) {}            // NOLINT: `return value;`
  Outcome(Failure failure) : state_(std::move(failure)) {}  // NOLINT

  explicit operator bool() const { return std::holds_alternative<T>(state_); }
  T& operator*() & { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const Failure& failure() const { return std::get<Failure>(state_); }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace cadre::hub
