#include "wire/mcp_headers.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"

namespace cadre::wire {

namespace {

constexpr std::string_view kAnnotation = "x-mcp-header";
constexpr std::string_view kEncodedBegin = "=?base64?";
constexpr std::string_view kEncodedEnd = "?=";
// Where a JSON Schema has further schemas, by the shape of the value. "properties" is apart: only a
// chain of those leads to an argument.
constexpr std::array<std::string_view, 11> kSchemas = {"items",
                                                       "contains",
                                                       "unevaluatedItems",
                                                       "additionalProperties",
                                                       "propertyNames",
                                                       "unevaluatedProperties",
                                                       "not",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "contentSchema"};
constexpr std::array<std::string_view, 4> kSchemaLists = {"allOf", "anyOf", "oneOf", "prefixItems"};
constexpr std::array<std::string_view, 4> kSchemaMaps = {"patternProperties", "dependentSchemas",
                                                         "$defs", "definitions"};

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool isToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

// Walks a schema. The depth is that of the JSON document, which its parser limits.
class Walk {
 public:
  Result<std::vector<McpParamHeader>> run(const json::Value& schema) && {
    std::vector<std::string> path;
    CADRE_TRY(visit(schema, &path));
    return std::move(found_);
  }

 private:
  // The path is null where no chain of properties leads.
  Result<> visit(const json::Value& schema, std::vector<std::string>* path) {
    if (const json::Value* token = schema.object().find(kAnnotation))
      CADRE_TRY(take(schema, *token, path));
    for (const auto& [key, value] : schema.object()) {
      if (key == "properties") {
        CADRE_TRY(visitProperties(value, path));
      } else if (contains(kSchemas, key)) {
        CADRE_TRY(visit(value, nullptr));
      } else if (contains(kSchemaLists, key)) {
        for (const json::Value& part : value.array()) CADRE_TRY(visit(part, nullptr));
      } else if (contains(kSchemaMaps, key)) {
        for (const auto& [name, part] : value.object()) CADRE_TRY(visit(part, nullptr));
      }
    }
    return {};
  }

  Result<> visitProperties(const json::Value& properties, std::vector<std::string>* path) {
    for (const auto& [name, schema] : properties.object()) {
      if (path) path->push_back(name);
      CADRE_TRY(visit(schema, path));
      if (path) path->pop_back();
    }
    return {};
  }

  Result<> take(const json::Value& schema, const json::Value& token,
                const std::vector<std::string>* path) {
    auto wrong = [](std::string_view why) {
      return Error{.code = Code::InvalidArgument, .message = format("{} {}", kAnnotation, why)};
    };
    if (!path || path->empty()) return wrong("stands where no argument is");
    if (!token.isString() || !isToken(token.string())) return wrong("is not the name of a header");
    const std::string& type = schema["type"].string();
    if (type != "string" && type != "integer" && type != "boolean")
      return wrong("is only for strings, integers and booleans");
    if (!tokens_.insert(lower(token.string())).second) return wrong("names one header twice");
    found_.push_back({.path = *path, .token = token.string()});
    return {};
  }

  std::vector<McpParamHeader> found_;
  std::set<std::string> tokens_;
};

std::optional<std::string> rendered(const json::Value& value) {
  if (value.isString()) return value.string();
  if (value.isBool() || value.isNumber()) return json::write(value);
  return std::nullopt;
}

}  // namespace

Result<std::vector<McpParamHeader>> mcpParamHeaders(const json::Value& input_schema) {
  return Walk().run(input_schema);
}

void addParamHeaders(net::Headers& headers, const std::vector<McpParamHeader>& wanted,
                     const json::Value& arguments) {
  for (const McpParamHeader& header : wanted) {
    const json::Value* value = &arguments;
    for (const std::string& key : header.path) value = &(*value)[key];
    if (auto text = rendered(*value))
      headers.set(format("Mcp-Param-{}", header.token), mcpHeaderValue(*text));
  }
}

std::string mcpHeaderValue(std::string_view text) {
  bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; }) &&
      trim(text) == text && !(text.starts_with(kEncodedBegin) && text.ends_with(kEncodedEnd));
  if (plain) return std::string(text);
  return format("{}{}{}", kEncodedBegin, base64Encode(text), kEncodedEnd);
}

}  // namespace cadre::wire
