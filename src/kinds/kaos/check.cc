#include "kinds/kaos/check.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_validate.h"
#include "json/yaml.h"
#include "kinds/kaos/workload.h"
#include "kube/quantity.h"
#include "kube/types.h"
#include "kube/validate.h"

namespace cadre::kaos {
namespace {

// Walks a value along the table of built-in types and tells what does not fit.
class Shape {
 public:
  explicit Shape(kube::Report& report) : report_(report) {}
  bool fits() const { return fits_; }  // so far

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
          invalid(path, amount.error().message);
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
        invalid(at, "no such field in a PodSpec");
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
      if (element[key].isNull() || (element[key].isString() && element[key].string().empty())) {
        fits_ = false;
        report_.required(format("{}[{}].{}", path, i, key), "the list is merged by it");
      }
    }
  }
  bool isDirective(std::string_view name, const std::string& path) {
    if (!name.starts_with("$")) return false;
    fits_ = false;
    report_.forbidden(path, "directives of a strategic merge are not taken");
    return true;
  }
  static std::string join(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : format("{}.{}", path, name);
  }
  void wrong(const std::string& path, std::string_view wanted, const json::Value& value) {
    invalid(path, format("must be {}, not {}", wanted, value.typeName()));
  }
  void invalid(const std::string& path, std::string_view why) {
    fits_ = false;
    report_.invalid(path, why);
  }

  kube::Report& report_;
  bool fits_ = true;
};

kube::Type podSpecType() { return kube::Type::of("", "v1", "Pod").field("spec")->type(); }
kube::Type containerType() { return podSpecType().field("containers")->type().element(); }

// Where in what was merged into the whole a field of the whole stands: elements of lists that are
// merged are found by their keys. Ends with what is not in it.
std::string placeIn(const json::Value& part, const json::Value& whole, std::string_view path) {
  const json::Value *mine = &part, *at = &whole;
  kube::Type type = podSpecType();
  std::string_view merge_key;
  std::string place;
  while (!path.empty()) {
    if (path.front() == '.') path.remove_prefix(1);
    if (path.front() == '[') {
      auto index = parseInt(cut(path.substr(1), "]").first);
      if (!index || !at->isArray()) return place + std::string(path);  // a key of a map
      at = &at->at(static_cast<std::size_t>(*index));
      const json::Array& list = mine->array();
      auto found = std::find_if(list.begin(), list.end(), [&](const json::Value& element) {
        return merge_key.empty() || element[merge_key] == (*at)[merge_key];
      });
      if (merge_key.empty()) found += std::min<std::ptrdiff_t>(*index, list.end() - found);
      if (found == list.end()) return place;
      mine = &*found;
      place += format("[{}]", found - list.begin());
      type = type.element();
      path = cut(path, "]").second;
    } else {
      std::string_view name = path.substr(0, path.find_first_of(".["));
      place += format("{}{}", place.empty() ? "" : ".", name);
      path.remove_prefix(name.size());
      auto field = type.field(name);
      merge_key = field && field->patchMerges() ? field->patchMergeKey() : "";
      type = field ? field->type() : kube::Type();
      at = &(*at)[name];
      mine = &(*mine)[name];
    }
  }
  return place;
}

// A pod as it is generated for the kind, as far as a podSpec can meet it.
PodParts standIn(std::string_view kind) {
  struct Named {
    std::string_view kind, container, probe;
    std::vector<std::string_view> init_containers, config_maps, folders;
  };
  static const Named kNamed[] = {
      {"Agent", "agent", "httpGet", {}, {"agent-config"}, {}},
      {"ModelAPI", "model-api", "httpGet", {"pull-model"}, {"litellm-config"}, {"ollama-data"}},
      {"MCPServer",
       "mcp-server",
       "tcpSocket",
       {"install-bridge", "install"},
       {"tools"},
       {"bridge", "package"}}};
  const Named& named = *std::find_if(std::begin(kNamed), std::end(kNamed),
                                     [&](const Named& one) { return one.kind == kind; });
  auto container = [](std::string_view name) {
    return json::Object{{"name", name}, {"image", "x"}};
  };
  PodParts parts;
  parts.container = container(named.container);
  parts.container.make("ports") =
      json::Array{json::Object{{"name", "http"}, {"containerPort", 8000}}};
  for (std::string_view probe : {"startupProbe", "readinessProbe", "livenessProbe"})
    parts.container.make(probe).make(named.probe) = json::Object{{"port", 8000}};
  for (std::string_view name : named.init_containers)
    parts.init_containers.push_back(container(name));
  for (std::string_view name : named.config_maps)
    parts.volumes.push_back(
        json::Object{{"name", name}, {"configMap", json::Object{{"name", "x"}}}});
  for (std::string_view name : named.folders)
    parts.volumes.push_back(json::Object{{"name", name}, {"emptyDir", json::Object{}}});
  return parts;
}

// Of a part of a container alone, as an API server would say it.
void checkContainer(std::string_view part, const json::Value& value, kube::Report& report) {
  json::Value container = json::Object{{"name", "x"}, {"image", "x"}};
  bool listed = part == "env";
  container.make(part) = listed ? json::Value(json::Array{value}) : value;
  std::string above = format("containers[0].{}{}", part, listed ? "[0]" : "");
  for (kube::FieldError& error :
       hub::validatePods(json::Object{{"containers", json::Array{container}}})) {
    std::string_view path = error.path;
    if (path.starts_with(above)) path.remove_prefix(above.size());
    if (path.starts_with(".")) path.remove_prefix(1);
    report.add(std::string(path), std::move(error));
  }
}

}  // namespace

// A schema counts characters.
void checkInstructions(const json::Value& self, kube::Report& report) {
  if (static_cast<std::int64_t>(self.string().size()) > kMaxInstructions)
    report.invalid("", format("must be at most {} bytes", kMaxInstructions));
}

void checkEnvVar(const json::Value& self, kube::Report& report) {
  Shape shape(report);
  shape.check(containerType().field("env")->type().element().field("valueFrom")->type(),
              self["valueFrom"], "valueFrom");
  if (shape.fits()) checkContainer("env", self, report);
}

void checkResources(const json::Value& self, kube::Report& report) {
  Shape shape(report);
  shape.check(containerType().field("resources")->type(), self, "");
  if (shape.fits()) checkContainer("resources", self, report);
}

void checkPodSpec(const json::Value& self, kube::Report& report) {
  const json::Value& pod_spec = self["spec"]["podSpec"];
  if (pod_spec.isNull()) return;
  auto in = [](std::string_view path) {
    return format("spec.podSpec{}{}", path.empty() ? "" : ".", path);
  };
  Shape shape(report);
  shape.check(podSpecType(), pod_spec, in(""));
  for (std::string_view list : {"volumes", "containers", "initContainers"})
    for (std::size_t i = 0; i < pod_spec[list].array().size(); ++i)
      for (std::size_t before = 0; before < i; ++before)
        if (pod_spec[list].at(i)["name"] == pod_spec[list].at(before)["name"]) {
          report.invalid(in(format("{}[{}].name", list, i)), "there is another one of that name");
          break;
        }
  if (pod_spec["os"]["name"].string() == "windows")
    return report.invalid(in("os.name"), "these pods run programs for Linux");
  if (!shape.fits()) return;
  auto pod = podSpec(standIn(self["kind"].string()), kube::read<CommonSpec>(self["spec"]), {});
  if (!pod) return report.invalid(in(""), pod.error().message);
  for (kube::FieldError& error : hub::validatePods(*pod))
    report.add(in(placeIn(pod_spec, *pod, error.path)), error);
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
