#include "hub/pod_account.h"

#include <algorithm>

#include "base/format.h"

namespace cadre::hub {
namespace {

using json::Value;

constexpr std::string_view kFolder = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr std::string_view kVolume = "kube-api-access-";
constexpr std::string_view kDefault = "default";
constexpr int kTokenSeconds = 3607;

Value tokenVolume(const std::string& name) {
  json::Object token{{"expirationSeconds", kTokenSeconds}, {"path", "token"}};
  json::Object authority{
      {"name", "kube-root-ca.crt"},
      {"items", json::Array{json::Object{{"key", "ca.crt"}, {"path", "ca.crt"}}}}};
  json::Object field{{"apiVersion", "v1"}, {"fieldPath", "metadata.namespace"}};
  json::Object self{
      {"items", json::Array{json::Object{{"path", "namespace"}, {"fieldRef", std::move(field)}}}}};
  return json::Object{
      {"name", name},
      {"projected",
       json::Object{{"defaultMode", 0644},
                    {"sources", json::Array{json::Object{{"serviceAccountToken", std::move(token)}},
                                            json::Object{{"configMap", std::move(authority)}},
                                            json::Object{{"downwardAPI", std::move(self)}}}}}}};
}

bool hasToken(const Value& container) {
  return std::ranges::any_of(container["volumeMounts"].array(), [](const Value& mount) {
    return mount["mountPath"].string() == kFolder;
  });
}

bool giveToken(Value& spec, std::string_view uid) {
  std::string volume;
  for (const Value& one : spec["volumes"].array())
    if (one["name"].string().starts_with(kVolume)) volume = one["name"].string();
  const bool is_there = !volume.empty();
  if (!is_there) volume = format("{}{}", kVolume, uid.substr(0, 5));
  bool any = false;
  for (std::string_view which : {"initContainers", "containers"}) {
    if (spec[which].array().empty()) continue;
    for (Value& container : spec.make(which).makeArray()) {
      if (hasToken(container)) continue;
      container.make("volumeMounts")
          .makeArray()
          .emplace_back(json::Object{{"name", volume}, {"mountPath", kFolder}, {"readOnly", true}});
      any = true;
    }
  }
  if (any && !is_there) spec.make("volumes").makeArray().push_back(tokenVolume(volume));
  return any;
}

}  // namespace

Outcome<bool> giveAccount(Draft& draft, const Objects& objects) {
  if (draft.before || draft.kind->storage != "pods" || !draft.writing.subresource.empty())
    return false;
  Value& spec = draft.object.make("spec");
  bool changed = spec["serviceAccountName"].string().empty();
  for (std::string_view field : {"serviceAccountName", "serviceAccount"})
    if (changed) spec.make(field) = kDefault;
  const std::string name = spec["serviceAccountName"].string();
  State found = objects.find("serviceaccounts", {draft.key.ns, name});
  if (!found && name != kDefault)
    return forbidden(
        draft.kind->resource, draft.key.name,
        format("error looking up service account {}/{}: serviceaccount \"{}\" not found",
               draft.key.ns, name, name));
  const Value account = found ? found->value() : Value();
  const Value& secrets = account["imagePullSecrets"];
  if (spec["imagePullSecrets"].array().empty() && !secrets.array().empty()) {
    spec.make("imagePullSecrets") = secrets;
    changed = true;
  }
  const Value& own = spec["automountServiceAccountToken"];
  const bool wanted =
      own.isNull() ? account["automountServiceAccountToken"].boolean(true) : own.boolean();
  if (wanted) changed |= giveToken(spec, kube::uid(draft.object));
  return changed;
}

}  // namespace cadre::hub
