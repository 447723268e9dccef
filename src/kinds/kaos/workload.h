#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "engine/world.h"
#include "kinds/kaos/env.h"
#include "kinds/kaos/settings.h"
#include "kinds/kaos/types.h"

namespace cadre::kaos {

// What the three kinds do alike: a Deployment, a Service and a route under one name, and a status
// that follows from conditions.

extern const kube::Resource kAgents, kModelApis, kMcpServers;
extern const kube::Resource kDeployments, kServices, kConfigMaps, kSecrets, kPods, kHttpRoutes;

// The wave of what pods read: they are made, and follow a change, when it is there and ours.
inline constexpr int kBeforePods = -1;

// Who is served, and what the things that belong to it are called.
struct Subject {
  std::string word;       // agent, modelapi, mcpserver: label, prefix of names
  std::string route;      // agent, modelapi, mcp: in paths and names of routes
  std::string container;  // name of the container
  std::string name, ns;
  int port = 8000;
  bool also_port_80 = false;

  std::string workload() const;  // "agent-x": Deployment and Service
  json::Value selector() const;  // {app: agent, agent: x}
  json::Value labels() const;    // the selector and what every child carries
  std::string selectorText() const;
  std::string endpoint(const Settings& settings) const;
  kube::ObjectKey key(const std::string& child) const { return {ns, child}; }
};

Subject agentSubject(const std::string& ns, const std::string& name);
Subject modelApiSubject(const std::string& ns, const std::string& name, bool hosted);
Subject mcpServerSubject(const std::string& ns, const std::string& name);

// The pod that is generated, before the user's container and podSpec.
struct PodParts {
  json::Value container;  // everything but env; name and image at least
  EnvList env;
  json::Array init_containers = {};
  json::Array volumes = {};
  json::Object mounts = {};  // of the main container: path to {name, subPath, readOnly}
  bool read_only_root = true;
  std::string service_account = {};  // its token is mounted
  bool token = false;                // also without an account of its own
  std::string home = "/tmp";
  std::vector<std::string> config_texts = {};  // what the pod reads at start, beside its spec
};

// The final PodSpec: generated, then `container`, then `podSpec` merged in. InvalidArgument where
// that cannot be done.
Result<json::Value> podSpec(PodParts parts, const CommonSpec& spec, const json::Value& resources);

// A key of a Secret or ConfigMap that a pod cannot start without.
struct Missing {
  std::string reason;  // SecretNotFound, ConfigMapNotFound, KeyNotFound
  std::string message;
};
// Everything that the pod takes from Secrets and ConfigMaps at start: what is missing, and for the
// rest a text that changes when one of them does.
struct Inputs {
  std::vector<Missing> missing;
  std::vector<std::string> texts;

  // Looks at one key; false when it is missing.
  bool look(engine::World& world, const std::string& ns, bool secret, const std::string& name,
            const std::string& key, bool optional);
};
// A Secret that the user need not make: one of our own, which we do not wait for, or one that
// another object makes.
struct Made {
  std::string secret = {};
  std::string by = {};  // "ModelAPI \"llm\""; empty: by us
};
Inputs inputsOf(engine::World& world, const std::string& ns, const json::Value& pod_spec,
                const Made& made = {});

json::Value deployment(const Subject& subject, json::Value pod_spec,
                       const std::vector<std::string>& texts, std::optional<int> replicas);
json::Value service(const Subject& subject);
json::Value httpRoute(const Subject& subject, const Settings& settings,
                      const std::optional<GatewayRoute>& route, const std::string& usual_timeout);

// Adds the route where the gateway is on, unless the plan is on hold, and its condition.
void addRoute(engine::Plan& plan, engine::World& world, const Subject& subject,
              const Settings& settings, std::string_view owner_uid,
              const std::optional<GatewayRoute>& route, const std::string& usual_timeout);

// A ConfigMap that the pods read. One that somebody made immutable is made anew.
void addConfig(engine::Plan& plan, json::Value config_map);

// WorkloadReady, and the Deployment's state for the status. `replicas`: as the object has them.
void addWorkload(engine::Plan& plan, engine::World& world, const Subject& subject,
                 std::string_view owner_uid, std::optional<int> replicas);

// Where it answers, as soon as its Service is there.
void addEndpoint(engine::Plan& plan, engine::World& world, const Subject& subject,
                 const Settings& settings, std::string_view owner_uid);

// Something is missing: what runs goes on as it is.
void hold(engine::Plan& plan, engine::World& world, const Subject& subject,
          const Settings& settings, std::string_view owner_uid);

// Telemetry that holds for an object: its endpoint, when it is to be sent.
struct TelemetrySettled {
  bool enabled = false;
  std::string endpoint;
};
TelemetrySettled settled(const Settings& settings, const std::optional<Telemetry>& telemetry);
void addTelemetryCondition(engine::Plan& plan, const TelemetrySettled& telemetry, bool supported);

// Ready, phase, ready and message from the conditions above it, in the order of the gates.
void conclude(engine::Plan& plan, const std::vector<std::string>& gates);

// That of an object which is being deleted: nothing more is made, and it is not ready.
engine::Plan going(engine::Plan plan, const json::Value& object);

// Accepted, from validation and from what became of the children. False: nothing may be made.
bool addAccepted(engine::Plan& plan, const engine::World& world, const kube::Kind& kind,
                 const json::Value& object);

// The pod cannot be made of what the user wrote.
void refusePod(engine::Plan& plan, const Error& error);

// Those of its children that exist, by role: "deployment", "service", ...
void addChildren(json::Object& linked, engine::World& world, const Subject& subject,
                 std::string_view owner_uid, const std::vector<kube::Resource>& kinds);

// Warnings about variables that were passed over.
void tellIgnored(engine::Plan& plan, const EnvList& env);

}  // namespace cadre::kaos
