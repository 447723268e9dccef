#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "json/value.h"
#include "kube/schema.h"

namespace cadre::kube {

// Whether an object is what its kind says, with the answers of the API server: the same fields, the
// same reasons, the same words. Pure.

// One thing that is wrong with one field.
struct FieldError {
  std::string path;  // "spec.proxyConfig.models[0]"
  Fault fault = Fault::Invalid;
  std::string message;  // without the path: "Required value"

  std::string text() const;  // "spec.mode: Required value"
  Detail detail() const;     // as a cause in a Status

  bool operator==(const FieldError&) const = default;
};

std::string_view reasonName(Fault fault);  // "FieldValueRequired"

// Where a Check puts what it finds about the value it was asked about.
class Report {
 public:
  // The field is given from the value on: "models[0]", "apiKey.value"; "" is the value itself.
  void invalid(std::string_view field, std::string_view why);
  void required(std::string_view field, std::string_view why);
  void forbidden(std::string_view field, std::string_view why);
  // What another check says of that field.
  void add(std::string_view field, FieldError error);
  // Accepted all the same.
  void warn(std::string_view field, std::string_view what);

 private:
  friend class Validator;
  Report(const json::Value& self, std::string path, bool secret, std::vector<FieldError>& errors,
         std::vector<std::string>& warnings)
      : self_(self),
        path_(std::move(path)),
        secret_(secret),
        errors_(errors),
        warnings_(warnings) {}
  std::string pathOf(std::string_view field) const;
  void put(FieldError error);

  const json::Value& self_;
  std::string path_;
  bool secret_;
  std::vector<FieldError>& errors_;
  std::vector<std::string>& warnings_;
};

struct Validation {
  std::vector<FieldError> errors;
  // Fields that the kind does not have, apart: a server drops them and warns, unless it was asked
  // to be strict. `unknown field "spec.colour", did you mean "color"?`
  std::vector<FieldError> unknown;
  std::vector<std::string> warnings;  // of checks, and about what is deprecated

  bool ok() const { return errors.empty(); }
};

struct ValidateOptions {
  // What the object was before: rules about a change are asked, and errors that it already had are
  // not held against the change. Otherwise an old object could not even lose its finalizer.
  const json::Value* old = nullptr;
  // Also the status: what a write to the status subresource looks at. Otherwise it is passed over,
  // as by the server.
  bool status = false;
};

// The object need not have its defaults. At most kMaxFieldErrors are reported. Rules and checks are
// asked only when nothing is of the wrong type, missing, too long, too many or not supported.
Validation validate(const Kind& kind, const json::Value& object,
                    const ValidateOptions& options = {});
inline constexpr std::size_t kMaxFieldErrors = 1000;

// The object without the fields that its kind does not have: as the server stores it.
json::Value pruned(const Kind& kind, json::Value object);

// One value alone, without rules and checks.
std::vector<FieldError> validateValue(const Schema& schema, const json::Value& value,
                                      std::string_view path);

// The same as the server does it for a custom object, when it looks at a whole object (the root is
// "") or at its status: what a message calls a field is counted from the root on.
struct ShapeOptions {
  std::string root = {};
  // Below the root, what is as it was before is not looked at.
  const json::Value* old = nullptr;
};
std::vector<FieldError> validateShape(const Schema& schema, const json::Value& value,
                                      const ShapeOptions& options = {});
// What must be unique in sets and keyed lists, and what embedded objects must have. Not of the root
// itself.
std::vector<FieldError> validateLists(const Schema& schema, const json::Value& value,
                                      std::string_view root = {});
std::vector<FieldError> validateEmbedded(const Schema& schema, const json::Value& value,
                                         std::string_view root = {});
// Only the rules of a kind, as a server asks them in CEL, on an object that has its defaults.
std::vector<FieldError> validateRules(const Kind& kind, const json::Value& object,
                                      const json::Value& old, bool status);
// With one of these the server does not ask rules.
bool blocksRules(Fault fault);

// Takes away what a value has that its schema does not describe, and gives the paths of that. Of an
// embedded object the metadata is looked at too.
std::vector<std::string> prune(const Schema& schema, json::Value& value);

// The failure that the server would answer with: `Agent.kaos.tools "x" is invalid: [...]`.
Error refusal(const Kind& kind, const json::Value& object, const std::vector<FieldError>& errors);

}  // namespace cadre::kube
