#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::kube {

// Which objects are meant, by their labels. All requirements must hold; without any it matches
// everything. An immutable value.
class LabelSelector {
 public:
  enum class Operator { Equals, NotEquals, In, NotIn, Exists, DoesNotExist, GreaterThan, LessThan };

  struct Requirement {
    std::string key;
    Operator op = Operator::Exists;
    std::vector<std::string> values;  // sorted, each once; one for all but In and NotIn

    bool matches(const json::Object& labels) const;
    auto operator<=>(const Requirement&) const = default;
  };

  LabelSelector() = default;  // everything

  // The text form, as in URLs and on command lines: "a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2".
  // Takes what Kubernetes takes. InvalidArgument with the position of what is wrong.
  static Result<LabelSelector> parse(std::string_view text);
  // The form in objects: {matchLabels: {...}, matchExpressions: [{key, operator, values}]}. An
  // empty one matches everything; null is an error, because what a missing one means differs from
  // field to field. InvalidArgument with the path of what is wrong, also for unknown fields: a
  // mistyped one must not widen the selector.
  static Result<LabelSelector> fromObject(const json::Value& selector);

  // A label that is no string counts as missing. As in Kubernetes, != and notin hold for objects
  // that do not have the label.
  bool matches(const json::Object& labels) const;
  bool matchesEverything() const { return requirements_.empty(); }

  // The canonical text form, which parse() takes: requirements and values sorted, == as =.
  std::string text() const;
  const std::vector<Requirement>& requirements() const { return requirements_; }

  bool operator==(const LabelSelector&) const = default;

 private:
  explicit LabelSelector(std::vector<Requirement> requirements);

  std::vector<Requirement> requirements_;  // sorted
};

// Which objects are meant, by the values of fields: "metadata.name=x,spec.nodeName!=y". All terms
// must hold. An immutable value. Which fields may be asked for is up to the server.
class FieldSelector {
 public:
  struct Term {
    std::string path;  // "spec.nodeName"
    std::string value;
    bool equal = true;

    bool operator==(const Term&) const = default;
  };

  FieldSelector() = default;  // everything
  explicit FieldSelector(std::vector<Term> terms);

  // \, \= and \\ stand for these characters in a value. InvalidArgument with what is wrong.
  static Result<FieldSelector> parse(std::string_view text);

  // A number or boolean is compared by its text. A field that is missing, or that is a map or a
  // list, counts as empty.
  bool matches(const json::Value& object) const;
  bool matchesEverything() const { return terms_.empty(); }

  // The canonical text form, which parse() takes: terms sorted, == as =.
  std::string text() const;
  const std::vector<Term>& terms() const { return terms_; }
  // The value that the terms demand of a path: what a server can look up by. Null when none.
  const std::string* required(std::string_view path) const;

  bool operator==(const FieldSelector&) const = default;

 private:
  std::vector<Term> terms_;  // sorted
};

}  // namespace cadre::kube
