#include "kinds/kaos/check.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/yaml.h"
#include "kube/quantity.h"
#include "kube/types.h"
#include "kube/validate.h"

namespace cadre::kaos {
namespace {

// Walks a value along the table of built-in types and tells what does not fit.
class Shape {
 public:
  explicit Shape(kube::Report& report) : report_(report) {}

  void check(kube::Type type, const json::Value& value, const std::string& path) {
    if (value.isNull()) return;  // typed clients write null for nothing
    switch (type.form()) {
      case kube::Form::Struct:
        return checkStruct(type, value, path);
      case kube::Form::List:
        if (!value.isArray()) return wrong(path, "a list", value);
        for (std::size_t i = 0; i < value.array().size(); ++i)
          check(type.element(), value.at(i), format("{}[{}]", path, i));
        return;
      case kube::Form::Map:
        if (!value.isObject()) return wrong(path, "a map", value);
        for (const auto& [key, element] : value.object())
          if (!isDirective(key, join(path, key))) check(type.element(), element, join(path, key));
        return;
      case kube::Form::Boolean:
        if (!value.isBool()) wrong(path, "true or false", value);
        return;
      case kube::Form::Integer:
        if (!value.isInteger()) wrong(path, "a whole number", value);
        return;
      case kube::Form::Quantity:
        if (auto amount = kube::Quantity::fromJson(value); !amount)
          report_.invalid(path, amount.error().message);
        return;
      case kube::Form::IntOrString:
        if (!value.isInteger() && !value.isString()) wrong(path, "a number or a text", value);
        return;
      case kube::Form::String:
        if (!value.isString()) wrong(path, "a text", value);
        return;
      default:
        return;
    }
  }

 private:
  void checkStruct(kube::Type type, const json::Value& value, const std::string& path) {
    if (!value.isObject()) return wrong(path, "an object", value);
    for (const auto& [name, member] : value.object()) {
      std::string at = join(path, name);
      if (isDirective(name, at)) continue;
      if (auto field = type.field(name)) {
        check(field->type(), member, at);
        checkKeys(*field, member, at);
      } else {
        report_.invalid(at, "no such field in a PodSpec");
      }
    }
  }
  // Lists are merged by a key of their elements: each needs it.
  void checkKeys(const kube::Field& field, const json::Value& list, const std::string& path) {
    std::string_view key = field.patchMergeKey();
    if (!field.patchMerges() || key.empty()) return;
    for (std::size_t i = 0; i < list.array().size(); ++i) {
      const json::Value& element = list.at(i);
      if (!element.isObject()) continue;
      if (element[key].isNull() || (element[key].isString() && element[key].string().empty()))
        report_.required(format("{}[{}].{}", path, i, key), "the list is merged by it");
    }
  }
  bool isDirective(std::string_view name, const std::string& path) {
    if (!name.starts_with("$")) return false;
    report_.forbidden(path, "directives of a strategic merge are not taken");
    return true;
  }
  static std::string join(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : format("{}.{}", path, name);
  }
  void wrong(const std::string& path, std::string_view wanted, const json::Value& value) {
    report_.invalid(path, format("must be {}, not {}", wanted, value.typeName()));
  }

  kube::Report& report_;
};

// Nobody may ask for more than is allowed. `path` is where the resources stand.
void checkRequests(const json::Value& resources, const std::string& path, kube::Report& report) {
  for (const auto& [name, request] : resources["requests"].object()) {
    auto wanted = kube::Quantity::fromJson(request);
    auto limit = kube::Quantity::fromJson(resources["limits"][name]);
    if (wanted && limit && *wanted > *limit)
      report.invalid(format("{}requests.{}", path, name),
                     format("must be at most the limit, {}", limit->text()));
  }
}

// Containers of ours, which may be named without an image.
bool isGenerated(std::string_view container) {
  for (std::string_view name :
       {"agent", "model-api", "mcp-server", "pull-model", "install-bridge", "install"})
    if (container == name) return true;
  return false;
}

kube::Type podSpecType() { return kube::Type::of("", "v1", "Pod").field("spec")->type(); }

}  // namespace

// A schema counts characters.
void checkInstructions(const json::Value& self, kube::Report& report) {
  if (static_cast<std::int64_t>(self.string().size()) > kMaxInstructions)
    report.invalid("", format("must be at most {} bytes", kMaxInstructions));
}

void checkEnvVar(const json::Value& self, kube::Report& report) {
  const std::string& name = self["name"].string();
  if (!std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127 && c != '='; }))
    report.invalid("name", "the name of a variable has printable characters other than '='");
  const json::Value& from = self["valueFrom"];
  if (from.isNull()) return;
  if (self["value"].isString() && !self["value"].string().empty())
    report.invalid("valueFrom", "may not be set when value is set");
  int sources = 0;
  for (const auto& [kind, source] : from.object()) sources += !source.isNull();
  if (sources != 1) report.invalid("valueFrom", "exactly one source must be set");
  auto env = podSpecType().field("containers")->type().element().field("env")->type().element();
  Shape(report).check(env.field("valueFrom")->type(), from, "valueFrom");
}

void checkResources(const json::Value& self, kube::Report& report) {
  auto resources = podSpecType().field("containers")->type().element().field("resources")->type();
  Shape(report).check(resources, self, "");
  checkRequests(self, "", report);
}

void checkPodSpec(const json::Value& self, kube::Report& report) {
  if (self.isNull()) return;
  Shape(report).check(podSpecType(), self, "");
  // What the API server takes of a pod, but never of a Deployment's.
  if (const std::string& policy = self["restartPolicy"].string();
      !policy.empty() && policy != "Always")
    report.invalid("restartPolicy", "pods of a Deployment restart Always");
  if (!self["activeDeadlineSeconds"].isNull())
    report.forbidden("activeDeadlineSeconds", "pods of a Deployment have no end");
  if (!self["ephemeralContainers"].array().empty())
    report.forbidden("ephemeralContainers", "they are added to a pod that runs: kubectl debug");
  for (std::string_view list : {"containers", "initContainers"}) {
    const json::Array& containers = self[list].array();
    for (std::size_t i = 0; i < containers.size(); ++i) {
      const json::Value& container = containers[i];
      if (!container["name"].string().empty() && !isGenerated(container["name"].string()) &&
          container["image"].isNull())
        report.required(format("{}[{}].image", list, i), "it is merged into no other container");
      checkRequests(container["resources"], format("{}[{}].resources.", list, i), report);
    }
  }
}

void checkSource(const json::Value& self, kube::Report& report) {
  if (trim(self.string()).empty()) report.invalid("", "the source of tools is blank");
  if (self.string().find('\0') != std::string::npos)
    report.invalid("", "the source of tools has a NUL byte");
}

void checkProxyConfig(const json::Value& self, kube::Report& report) {
  const json::Value& config = self["configYaml"];
  if (config.isNull()) return;
  std::string_view text = config.string();
  if (config.isObject()) {
    bool from_text = !config["fromString"].isNull(),
         from_secret = !config["fromSecretKeyRef"].isNull();
    if (from_text == from_secret)
      return report.invalid("configYaml",
                            "exactly one of fromString and fromSecretKeyRef must be set");
    for (const auto& [name, value] : config.object())
      if (name != "fromString" && name != "fromSecretKeyRef")
        report.invalid(format("configYaml.{}", name), "no such field");
    if (from_secret) {
      for (std::string_view part : {"name", "key"})
        if (config["fromSecretKeyRef"][part].string().empty())
          report.required(format("configYaml.fromSecretKeyRef.{}", part), "");
      return;
    }
    if (!config["fromString"].isString())
      return report.invalid("configYaml.fromString", "must be a text");
    text = config["fromString"].string();
  } else if (!config.isString()) {
    return report.invalid("configYaml", "must be a text, {fromString} or {fromSecretKeyRef}");
  }
  auto names = modelNames(text);
  if (!names) return report.invalid("configYaml", names.error().message);
  std::vector<std::string> models;
  for (const json::Value& model : self["models"].array()) models.push_back(model.string());
  if (models.empty()) return;
  for (const std::string& name : *names)
    if (!matchesModels(models, name))
      report.invalid("configYaml",
                     format("model_name \"{}\" in configYaml not found in models list {}", name,
                            inBrackets(models)));
}

void warnOfTwins(const json::Value& self, kube::Report& report) {
  struct Twin {
    std::vector<std::string_view> older, newer;
  };
  static const Twin kTwins[] = {
      {{"config", "agenticLoop", "maxSteps"}, {"config", "reasoningLoopMaxSteps"}},
      {{"proxyConfig", "model"}, {"proxyConfig", "models"}},
      {{"serverConfig", "model"}, {"hostedConfig", "model"}},
      {{"resources"}, {"container", "resources"}},
      {{"serverConfig", "resources"}, {"container", "resources"}},
  };
  // Of these the first that is there counts.
  static const std::vector<std::string_view> kSources[] = {
      {"runtime"},
      {"config", "tools", "fromString"},
      {"config", "tools", "fromSecretKeyRef"},
      {"config", "tools", "fromPackage"},
      {"config", "toolsString"},
      {"toolsString"},
      {"config", "mcp"},
      {"mcp"},
  };
  auto find = [&](const std::vector<std::string_view>& path) -> const json::Value& {
    const json::Value* at = &self["spec"];
    for (std::string_view step : path) at = &(*at)[step];
    return *at;
  };
  auto text = [](const std::vector<std::string_view>& path) {
    std::string joined = "spec";
    for (std::string_view step : path) joined += format(".{}", step);
    return joined;
  };
  auto warn = [&](const auto& older, const auto& newer) {
    report.warn(text(older), format("is passed over: {} is set", text(newer)));
  };
  for (const Twin& twin : kTwins)
    if (!find(twin.older).isNull() && !find(twin.newer).isNull()) warn(twin.older, twin.newer);
  const std::vector<std::string_view>* source = nullptr;
  for (const auto& path : kSources)
    if (find(path).isNull()) {
      continue;
    } else if (source) {
      warn(path, *source);
    } else {
      source = &path;
    }
}

Result<std::vector<std::string>> modelNames(std::string_view config_yaml) {
  auto documents = json::parseYaml(config_yaml, "configYaml");
  if (!documents)
    return Error{.code = Code::InvalidArgument,
                 .message = "failed to parse configYaml: " + documents.error().message};
  const json::Value list =
      documents->size() == 1 ? documents->front().value["model_list"] : json::Value();
  if (!list.isArray())
    return Error{.code = Code::InvalidArgument,
                 .message = "failed to parse configYaml: it has no model_list"};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list.array().size(); ++i) {
    const std::string& name = list.at(i)["model_name"].string();
    if (name.empty())
      return Error{
          .code = Code::InvalidArgument,
          .message = format("failed to parse configYaml: model_list[{}] has no model_name", i)};
    names.push_back(name);
  }
  return names;
}

bool isPattern(std::string_view model) { return model == "*" || model.ends_with("/*"); }

bool matchesModels(const std::vector<std::string>& patterns, std::string_view model) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
    return isPattern(pattern) ? model.starts_with(pattern.substr(0, pattern.size() - 1))
                              : model == pattern;
  });
}

std::string inBrackets(const std::vector<std::string>& list) {
  return format("[{}]", join(list, " "));
}

}  // namespace cadre::kaos
