#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::kube {
class Report;
}

namespace cadre::kaos {

// What CEL cannot say about the kinds: checked by `cadre validate`, the webhook and the operator.

inline constexpr std::int64_t kMaxInstructions = 512 << 10;  // bytes

void checkInstructions(const json::Value& self, kube::Report& report);
void checkEnvVar(const json::Value& self, kube::Report& report);
void checkResources(const json::Value& self, kube::Report& report);
void checkPodSpec(const json::Value& self, kube::Report& report);
void checkSource(const json::Value& self, kube::Report& report);
void checkProxyConfig(const json::Value& self, kube::Report& report);
// Two fields that say the same: the older one is passed over.
void warnOfTwins(const json::Value& self, kube::Report& report);

// The names in a LiteLLM configuration's model_list; or why there are none.
Result<std::vector<std::string>> modelNames(std::string_view config_yaml);
// Whether it stands for several models: "*" for all, "x/*" for all that begin with "x/".
bool isPattern(std::string_view model);
// Whether a model is served: by a pattern, or by its own name.
bool matchesModels(const std::vector<std::string>& patterns, std::string_view model);
// "[a b]", as messages show lists.
std::string inBrackets(const std::vector<std::string>& list);

}  // namespace cadre::kaos
