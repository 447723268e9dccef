#include "hub/failure.h"

#include "base/format.h"
#include "base/strings.h"

namespace cadre::hub {
namespace {

// "deployments.apps", as errors name a resource.
std::string named(const kube::Resource& resource) {
  return resource.group.empty() ? resource.plural : resource.plural + "." + resource.group;
}

json::Object about(const kube::Resource& resource, std::string_view name) {
  json::Object details{{"kind", resource.plural}};
  if (!name.empty()) details.set("name", name);
  if (!resource.group.empty()) details.set("group", resource.group);
  return details;
}

}  // namespace

json::Value Failure::status() const {
  json::Object status{{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::Object{}},
                      {"status", "Failure"}, {"message", message}, {"code", code}};
  if (!reason.empty()) status.set("reason", reason);
  if (!next.empty()) status.set("metadata", json::Object{{"continue", next}});
  if (!details.empty() || details_shown || code == 403) status.set("details", details);
  return status;
}

Failure notFound(const kube::Resource& resource, std::string_view name) {
  return {404, "NotFound", format("{} \"{}\" not found", named(resource), name),
          about(resource, name)};
}

Failure noSuchResource() {
  return {404, "NotFound", "the server could not find the requested resource", {}, true};
}

Failure alreadyExists(const kube::Resource& resource, std::string_view name) {
  return {409, "AlreadyExists", format("{} \"{}\" already exists", named(resource), name),
          about(resource, name)};
}

Failure conflict(const kube::Resource& resource, std::string_view name, std::string_view why) {
  return {409, "Conflict",
          format("Operation cannot be fulfilled on {} \"{}\": {}", named(resource), name, why),
          about(resource, name)};
}

Failure invalid(const kube::Resource& resource, std::string_view name,
                const std::vector<kube::FieldError>& errors) {
  json::Object details{{"kind", resource.kind}};
  if (!name.empty()) details.set("name", name);
  if (!resource.group.empty()) details.set("group", resource.group);
  json::Array causes;
  std::vector<std::string> texts;
  for (const kube::FieldError& error : errors) {
    Detail detail = error.detail();
    causes.push_back(json::Object{
        {"reason", detail.reason}, {"message", detail.message}, {"field", detail.field}});
    texts.push_back(error.text());
  }
  details.set("causes", std::move(causes));
  std::string kind = resource.group.empty() ? resource.kind : resource.kind + "." + resource.group;
  std::string all = texts.size() == 1 ? texts[0] : "[" + join(texts, ", ") + "]";
  return {422, "Invalid", format("{} \"{}\" is invalid: {}", kind, name, all), std::move(details)};
}

Failure badRequest(std::string message) { return {400, "BadRequest", std::move(message)}; }

Failure forbidden(const kube::Resource& resource, std::string_view name, std::string_view why) {
  std::string what = name.empty() ? named(resource) : format("{} \"{}\"", named(resource), name);
  return {403, "Forbidden", format("{} is forbidden: {}", what, why), about(resource, name)};
}

Failure unauthorized() { return {401, "Unauthorized", "Unauthorized"}; }

Failure methodNotAllowed() {
  return {405,
          "MethodNotAllowed",
          "the server does not allow this method on the requested resource",
          {},
          true};
}

Failure notAcceptable(std::string_view types) {
  return {406, "NotAcceptable", format("only the following media types are accepted: {}", types)};
}

Failure unsupportedMediaType(std::string_view types) {
  return {415, "UnsupportedMediaType",
          format("the body of the request was in an unknown format - accepted media types include: "
                 "{}",
                 types)};
}

Failure tooLarge(std::size_t limit) {
  return {413, "RequestEntityTooLarge", format("Request entity too large: limit is {}", limit)};
}

Failure expired(std::string message) { return {410, "Expired", std::move(message)}; }

Failure internal(std::string message) {
  json::Object details{{"causes", json::Array{json::Object{{"message", message}}}}};
  return {500, "InternalError", "Internal error occurred: " + message, std::move(details)};
}

Failure failureOf(const Error& error) {
  switch (error.code) {
    case Code::InvalidArgument:
    case Code::DataLoss:
      return badRequest(error.text());
    case Code::Gone:
      return expired(error.text());
    case Code::ResourceExhausted:
      return {413, "RequestEntityTooLarge", error.text()};
    default:
      return internal(error.text());
  }
}

}  // namespace cadre::hub
