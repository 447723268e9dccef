#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/webhook.h"
#include "kinds/kaos/env.h"
#include "kinds/kaos/settings.h"
#include "kinds/kaos/workload.h"

namespace cadre::kaos {

// The plans of the three kinds: pure functions of an object and what they look at.
engine::Plan planAgent(const json::Value& object, engine::World& world, const Settings& settings);
engine::Plan planModelApi(const json::Value& object, engine::World& world,
                          const Settings& settings);
engine::Plan planMcpServer(const json::Value& object, engine::World& world,
                           const Settings& settings);

// What plans of several kinds need of each other.
json::Value masterKeySource(const Subject& model_api);  // {secretKeyRef: ...} of a generated key
std::string masterKeySecret(const Subject& model_api);
// Variables for OpenTelemetry, as our programs and the original ones read them.
void addOtel(EnvList& env, const TelemetrySettled& telemetry, const std::string& name,
             const std::string& ns, const Env& user);

// What the webhook says to their objects.
std::vector<engine::Validator> validators(const Settings& settings);
// Everything that the engine has to know to serve them.
void serve(engine::EngineOptions& options, const Settings& settings);

}  // namespace cadre::kaos
