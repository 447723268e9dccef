#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kube/meta.h"

namespace cadre::kube {

// What is known of the kinds that every cluster serves (Pods, Deployments, Secrets, ...): which
// fields they have, what those hold, and how lists are merged. The table is constant data,
// generated from the API's own sources (`make generate`); nothing is built at start or kept in
// memory. Everything here is pure and thread-safe.

// What a value holds. All but the last three are one JSON value each.
enum class Form : std::uint8_t {
  String,
  Integer,
  Number,
  Boolean,
  Bytes,        // as base64
  Quantity,     // "500m"
  IntOrString,  // a port or its name, a count or a percentage
  Time,         // RFC 3339, whole seconds
  MicroTime,    // the same with microseconds
  Any,          // whatever it is: not described further
  Struct,
  Map,  // from text
  List,
};

// How the members of a list, map or struct relate when several write it with server-side apply.
enum class Relation : std::uint8_t {
  Granular,  // of a map or struct: each member by itself
  Atomic,    // all or nothing
  Set,       // of a list: of values, each once
  Keyed,     // of a list: of structs, told apart by their keys
};

class Field;

// A type in the table, or none: then it is Any. A small value.
class Type {
 public:
  Type() = default;  // none
  // The type of a kind; none for those that are not in the table, such as custom resources.
  static Type of(std::string_view group, std::string_view version, std::string_view kind);
  static Type of(const GroupVersionKind& kind) { return of(kind.group, kind.version, kind.kind); }

  explicit operator bool() const { return row_ != kNone; }
  Form form() const;
  Relation relation() const;
  Type element() const;  // of a list or a map; else none

  struct Key {
    std::string_view name;
    std::string_view otherwise;  // what is meant where it is missing: "TCP"
  };
  std::vector<Key> keys() const;  // of a keyed list; else empty

  std::string_view name() const;  // of a struct: "core/v1 PodSpec"
  // The field of a struct by its name in JSON, or by its number in protobuf. Fields of inline
  // structs are found by name, but not by number.
  std::optional<Field> field(std::string_view name) const;
  std::optional<Field> ownField(std::string_view name) const;  // without those of inline structs
  std::optional<Field> field(std::uint32_t number) const;
  // In the order of their names, inline structs first.
  std::size_t fieldCount() const;
  Field fieldAt(std::size_t index) const;

  bool operator==(const Type&) const = default;

 private:
  friend class Field;
  static constexpr std::uint16_t kNone = 0xffff;
  explicit Type(std::uint16_t row) : row_(row) {}

  std::uint16_t row_ = kNone;
};

// A field of a struct. A small value.
class Field {
 public:
  std::string_view name() const;  // in JSON; empty: its members stand among those of its owner
  bool isInline() const { return name().empty(); }
  Type type() const;
  std::uint32_t number() const;  // in protobuf; 0: it is not there
  bool omitsEmpty() const;       // JSON leaves it out when it is "", 0, false, [] or a map {}
  bool omitsZero() const;        // and a struct or time too
  bool isPointer() const;        // so that empty and absent are two things
  bool showsNull() const;        // JSON has null where it is absent

  // Strategic merge: lists are merged (by this key, if there is one), or replaced; what a patch
  // does not name may be dropped.
  bool patchMerges() const;
  bool patchReplaces() const;
  bool patchRetainsKeys() const;
  std::string_view patchMergeKey() const;

  // What the API server's messages call its type, where that does not follow from the form:
  // "int64", "v1.RestartPolicy", "[]v1.Capability". Else empty.
  std::string_view goName() const;

 private:
  friend class Type;
  explicit Field(std::uint16_t row) : row_(row) {}

  std::uint16_t row_;
};

// A kind that the table describes.
struct BuiltInKind {
  GroupVersionKind gvk;
  Type type;
  bool protobuf;  // the table is enough to read it from protobuf
};
std::vector<BuiltInKind> builtInKinds();
// Whether that kind can be read from protobuf.
bool inProtobuf(std::string_view group, std::string_view version, std::string_view kind);

}  // namespace cadre::kube
