#include "kube/shape.h"

namespace cadre::kube {

namespace {

using json::Value;

Type metadataType() {
  static const Type type = Type::of("", "v1", "ConfigMap").field("metadata")->type();
  return type;
}

Type textType() {
  static const Type type = Type::of("", "v1", "ConfigMap").field("kind")->type();
  return type;
}

bool isTypeOrMeta(std::string_view name) {
  return name == "apiVersion" || name == "kind" || name == "metadata";
}

Value emptyStruct(Type type);

// What a value of the table's type is when nobody has said anything; null for what has no such
// value but absence.
Value zero(Type type) {
  switch (type.form()) {
    case Form::String:
      return "";
    case Form::Integer:
    case Form::Number:
    case Form::IntOrString:
      return 0;
    case Form::Boolean:
      return false;
    case Form::Quantity:
      return "0";
    case Form::Struct:
      return emptyStruct(type);
    default:
      return {};
  }
}

Value emptyStruct(Type type) {
  std::vector<json::Object::Member> members;
  for (std::size_t i = 0; i < type.fieldCount(); ++i) {
    Field field = type.fieldAt(i);
    bool nested = field.type().form() == Form::Struct && !field.isPointer();
    if (field.isInline()) {
      Value inlined = emptyStruct(field.type());
      for (auto& [name, value] : inlined.makeObject()) members.emplace_back(name, std::move(value));
    } else if (field.showsNull()) {
      members.emplace_back(field.name(), Value());
    } else if (!field.omitsZero() && (nested || (!field.omitsEmpty() && !field.isPointer()))) {
      members.emplace_back(field.name(), zero(field.type()));
    }
  }
  return json::Object(std::move(members));
}

}  // namespace

Shape::Shape(Type type)
    : source_(type.form() == Form::Any ? Source::Nothing : Source::Table), type_(type) {}

Shape Shape::ofResource(const Value& schema) {
  Shape shape = ofSchema(schema, false);
  shape.resource_ = true;
  return shape;
}

Shape Shape::ofSchema(const Value& schema, bool preserves_unknown) {
  Shape shape;
  shape.source_ = Source::Schema;
  shape.schema_ = &schema;
  shape.resource_ = schema["x-kubernetes-embedded-resource"].boolean();
  shape.preserves_unknown_ =
      preserves_unknown || schema["x-kubernetes-preserve-unknown-fields"].boolean();
  return shape;
}

bool Shape::allows(As as) const {
  if (source_ == Source::Table) {
    switch (type_.form()) {
      case Form::Struct:
      case Form::Map:
        return as == As::Map;
      case Form::List:
        return as == As::List;
      default:
        return as == As::Scalar;
    }
  }
  if (source_ != Source::Schema) return true;
  const std::string& type = said("type").string();
  if (type.empty()) return true;
  return as == (type == "object" ? As::Map : type == "array" ? As::List : As::Scalar);
}

Shape::Scalar Shape::scalar() const {
  if (source_ == Source::Table) {
    switch (type_.form()) {
      case Form::String:
      case Form::Bytes:
        return Scalar::Text;
      case Form::Integer:
      case Form::Number:
        return Scalar::Number;
      case Form::Boolean:
        return Scalar::Boolean;
      default:
        return Scalar::Any;
    }
  }
  if (source_ != Source::Schema) return Scalar::Any;
  const std::string &type = said("type").string(), &format = said("format").string();
  if (type == "integer" || type == "number") return Scalar::Number;
  if (type == "boolean") return Scalar::Boolean;
  bool text = type == "string" && (format.empty() || format == "byte");
  return text ? Scalar::Text : Scalar::Any;
}

bool Shape::isAtomic(As as) const {
  switch (source_) {
    case Source::Nothing:
      return as == As::List;
    case Source::Atomic:
      return true;
    case Source::Table:
      return type_.relation() == Relation::Atomic;
    case Source::Schema:
      break;
  }
  if (as == As::Map) return said("x-kubernetes-map-type").string() == "atomic";
  const std::string& list = said("x-kubernetes-list-type").string();
  return list != "set" && list != "map";
}

bool Shape::names(std::string_view field) const {
  if (source_ == Source::Table) return type_.field(field).has_value();
  if (source_ != Source::Schema) return false;
  return (resource_ && isTypeOrMeta(field)) || said("properties").object().contains(field);
}

std::optional<Shape> Shape::member(std::string_view name) const {
  if (source_ == Source::Table) {
    if (type_.form() == Form::Map) return Shape(type_.element());
    auto field = type_.field(name);
    if (!field) return std::nullopt;
    Shape member = field->type();
    // The one raw object in the table: it has no parts to the API, unlike the JSON in schemas.
    if (type_.name() == "apps/v1 ControllerRevision" && name == "data")
      member.source_ = Source::Atomic;
    return member;
  }
  if (source_ != Source::Schema) return *this;
  if (resource_ && isTypeOrMeta(name))
    return Shape(name == "metadata" ? metadataType() : textType());
  const json::Object& properties = said("properties").object();
  if (const Value* property = properties.find(name)) return ofSchema(*property, preserves_unknown_);
  const Value& others = said("additionalProperties");
  if (others.isObject()) return ofSchema(others, preserves_unknown_);
  bool free =
      others.isBool() ? others.boolean() : preserves_unknown_ || (properties.empty() && !resource_);
  return free ? std::optional<Shape>(Shape()) : std::nullopt;
}

bool Shape::isUndescribedMap() const {
  if (source_ == Source::Nothing) return true;
  if (source_ != Source::Schema || resource_ || !said("properties").object().empty()) return false;
  auto any = member("");
  return any && any->allows(As::Scalar) && any->allows(As::Map);
}

Shape Shape::item() const {
  if (source_ == Source::Table) return Shape(type_.element());
  if (source_ == Source::Schema && said("items").isObject())
    return ofSchema(said("items"), preserves_unknown_);
  Shape whole;
  whole.source_ = Source::Atomic;
  return whole;
}

std::vector<Shape::Key> Shape::keys() const {
  std::vector<Key> out;
  if (source_ == Source::Table) {
    for (const Type::Key& key : type_.keys()) {
      auto field = type_.element().field(key.name);
      // What JSON always shows is never missing: it is empty.
      bool shown = field && !field->omitsEmpty() && !field->isPointer();
      out.push_back({key.name, std::nullopt});
      if (!key.otherwise.empty())
        out.back().otherwise = key.otherwise;
      else if (shown)
        out.back().otherwise = zero(field->type());
    }
  } else if (source_ == Source::Schema && said("x-kubernetes-list-type").string() == "map") {
    for (const Value& name : said("x-kubernetes-list-map-keys").array()) {
      const Value& by_default = said("items")["properties"][name.string()]["default"];
      out.push_back({name.string(), std::nullopt});
      if (!by_default.isNull()) out.back().otherwise = by_default;
    }
  }
  return out;
}

Value Shape::emptyObject() const {
  return source_ == Source::Table ? emptyStruct(type_) : Value(json::Object());
}

}  // namespace cadre::kube
