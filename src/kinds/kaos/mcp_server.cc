// The MCPServer: what spec §3.5 and §7.2 say, in their order.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "kinds/kaos/plans.h"
#include "kinds/kaos/registry.h"
#include "kinds/kaos/workload.h"

namespace cadre::kaos {
namespace {

constexpr std::size_t kMaxTextInEnv = 96u << 10;
constexpr std::string_view kSourceFolder = "/etc/kaos/tools";
constexpr std::string_view kSourceVariable = "MCP_TOOLS_STRING";
constexpr std::string_view kBridgeFolder = "/opt/bridge";
constexpr std::string_view kPackageFolder = "/opt/mcp";
constexpr std::size_t kMaxTools = 256, kMaxToolName = 128;

json::Value registryView(const json::Value& config_map) { return config_map["data"][kRegistryKey]; }

json::Array words(const std::vector<std::string>& list) {
  json::Array array;
  for (const std::string& word : list) array.emplace_back(word);
  return array;
}

class McpServerPlan {
 public:
  McpServerPlan(const json::Value& object, engine::World& world, const Settings& settings)
      : object_(object),
        world_(world),
        settings_(settings),
        ns_(kube::ns(object)),
        name_(kube::name(object)),
        spec_(kube::read<McpServerSpec>(object["spec"])),
        subject_(mcpServerSubject(ns_, name_)) {}

  engine::Plan make() {
    plan_.foreign_finalizers = {"kaos.tools/mcpserver-finalizer"};
    if (kube::isDeleting(object_)) return going(std::move(plan_), object_);
    if (!addAccepted(plan_, world_, mcpServerKind(), object_)) return held();
    if (!resolve()) return held();
    auto pod = podSpec(podParts(), spec_, spec_.resources);
    if (!pod) {
      refusePod(plan_, pod.error());
      return held();
    }
    Inputs inputs = inputsOf(world_, ns_, *pod);
    if (!inputs.missing.empty()) {
      plan_.condition("ConfigReady", false, inputs.missing[0].reason, inputs.missing[0].message);
      return held();
    }
    plan_.condition("ConfigReady", true, source_in_file_ ? "Generated" : "NotNeeded");
    if (source_in_file_) {
      addConfig(plan_, sourceMap());
      inputs.texts.push_back(source_);
    }
    json::Value made = deployment(subject_, *std::move(pod), inputs.texts, std::nullopt);
    rollout_ = made["spec"]["template"]["metadata"]["annotations"]["kaos.tools/pod-spec-hash"];
    plan_.child(kDeployments, std::move(made));
    plan_.child(kServices, service(subject_));
    tellIgnored(plan_, env_);
    addEndpoint(plan_, world_, subject_, settings_, kube::uid(object_));
    addWorkload(plan_, world_, subject_, kube::uid(object_), std::nullopt);
    return finish();
  }

 private:
  engine::Plan held() {
    hold(plan_, world_, subject_, settings_, kube::uid(object_));
    return finish();
  }

  engine::Plan finish() {
    if (!runtime_name_.empty()) plan_.status.set("runtime", runtime_name_);
    addTools();
    conclude(plan_, {"Accepted", "RuntimeResolved", "ConfigReady", "WorkloadReady"});
    addRoute(plan_, world_, subject_, settings_, kube::uid(object_), spec_.gateway_route,
             settings_.gateway_timeout_mcp);
    addTelemetryCondition(plan_, telemetry(), true);
    return std::move(plan_);
  }

  TelemetrySettled telemetry() const { return settled(settings_, spec_.telemetry); }

  Env userEnv() const {
    return mergedEnv(spec_.config.env, spec_.container ? spec_.container->env : Env{});
  }

  // ---- Where the tools come from: the first that is there

  bool resolve() {
    const Tools tools = spec_.config.tools.value_or(Tools{});
    auto python = [&](const std::string& source) {
      source_ = source;
      runtime_name_ = "python-string";
    };
    if (!spec_.runtime.empty()) {
      runtime_name_ = spec_.runtime;
    } else if (tools.from_string) {
      python(*tools.from_string);
    } else if (tools.from_secret_key_ref) {
      source_secret_ = kube::write(*tools.from_secret_key_ref);
      runtime_name_ = "python-string";
    } else if (!tools.from_package.empty()) {
      package_ = tools.from_package;
    } else if (spec_.config.tools_string) {
      python(*spec_.config.tools_string);
    } else if (spec_.tools_string) {
      python(*spec_.tools_string);
    } else if (!spec_.config.mcp.empty()) {
      package_ = spec_.config.mcp;
    } else {
      package_ = spec_.mcp;
    }
    if (!package_.empty()) {
      runtime_name_ = "package";
      runtime_ = {.image = spec_.type == "node-runtime" ? settings_.mcp_node_image
                                                        : settings_.mcp_package_image,
                  .stdio = true};
      plan_.condition("RuntimeResolved", true, "Package", package_);
      return true;
    }
    if (runtime_name_ == "custom") {
      runtime_ = {.image = spec_.container ? spec_.container->image : ""};
      plan_.condition("RuntimeResolved", true, "Custom");
      return true;
    }
    std::string registry;
    if (settings_.reads_registry)
      registry = world_
                     .get(kConfigMaps, {settings_.system_namespace, std::string(kRegistryName)},
                          {"registry", registryView})
                     .string();
    auto found = findRuntime(settings_, registry, runtime_name_);
    if (!found) {
      plan_.condition("RuntimeResolved", false,
                      found.error().code == Code::NotFound ? "UnknownRuntime" : "RegistryInvalid",
                      found.error().message);
      return false;
    }
    runtime_ = *std::move(found);
    Env user = userEnv();
    for (const std::string& needed : runtime_.required_env)
      if (std::none_of(user.begin(), user.end(),
                       [&](const EnvVar& one) { return one.name == needed; })) {
        plan_.condition("RuntimeResolved", false, "MissingEnv",
                        format("runtime {} needs the variable {}: set it in container.env",
                               runtime_name_, needed));
        return false;
      }
    plan_.condition("RuntimeResolved", true, runtime_.built_in ? "BuiltIn" : "Registered");
    return true;
  }

  // ---- The pod

  void fillEnv() {
    env_ = EnvList();
    std::string params = spec_.params;
    std::string_view variable = runtime_.params_env;
    bool has_source = !source_secret_.isNull() || !source_.empty();
    if (variable == kSourceVariable && !has_source) {
      source_ = std::exchange(params, "");
    } else if (variable.empty() || variable == kSourceVariable) {
      variable = "MCP_PARAMS";  // never dropped
    }
    source_in_file_ = source_.size() > kMaxTextInEnv;
    if (!source_secret_.isNull()) {
      env_.addFrom(kSourceVariable, json::Object{{"secretKeyRef", source_secret_}});
    } else if (source_in_file_) {
      env_.add("MCP_TOOLS_FILE", format("{}/tools.py", kSourceFolder));
    } else if (!source_.empty()) {
      env_.addText(kSourceVariable, source_);
    }
    if (!params.empty()) env_.addText(variable, params);
    env_.addUser(userEnv());
    addOtel(env_, telemetry(), name_, ns_, userEnv());
    env_.add("LOG_LEVEL", settings_.log_level);
  }

  PodParts podParts() {
    fillEnv();
    PodParts parts;
    auto tcp = [](int period, int timeout, int failures) {
      return json::Object{{"tcpSocket", json::Object{{"port", 8000}}},
                          {"periodSeconds", period},
                          {"timeoutSeconds", timeout},
                          {"failureThreshold", failures}};
    };
    parts.container = json::Object{
        {"name", "mcp-server"},
        {"image", runtime_.image},
        {"ports",
         json::Array{json::Object{{"name", "http"}, {"containerPort", 8000}, {"protocol", "TCP"}}}},
        {"startupProbe", tcp(1, 3, 300)},
        {"readinessProbe", tcp(5, 3, 2)},
        {"livenessProbe", tcp(10, 3, 3)}};
    if (!runtime_.command.empty()) parts.container.make("command") = words(runtime_.command);
    if (!runtime_.args.empty()) parts.container.make("args") = words(runtime_.args);
    parts.env = env_;
    parts.read_only_root = runtime_.read_only_root;
    if (runtime_.run_as_user)
      parts.container.make("securityContext").make("runAsUser") = *runtime_.run_as_user;
    parts.service_account = spec_.service_account_name;
    parts.token = runtime_.needs_token;
    if (source_in_file_) {
      parts.volumes.push_back(json::Object{
          {"name", "tools"}, {"configMap", json::Object{{"name", subject_.workload()}}}});
      parts.mounts.set(kSourceFolder, json::Object{{"name", "tools"}, {"readOnly", true}});
    }
    if (runtime_.stdio) addBridge(parts);
    return parts;
  }

  // The bridge serves on port 8000 what a program says over its standard streams.
  void addBridge(PodParts& parts) {
    auto mount = [](std::string_view name, std::string_view path) {
      return json::Object{{"name", name}, {"mountPath", path}};
    };
    const std::string& bridge_image =
        settings_.mcp_bridge_image.empty() ? settings_.agent_image : settings_.mcp_bridge_image;
    parts.volumes.push_back(json::Object{{"name", "bridge"}, {"emptyDir", json::Object{}}});
    parts.mounts.set(kBridgeFolder, json::Object{{"name", "bridge"}});
    parts.init_containers.push_back(
        json::Object{{"name", "install-bridge"},
                     {"image", bridge_image},
                     {"args", json::Array{"install-bridge", kBridgeFolder}},
                     {"volumeMounts", json::Array{mount("bridge", kBridgeFolder)}}});
    json::Array command{format("{}/cadre-mcp-bridge", kBridgeFolder)};
    if (package_.empty()) {
      command.emplace_back("--");
      for (const std::string& word : runtime_.command) command.emplace_back(word);
      parts.container.make("command") = std::move(command);
      return;
    }
    bool node = spec_.type == "node-runtime";
    parts.volumes.push_back(json::Object{{"name", "package"}, {"emptyDir", json::Object{}}});
    parts.mounts.set(kPackageFolder, json::Object{{"name", "package"}});
    json::Array install =
        node ? json::Array{"npm", "install", "--prefix", kPackageFolder, "--", package_}
             : json::Array{"python",   "-m",           "pip",
                           "install",  "--no-input",   "--disable-pip-version-check",
                           "--target", kPackageFolder, "--",
                           package_};
    EnvList env = env_;
    env.add("HOME", "/tmp");
    parts.init_containers.push_back(json::Object{
        {"name", "install"},
        {"image", spec_.container && !spec_.container->image.empty() ? spec_.container->image
                                                                     : runtime_.image},
        {"command", std::move(install)},
        {"env", env.finish()},
        {"volumeMounts", json::Array{mount("package", kPackageFolder), mount("tmp", "/tmp")}}});
    for (std::string_view word :
         std::initializer_list<std::string_view>{"--package", package_, "--folder", kPackageFolder})
      command.emplace_back(word);
    if (node) command.emplace_back("--node");
    parts.container.make("command") = std::move(command);
  }

  json::Value sourceMap() const {
    return json::Object{{"metadata", json::Object{{"name", subject_.workload()},
                                                  {"namespace", ns_},
                                                  {"labels", subject_.labels()}}},
                        {"data", json::Object{{"tools.py", source_}}}};
  }

  // ---- Tools

  void addTools() {
    // The last good list stays until there is a better one.
    const json::Value& before = object_["status"];
    json::Value tools = before["availableTools"], count = before["toolCount"];
    std::string reason = "NotYet", message = "the server is not ready yet";
    bool listed = false;
    // A Service of somebody else under our name would tell of other tools.
    if (plan_.holds("WorkloadReady") && !plan_.hold && plan_.status.contains("endpoint")) {
      // Asked anew after each rollout: the input is another one.
      const engine::Fact& fact =
          world_.observe({"mcp-tools", json::Object{{"endpoint", subject_.endpoint(settings_)},
                                                    {"namespace", ns_},
                                                    {"service", subject_.workload()},
                                                    {"port", subject_.port},
                                                    {"rollout", rollout_}}});
      if (fact.known) {
        std::vector<std::string> names;
        for (const json::Value& tool : fact.value.array())
          names.push_back(shorten(tool.string(), kMaxToolName));
        std::sort(names.begin(), names.end());
        count = names.size();
        names.resize(std::min(names.size(), kMaxTools));
        tools = words(names);
      }
      listed = fact.known && fact.error.empty();
      if (listed) {
        message = format("{} tools", count.integer());
      } else if (!fact.error.empty()) {
        auto [kind, text] = cut(fact.error, ": ");
        reason = kind == "ProtocolError" ? "ProtocolError" : "Unreachable";
        message = text.empty() ? fact.error : std::string(text);
      } else if (auto told = kube::findCondition(object_, "ToolsDiscovered");
                 told && told->reason != "NotYet") {
        // Asked again, after a restart or a rollout: what was known holds until it answers.
        listed = told->status == kube::ConditionStatus::True;
        reason = told->reason;
        message = told->message;
      } else {
        message = "the server is being asked";
      }
    }
    if (!tools.isNull()) plan_.status.set("availableTools", tools);
    if (!count.isNull()) plan_.status.set("toolCount", count);
    plan_.condition("ToolsDiscovered", listed, listed ? "Listed" : reason, message);
  }

  const json::Value& object_;
  engine::World& world_;
  const Settings& settings_;
  const std::string ns_, name_;
  const McpServerSpec spec_;
  const Subject subject_;
  engine::Plan plan_;
  Runtime runtime_;
  std::string runtime_name_, source_, package_;
  json::Value source_secret_, rollout_;
  bool source_in_file_ = false;
  EnvList env_;
};

}  // namespace

engine::Plan planMcpServer(const json::Value& object, engine::World& world,
                           const Settings& settings) {
  return McpServerPlan(object, world, settings).make();
}

void addOtel(EnvList& env, const TelemetrySettled& telemetry, const std::string& name,
             const std::string& ns, const Env& user) {
  if (!telemetry.enabled || telemetry.endpoint.empty()) return;
  env.add("OTEL_SDK_DISABLED", "false");
  env.add("OTEL_SERVICE_NAME", name);
  env.add("OTEL_EXPORTER_OTLP_ENDPOINT", telemetry.endpoint);
  std::string attributes = format("service.namespace={},kaos.resource.name={}", ns, name);
  auto theirs = std::find_if(user.begin(), user.end(), [](const EnvVar& variable) {
    return variable.name == "OTEL_RESOURCE_ATTRIBUTES";
  });
  if (theirs == user.end() || !theirs->value_from.isNull()) {
    env.add("OTEL_RESOURCE_ATTRIBUTES", attributes);
  } else {
    if (!theirs->value.value_or("").empty()) attributes += "," + *theirs->value;
    env.addJoined("OTEL_RESOURCE_ATTRIBUTES", attributes);
  }
  env.add("OTEL_PYTHON_FASTAPI_EXCLUDED_URLS", "/health,/ready");
}

}  // namespace cadre::kaos
