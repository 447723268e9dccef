#include "hub/openapi.h"

#include "base/format.h"
#include "base/strings.h"

namespace cadre::hub {
namespace {

const std::vector<std::pair<std::string_view, std::string_view>> kWriteOptions{
    {"dryRun", "string"}, {"fieldManager", "string"}, {"fieldValidation", "string"}};

json::Value gvkOf(const kube::Resource& resource) {
  return json::Object{
      {"group", resource.group}, {"version", resource.version}, {"kind", resource.kind}};
}

// "apps/v1 Deployment" as other servers call it: clients take the last part for the name.
std::string schemaName(std::string_view type) {
  auto [place, name] = cut(type, " ");
  std::string text = "io.k8s.api.";
  for (char c : place) text += c == '/' ? '.' : c;
  return text + "." + std::string(name);
}

class Schemas {
 public:
  json::Object all;

  json::Value refTo(kube::Type type) {
    std::string name = schemaName(type.name());
    if (!all.contains(name)) {
      all.set(name, nullptr);  // types may hold themselves
      json::Value schema = structOf(type);
      all.set(name, std::move(schema));
    }
    return json::Object{{"$ref", "#/components/schemas/" + name}};
  }

  json::Value structOf(kube::Type type) {
    json::Object properties;
    addFields(type, properties);
    json::Object schema{{"type", "object"}};
    if (!properties.empty()) schema.set("properties", std::move(properties));
    if (type.relation() == kube::Relation::Atomic) schema.set("x-kubernetes-map-type", "atomic");
    return schema;
  }

 private:
  void addFields(kube::Type type, json::Object& properties) {
    for (std::size_t i = 0; i < type.fieldCount(); ++i) {
      kube::Field field = type.fieldAt(i);
      if (field.isInline()) {
        addFields(field.type(), properties);
        continue;
      }
      json::Value schema = valueOf(field.type());
      if (field.patchMerges()) {
        schema.make("x-kubernetes-patch-strategy") =
            field.patchRetainsKeys() ? "merge,retainKeys" : "merge";
        if (!field.patchMergeKey().empty())
          schema.make("x-kubernetes-patch-merge-key") = field.patchMergeKey();
      }
      properties.set(field.name(), std::move(schema));
    }
  }

  json::Value valueOf(kube::Type type) {
    auto of = [](std::string_view name, std::string_view format = "") {
      json::Object schema{{"type", name}};
      if (!format.empty()) schema.set("format", format);
      return json::Value(std::move(schema));
    };
    switch (type.form()) {
      case kube::Form::String:
      case kube::Form::Quantity:
        return of("string");
      case kube::Form::Integer:
        return of("integer");
      case kube::Form::Number:
        return of("number");
      case kube::Form::Boolean:
        return of("boolean");
      case kube::Form::Bytes:
        return of("string", "byte");
      case kube::Form::IntOrString:
        return of("string", "int-or-string");
      case kube::Form::Time:
      case kube::Form::MicroTime:
        return of("string", "date-time");
      case kube::Form::Any:
        return json::Object{{"x-kubernetes-preserve-unknown-fields", true}};
      case kube::Form::Struct:
        // A reference takes nothing beside it.
        return json::Object{{"allOf", json::Array{refTo(type)}}};
      case kube::Form::Map:
        return json::Object{{"type", "object"}, {"additionalProperties", valueOf(type.element())}};
      case kube::Form::List: {
        json::Object schema{{"type", "array"}, {"items", valueOf(type.element())}};
        switch (type.relation()) {
          case kube::Relation::Granular:
            break;
          case kube::Relation::Atomic:
            schema.set("x-kubernetes-list-type", "atomic");
            break;
          case kube::Relation::Set:
            schema.set("x-kubernetes-list-type", "set");
            break;
          case kube::Relation::Keyed: {
            json::Array keys;
            for (const kube::Type::Key& key : type.keys()) keys.emplace_back(key.name);
            schema.set("x-kubernetes-list-type", "map");
            schema.set("x-kubernetes-list-map-keys", std::move(keys));
          }
        }
        return schema;
      }
    }
    return json::Object{};
  }
};

json::Value operation(const Kind& kind, std::string_view action, bool writes) {
  json::Array parameters;
  if (writes) {
    for (const auto& [name, type] : kWriteOptions)
      parameters.push_back(
          json::Object{{"name", name}, {"in", "query"}, {"schema", json::Object{{"type", type}}}});
    if (action == "patch")
      parameters.push_back(json::Object{
          {"name", "force"}, {"in", "query"}, {"schema", json::Object{{"type", "boolean"}}}});
  }
  return json::Object{{"x-kubernetes-action", action},
                      {"x-kubernetes-group-version-kind", gvkOf(kind.resource)},
                      {"parameters", std::move(parameters)},
                      {"responses", json::Object{{"200", json::Object{{"description", "OK"}}}}}};
}

void addPaths(const Kind& kind, json::Object& paths) {
  const kube::Resource& resource = kind.resource;
  std::string base = resource.group.empty()
                         ? format("/api/{}", resource.version)
                         : format("/apis/{}/{}", resource.group, resource.version);
  if (resource.namespaced) base += "/namespaces/{namespace}";
  std::string all = format("{}/{}", base, resource.plural), one = all + "/{name}";
  if (!kind.isKept()) return paths.set(all, json::Object{{"post", operation(kind, "post", true)}});
  paths.set(all, json::Object{{"get", operation(kind, "list", false)},
                              {"post", operation(kind, "post", true)},
                              {"delete", operation(kind, "deletecollection", false)}});
  paths.set(one, json::Object{{"get", operation(kind, "get", false)},
                              {"put", operation(kind, "put", true)},
                              {"patch", operation(kind, "patch", true)},
                              {"delete", operation(kind, "delete", false)}});
}

}  // namespace

std::string openApiName(const Kinds::Group& group, const Kinds::Version& version) {
  return group.name.empty() ? "api/" + version.name
                            : format("apis/{}/{}", group.name, version.name);
}

json::Value openApi(const Kinds::Group& group, const Kinds::Version& version) {
  Schemas schemas;
  json::Object paths;
  for (const auto& [plural, kind] : version.kinds) {
    addPaths(*kind, paths);
    json::Value schema;
    std::string name;
    if (kind->type()) {
      schemas.refTo(kind->type());
      name = schemaName(kind->type().name());
      schema = *schemas.all.find(name);
    } else {
      // "com.example.v1.Widget"
      for (std::string_view part : split(group.name, '.'))
        name = name.empty() ? std::string(part) : format("{}.{}", part, name);
      name += format(".{}.{}", version.name, kind->resource.kind);
      if (kind->schema()) schema = *kind->schema();
      schema.make("type") = "object";
      json::Value& properties = schema.make("properties");
      for (std::string_view field : {"apiVersion", "kind"})
        properties.make(field) = json::Object{{"type", "string"}};
      properties.make("metadata") = json::Object{
          {"allOf", json::Array{schemas.refTo(
                        kube::Type::of("", "v1", "ConfigMap").field("metadata")->type())}}};
    }
    schema.make("x-kubernetes-group-version-kind") = json::Array{gvkOf(kind->resource)};
    schemas.all.set(name, std::move(schema));
  }
  return json::Object{{"openapi", "3.0.0"},
                      {"info", json::Object{{"title", "Kubernetes"}, {"version", "v1.34"}}},
                      {"paths", std::move(paths)},
                      {"components", json::Object{{"schemas", std::move(schemas.all)}}}};
}

std::string openApi2() {
  // A field of a message with bytes in it; all of these are short.
  auto field = [](int number, std::string_view bytes) {
    std::string out;
    out.push_back(static_cast<char>(number << 3 | 2));
    out.push_back(static_cast<char>((bytes.size() & 0x7f) | 0x80));
    out.push_back(static_cast<char>(bytes.size() >> 7));
    return out.append(bytes);
  };
  std::string parameter = field(2, "query") + field(4, "fieldValidation") + field(6, "string");
  std::string kind = field(1, "x-kubernetes-group-version-kind") +
                     field(2, field(2, "group: \"\"\nkind: Namespace\nversion: v1\n"));
  std::string patch = field(8, field(1, field(2, field(3, parameter)))) + field(13, kind);
  std::string path = field(1, "/api/v1/namespaces/{name}") + field(2, field(8, patch));
  return field(1, "2.0") + field(2, field(1, "Kubernetes")) + field(8, field(2, path));
}

}  // namespace cadre::hub
