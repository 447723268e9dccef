#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "json/value.h"

namespace cadre::kube {

// One step from a value to one of its members.
struct Step {
  enum class By : std::uint8_t {
    Field,  // the member of a map by its name: value is a string
    Key,    // the item of a keyed list with these members: an object
    Value,  // the item of a set: any value
    Index,  // the item of a list by its position: an integer
  };
  By by = By::Field;
  json::Value value;

  static Step field(std::string_view name) { return {By::Field, name}; }

  // f:name, k:{"name":"web"}, v:"a", i:0, as it stands in FieldsV1; nothing where it begins with
  // another letter, for that is of a later version. InvalidArgument when it cannot be read.
  static Result<std::optional<Step>> parse(std::string_view text);
  std::string text() const;
  // .name, [name="web"], [="a"], [0]: as messages have it.
  std::string pathText() const;

  // Fields come first, in the order of their names. Numbers are compared by value.
  std::weak_ordering operator<=>(const Step& other) const;
  bool operator==(const Step& other) const { return (*this <=> other) == 0; }
};

using FieldPath = std::vector<Step>;
// .spec.template.spec.containers[name="web"].args
std::string pathText(const FieldPath& path);

// Fields of an object that somebody owns: a tree of steps from the object to each of them. It says
// of the place that it stands for whether that is owned, and has the sets of the places below, each
// of which owns something. A plain value, as deep as the object is; nothing owns a whole object, so
// that the set of one begins with what is below.
class FieldSet {
 public:
  FieldSet();
  ~FieldSet();
  FieldSet(const FieldSet&);
  FieldSet(FieldSet&&) noexcept;
  FieldSet& operator=(const FieldSet&);
  FieldSet& operator=(FieldSet&&) noexcept;

  // From paths of plain fields: {"spec", "metadata.labels"}.
  static FieldSet ofFields(std::initializer_list<std::string_view> paths);
  // From FieldsV1 ({"f:data":{".":{},"f:key":{}}}), and back. InvalidArgument when it is malformed;
  // ResourceExhausted when it is deeper than objects are. As deep as the value, no larger.
  static Result<FieldSet> parse(const json::Value& fields_v1);
  json::Value fieldsV1() const;

  bool owned() const { return owned_; }
  void own(bool owned = true) { owned_ = owned; }
  bool empty() const { return !owned_ && below_.empty(); }
  // Of places below: what is owned there, null when nothing is; the same, made where there is none,
  // for whoever puts something into it; and all of them, in their order.
  using Below = std::pair<Step, FieldSet>;
  const FieldSet* find(const Step& step) const;
  FieldSet& at(Step step);
  void insert(Step step, FieldSet set);  // joined with what is there; an empty one is not put
  const std::vector<Below>& below() const { return below_; }

  // What either owns, what both own, and what the other does not own.
  friend FieldSet operator|(FieldSet set, const FieldSet& other);
  FieldSet operator&(const FieldSet& other) const;
  friend FieldSet operator-(FieldSet set, const FieldSet& other);
  // Without what the other owns and all that is below it.
  friend FieldSet without(FieldSet set, const FieldSet& other);

  // Every owned place: those at one level before those further below.
  void each(const Function<void(const FieldPath& path)>& visit) const;

  bool operator==(const FieldSet& other) const;

 private:
  void each(FieldPath& path, const Function<void(const FieldPath& path)>& visit) const;
  std::vector<Below>::const_iterator place(const Step& step) const;
  void add(const FieldSet& other);
  enum class Take { Each, WithAllBelow };
  void remove(const FieldSet& other, Take take);

  bool owned_ = false;
  std::vector<Below> below_;  // sorted
};

}  // namespace cadre::kube
