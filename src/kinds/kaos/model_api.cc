// The ModelAPI: what spec §3.4 says, in its order.
#include "base/format.h"
#include "base/strings.h"
#include "json/yaml.h"
#include "kinds/kaos/check.h"
#include "kinds/kaos/plans.h"
#include "kinds/kaos/workload.h"
#include "kube/names.h"

namespace cadre::kaos {
namespace {

constexpr std::string_view kLitellmFolder = "/etc/litellm";
constexpr std::string_view kOllamaHome = "/var/lib/ollama";
// The model is "$1": nothing of a user's stands in the script.
constexpr std::string_view kPullScript =
    "export OLLAMA_HOST=127.0.0.1:11434\n"
    "ollama serve & server=$!\n"
    "for i in $(seq 60); do ollama list >/dev/null 2>&1 && break; sleep 1; done\n"
    "ollama pull \"$1\" || ollama show \"$1\" >/dev/null || { kill $server; exit 1; }\n"
    "kill $server\n";

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string quoted(std::string_view text) {
  std::string out;
  json::appendYamlQuoted(out, text);
  return out;
}

class ModelApiPlan {
 public:
  ModelApiPlan(const json::Value& object, engine::World& world, const Settings& settings)
      : object_(object),
        world_(world),
        settings_(settings),
        ns_(kube::ns(object)),
        name_(kube::name(object)),
        spec_(kube::read<ModelApiSpec>(object["spec"])),
        hosted_(spec_.mode == "Hosted"),
        subject_(modelApiSubject(ns_, name_, hosted_)),
        proxy_(spec_.proxy_config.value_or(ProxyConfig{})) {}

  engine::Plan make() {
    plan_.foreign_finalizers = {"kaos.tools/modelapi-finalizer"};
    if (kube::isDeleting(object_)) return going(std::move(plan_), object_);
    if (!addAccepted(plan_, world_, modelApiKind(), object_)) {
      if (!hosted_) settleModels();  // what is wrong with configYaml has a condition of its own
      models_.clear();
      return held();
    }
    if (hosted_) {
      models_ = {hostedModel()};
    } else if (!settleModels()) {
      return held();
    }
    auto pod = podSpec(hosted_ ? hostedParts() : proxyParts(), spec_, resources());
    if (!pod) {
      refusePod(plan_, pod.error());
      return held();
    }
    Inputs inputs = inputsOf(
        world_, ns_, *pod, {.secret = generatesKey() ? masterKeySecret(subject_) : std::string()});
    if (!hosted_) lookAtConfig(inputs);
    if (!inputs.missing.empty()) {
      plan_.condition("ConfigReady", false, inputs.missing[0].reason, inputs.missing[0].message);
      return held();
    }
    plan_.condition("ConfigReady", true,
                    hosted_                       ? "NotNeeded"
                    : proxy_.config_yaml.isNull() ? "Generated"
                                                  : "UserProvided");
    if (generatesKey()) {
      plan_.children.push_back(masterKey());
    } else if (!proxy_.master_key || !proxy_.master_key->secret_key_ref ||
               proxy_.master_key->secret_key_ref->name != masterKeySecret(subject_)) {
      plan_.removals.push_back({kSecrets, subject_.key(masterKeySecret(subject_))});
    }
    if (!hosted_ && !config_.empty()) {
      addConfig(plan_, configMap());
      inputs.texts.push_back(config_);
    }
    plan_.child(kDeployments, deployment(subject_, *std::move(pod), inputs.texts, spec_.replicas));
    plan_.child(kServices, service(subject_));
    tellIgnored(plan_, env_);
    addEndpoint(plan_, world_, subject_, settings_, kube::uid(object_));
    addWorkload(plan_, world_, subject_, kube::uid(object_), spec_.replicas);
    return finish();
  }

 private:
  engine::Plan held() {
    hold(plan_, world_, subject_, settings_, kube::uid(object_));
    return finish();
  }

  engine::Plan finish() {
    if (!models_.empty()) {
      json::Array list;
      for (const std::string& model : models_) list.emplace_back(model);
      plan_.status.set("supportedModels", std::move(list));
    }
    conclude(plan_, {"Accepted", "ConfigReady", "WorkloadReady"});
    addRoute(plan_, world_, subject_, settings_, kube::uid(object_), spec_.gateway_route,
             settings_.gateway_timeout_modelapi);
    addSecured();
    addTelemetryCondition(plan_, telemetry(), !hosted_);
    return std::move(plan_);
  }

  std::string hostedModel() const {
    if (spec_.hosted_config && !spec_.hosted_config->model.empty())
      return spec_.hosted_config->model;
    return spec_.server_config ? spec_.server_config->model : "";
  }
  TelemetrySettled telemetry() const { return settled(settings_, spec_.telemetry); }

  json::Value resources() const {
    if (!hosted_) return {};
    if (spec_.hosted_config && !spec_.hosted_config->resources.isNull())
      return spec_.hosted_config->resources;
    return spec_.server_config ? spec_.server_config->resources : json::Value();
  }

  Env userEnv() const {
    Env env = proxy_.env;
    if (hosted_) {
      env = spec_.server_config ? spec_.server_config->env : Env{};
      if (spec_.hosted_config) env = mergedEnv(env, spec_.hosted_config->env);
    }
    return mergedEnv(env, spec_.container ? spec_.container->env : Env{});
  }

  // ---- Proxy

  // The text of configYaml, where it stands in the object itself.
  std::optional<std::string> configText() const {
    if (proxy_.config_yaml.isString()) return proxy_.config_yaml.string();
    if (proxy_.config_yaml["fromString"].isString())
      return proxy_.config_yaml["fromString"].string();
    return std::nullopt;
  }
  const json::Value& configSecret() const { return proxy_.config_yaml["fromSecretKeyRef"]; }

  // `models`, else the names in configYaml, else all with apiBase, else the one model.
  bool settleModels() {
    std::optional<std::string> text = configText();
    std::vector<std::string> names;
    if (text) {
      auto found = modelNames(*text);
      if (!found) {
        plan_.condition("ConfigReady", false, "InvalidConfigYaml", found.error().message);
        return false;
      }
      names = *found;
    }
    models_ = proxy_.models;
    for (const std::string& name : names)
      if (!models_.empty() && !matchesModels(models_, name)) {
        plan_.condition("ConfigReady", false, "ModelNotInList",
                        format("model_name \"{}\" in configYaml not found in models list {}", name,
                               inBrackets(models_)));
        return false;
      }
    if (models_.empty()) models_ = names;
    if (models_.empty() && proxy_.api_base.empty() && !proxy_.model.empty())
      models_ = {proxy_.model};
    // With apiBase; or the names are in a Secret, which only the proxy can read.
    if (models_.empty()) models_ = {"*"};
    config_ = text ? *text : configSecret().isNull() ? generatedConfig() : "";
    return true;
  }

  std::string generatedConfig() const {
    std::string yaml = "model_list:\n";
    std::vector<std::string> entries = models_;
    // Beside a pattern that stands for all, the one that was meant.
    if (proxy_.models.empty() && !proxy_.model.empty() && models_[0] != proxy_.model)
      entries.insert(entries.begin(), proxy_.model);
    for (const std::string& model : entries) {
      std::string full = proxy_.provider.empty() ? model : format("{}/{}", proxy_.provider, model);
      yaml += format("- model_name: {}\n  litellm_params:\n    model: {}\n", quoted(model),
                     quoted(full));
      if (!proxy_.api_base.empty()) yaml += "    api_base: \"os.environ/PROXY_API_BASE\"\n";
      if (proxy_.api_key) yaml += "    api_key: \"os.environ/PROXY_API_KEY\"\n";
    }
    yaml += "litellm_settings:\n  drop_params: true\n";
    if (sendsTelemetry())
      yaml += "  success_callback: [\"otel\"]\n  failure_callback: [\"otel\"]\n";
    return yaml;
  }
  bool sendsTelemetry() const { return telemetry().enabled && !telemetry().endpoint.empty(); }

  json::Value configMap() const {
    return json::Object{
        {"metadata",
         json::Object{{"name", configName()}, {"namespace", ns_}, {"labels", subject_.labels()}}},
        {"data", json::Object{{"config.yaml", config_}}}};
  }
  std::string configName() const { return kube::boundedName("litellm-config-", name_); }

  void lookAtConfig(Inputs& inputs) {
    if (!configSecret().isNull())
      inputs.look(world_, ns_, true, configSecret()["name"].string(),
                  configSecret()["key"].string(), false);
  }

  PodParts proxyParts() {
    env_ = EnvList();
    if (!proxy_.api_base.empty()) env_.add("PROXY_API_BASE", proxy_.api_base);
    if (proxy_.api_key) {
      if (proxy_.api_key->value) {
        env_.add("PROXY_API_KEY", *proxy_.api_key->value);
      } else if (proxy_.api_key->value_from) {
        env_.addFrom("PROXY_API_KEY", kube::write(*proxy_.api_key->value_from));
      }
    }
    env_.addUser(userEnv());
    env_.add("LITELLM_LOG",
             upper(settings_.log_level) == "TRACE" ? "DEBUG" : upper(settings_.log_level));
    if (generatesKey()) {
      env_.addFrom("LITELLM_MASTER_KEY", masterKeySource(subject_));
    } else if (proxy_.master_key && proxy_.master_key->secret_key_ref) {
      env_.addFrom("LITELLM_MASTER_KEY",
                   json::Object{{"secretKeyRef", kube::write(*proxy_.master_key->secret_key_ref)}});
    } else {
      env_.add("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true");
    }
    if (sendsTelemetry()) {
      env_.add("OTEL_EXPORTER", "otlp_grpc");
      env_.add("OTEL_EXPORTER_OTLP_ENDPOINT", telemetry().endpoint);
      env_.add("OTEL_SERVICE_NAME", name_);
      env_.add("OTEL_PYTHON_EXCLUDED_URLS", "/health");
    }

    PodParts parts;
    parts.container = container(settings_.litellm_image, "/health/liveliness");
    parts.container.make("args") =
        json::Array{"--config", format("{}/config.yaml", kLitellmFolder), "--port", "8000"};
    parts.env = env_;
    parts.read_only_root = false;
    json::Value volume = json::Object{{"name", "litellm-config"}};
    if (!configSecret().isNull()) {
      volume.make("secret") = json::Object{
          {"secretName", configSecret()["name"]},
          {"items",
           json::Array{json::Object{{"key", configSecret()["key"]}, {"path", "config.yaml"}}}}};
    } else {
      volume.make("configMap") = json::Object{{"name", configName()}};
    }
    parts.volumes.push_back(std::move(volume));
    parts.mounts.set(kLitellmFolder, json::Object{{"name", "litellm-config"}, {"readOnly", true}});
    return parts;
  }

  bool generatesKey() const { return !hosted_ && proxy_.master_key && proxy_.master_key->generate; }

  engine::Child masterKey() const {
    return {.resource = kSecrets,
            .object = json::Object{{"metadata", json::Object{{"name", masterKeySecret(subject_)},
                                                             {"namespace", ns_},
                                                             {"labels", subject_.labels()}}},
                                   {"type", "Opaque"}},
            .keep = engine::Child::Keep::Once,
            .wave = kBeforePods,
            .generate = {{"master-key", "sk-"}}};
  }

  void addSecured() {
    if (hosted_) return;
    if (proxy_.master_key) return plan_.condition("Secured", true, "MasterKey");
    plan_.condition("Secured", false, "OpenEndpoint",
                    "everyone who reaches the endpoint may use it; set "
                    "proxyConfig.masterKey.generate: true");
  }

  // ---- Hosted

  PodParts hostedParts() {
    env_ = EnvList();
    env_.addUser(userEnv());
    env_.add("HOME", kOllamaHome);
    env_.add("OLLAMA_MODELS", format("{}/models", kOllamaHome));
    env_.add("OLLAMA_HOST", "0.0.0.0:11434");
    std::string level = upper(settings_.log_level);
    if (level == "DEBUG" || level == "TRACE")
      env_.add("OLLAMA_DEBUG", level == "DEBUG" ? "1" : "2");

    PodParts parts;
    parts.container = container(settings_.ollama_image, "/");
    parts.env = env_;
    parts.home = kOllamaHome;
    parts.volumes.push_back(json::Object{{"name", "ollama-data"}, {"emptyDir", json::Object{}}});
    parts.mounts.set(kOllamaHome, json::Object{{"name", "ollama-data"}});
    const std::string image = spec_.container && !spec_.container->image.empty()
                                  ? spec_.container->image
                                  : settings_.ollama_image;
    parts.init_containers.push_back(
        json::Object{{"name", "pull-model"},
                     {"image", image},
                     {"command", json::Array{"/bin/sh", "-c", kPullScript, "pull-model"}},
                     {"args", json::Array{hostedModel()}},
                     {"env", env_.finish()},
                     {"terminationMessagePolicy", "FallbackToLogsOnError"},
                     {"volumeMounts",
                      json::Array{json::Object{{"name", "ollama-data"}, {"mountPath", kOllamaHome}},
                                  json::Object{{"name", "tmp"}, {"mountPath", "/tmp"}}}}});
    return parts;
  }

  json::Value container(const std::string& image, std::string_view path) const {
    auto get = [&](int period, int failures) {
      return json::Object{{"httpGet", json::Object{{"path", path}, {"port", subject_.port}}},
                          {"periodSeconds", period},
                          {"timeoutSeconds", 5},
                          {"failureThreshold", failures}};
    };
    return json::Object{
        {"name", "model-api"},
        {"image", image},
        {"ports", json::Array{json::Object{
                      {"name", "http"}, {"containerPort", subject_.port}, {"protocol", "TCP"}}}},
        {"startupProbe", get(2, 150)},
        {"readinessProbe", get(5, 3)},
        {"livenessProbe", get(10, 3)}};
  }

  const json::Value& object_;
  engine::World& world_;
  const Settings& settings_;
  const std::string ns_, name_;
  const ModelApiSpec spec_;
  const bool hosted_;
  const Subject subject_;
  const ProxyConfig proxy_;
  engine::Plan plan_;
  std::vector<std::string> models_;  // that Agents may ask for
  std::string config_;               // LiteLLM's, where it is in a ConfigMap
  EnvList env_;
};

}  // namespace

std::string masterKeySecret(const Subject& model_api) {
  return kube::boundedName(model_api.workload(), "-key");
}

json::Value masterKeySource(const Subject& model_api) {
  return json::Object{
      {"secretKeyRef", json::Object{{"name", masterKeySecret(model_api)}, {"key", "master-key"}}}};
}

engine::Plan planModelApi(const json::Value& object, engine::World& world,
                          const Settings& settings) {
  return ModelApiPlan(object, world, settings).make();
}

}  // namespace cadre::kaos
