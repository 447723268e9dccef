#pragma once

#include <string>
#include <vector>

#include "cli/systems.h"

namespace cadre::cli {

// What the API server calls the webhook by.
inline constexpr std::string_view kWebhookService = "kaos-operator-webhook";
inline constexpr std::string_view kWebhookConfiguration = "kaos-operator-validating-webhook";

// What has to be applied to a cluster, in this order.
std::vector<json::Value> crds(const Systems& systems);
std::vector<json::Value> rbac(const Systems& systems, const std::string& ns);
std::vector<json::Value> install(const Systems& systems, const std::string& ns,
                                 const std::string& image);
std::string asYaml(const std::vector<json::Value>& objects);

}  // namespace cadre::cli
