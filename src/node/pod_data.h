#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "json/value.h"

namespace cadre::node {

// A ConfigMap or a Secret of the pod's namespace: its kind and name; or {token} of its service
// account, as a volume's source says which (kServiceAccountToken, and the source as JSON). Null:
// there is none.
inline constexpr std::string_view kServiceAccountToken = "ServiceAccountToken";
using Lookup = Function<const json::Value*(std::string_view kind, std::string_view name)>;

// What a container's `env` and `envFrom` stand for, with $(NAME) in values filled in, on top of
// what is there `before`. An error is in the kubelet's words: what is missing and is not optional.
Result<std::map<std::string, std::string>> environmentOf(
    const json::Value& pod, const json::Value& container, const Lookup& lookup,
    const std::map<std::string, std::string>& before);
// How a Service is told of in the environment: WEB_SERVICE_HOST, WEB_PORT and so on.
void addLinks(std::map<std::string, std::string>& env, const json::Value& service);
// Its command or arguments, with $(NAME) filled in.
std::vector<std::string> expanded(const json::Value& words,
                                  const std::map<std::string, std::string>& env);

struct FileOf {
  std::string text;
  unsigned mode = 0644;
  auto operator<=>(const FileOf&) const = default;
};
// Whether the files of a volume come from the API, and are kept as they are there.
bool isWritten(const json::Value& volume);
// What they are: of a configMap, secret, downwardAPI or projected volume, by path.
Result<std::map<std::string, FileOf>> filesOf(const json::Value& pod, const json::Value& volume,
                                              const Lookup& lookup);

}  // namespace cadre::node
