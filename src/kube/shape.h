#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "json/value.h"
#include "kube/types.h"

namespace cadre::kube {

// What merging has to know of a value: whether it is one thing or has members of its own, and what
// tells those apart. For built-in kinds the table of types says it, for custom resources the schema
// in their definition, and for what neither describes it is deduced: maps have members, lists are
// one thing. A small value; one of a schema points into it, and lives no longer. Pure.
class Shape {
 public:
  Shape() = default;  // of what is not described
  Shape(Type type);   // NOLINT: a type is a shape; none is not described
  // Of a custom resource: the openAPIV3Schema of its version. What a schema does not say of
  // apiVersion, kind and metadata is the same for every kind; so it is for embedded resources.
  static Shape ofResource(const json::Value& schema);
  bool isBuiltIn() const { return source_ == Source::Table; }

  // What a value can be taken for. Most shapes allow one of these; what is not described allows
  // all.
  enum class As : std::uint8_t { Scalar, List, Map };
  bool allows(As as) const;

  enum class Scalar : std::uint8_t { Any, Text, Number, Boolean };
  Scalar scalar() const;

  // Whether a list or map has one owner, whatever is in it.
  bool isAtomic(As as) const;

  // Of a map: whether it has a field of that name, as a struct does (any other member is one of
  // many alike); what a member is, nothing where there can be no such member; and whether its
  // members are not described either.
  bool names(std::string_view field) const;
  std::optional<Shape> member(std::string_view name) const;
  bool isUndescribedMap() const;

  // Of a list: what its items are, and by which of their members they are told apart; by none of
  // them in a set.
  Shape item() const;
  struct Key {
    std::string_view name;
    std::optional<json::Value> otherwise;  // what is meant where it is missing
  };
  std::vector<Key> keys() const;

  // An object before anything was written into it: of a built-in kind it has the members that the
  // API shows even if they are empty. What is written first is compared with that.
  json::Value emptyObject() const;

 private:
  enum class Source : std::uint8_t { Nothing, Atomic, Table, Schema };

  static Shape ofSchema(const json::Value& schema, bool preserves_unknown);
  const json::Value& said(std::string_view key) const { return (*schema_)[key]; }

  Source source_ = Source::Nothing;
  bool resource_ = false;           // of a schema: it has apiVersion, kind and metadata
  bool preserves_unknown_ = false;  // of a schema: it or one around it says so
  Type type_;
  const json::Value* schema_ = nullptr;
};

}  // namespace cadre::kube
