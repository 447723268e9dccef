#include "node/pod_data.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/meta.h"
#include "kube/names.h"
#include "kube/quantity.h"

namespace cadre::node {
namespace {

using json::Value;
using Files = std::map<std::string, FileOf>;

Error missing(std::string message) {
  return {.code = Code::NotFound, .message = std::move(message)};
}

// Its values as texts: those of a Secret are decoded.
std::map<std::string, std::string> dataOf(const Value& object) {
  std::map<std::string, std::string> out;
  bool secret = object["kind"].string() == "Secret";
  for (const auto& [key, value] : object["data"].object())
    out[key] = secret ? base64Decode(value.string()).value_or("") : value.string();
  for (const auto& [key, value] : object["binaryData"].object())
    out[key] = base64Decode(value.string()).value_or("");
  return out;
}

Result<const Value*> find(const Lookup& lookup, std::string_view kind, const Value& source,
                          std::string_view name) {
  const Value* object = lookup(kind, name);
  if (!object && !source["optional"].boolean())
    return missing(format("{} \"{}\" not found", lower(kind), name));
  return object;
}

// metadata.labels['app'], status.podIP: what an object says of itself.
std::string fieldOf(const Value& pod, std::string_view path) {
  std::size_t open = path.find("['");
  if (open != std::string_view::npos && path.ends_with("']")) {
    std::string_view key = path.substr(open + 2, path.size() - open - 4);
    return pod["metadata"][path.substr(9, open - 9)][key].string();
  }
  if (path == "status.podIPs" || path == "status.hostIPs") {
    std::vector<std::string> all;
    for (const Value& one : pod["status"][path.substr(7)].array())
      all.push_back(one["ip"].string());
    return join(all, ",");
  }
  const Value* at = &pod;
  for (std::string_view part : split(path, '.')) at = &(*at)[part];
  if (!at->isObject()) return at->string();
  std::string lines;  // of labels and annotations, for a file
  for (const auto& [key, value] : at->object())
    lines += format("{}{}={}", lines.empty() ? "" : "\n", key, kube::inQuotes(value.string()));
  return lines;
}

// "limits.memory" in units of the divisor, rounded up.
std::string resourceOf(const Value& pod, const Value& source, const Value* container) {
  if (!container)
    for (const Value& one : pod["spec"]["containers"].array())
      if (one["name"] == source["containerName"]) container = &one;
  if (!container) return "0";
  auto [which, resource] = cut(source["resource"].string(), ".");
  const Value& text = (*container)["resources"][which][resource];
  auto amount = kube::Quantity::fromJson(text);
  auto unit = kube::Quantity::fromJson(source["divisor"]);
  if (!amount) return "0";
  const std::int64_t one = unit ? unit->milliValue() : 0;
  const std::int64_t divisor = one > 0 ? one : 1000;
  return format("{}", (amount->milliValue() + divisor - 1) / divisor);
}

std::string expand(std::string_view text, const std::map<std::string, std::string>& env) {
  std::string out;
  while (!text.empty()) {
    std::size_t at = text.find('$');
    out += text.substr(0, at);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at);
    if (text.starts_with("$$")) {
      out += '$';
      text.remove_prefix(2);
      continue;
    }
    std::size_t end = text.starts_with("$(") ? text.find(')') : std::string_view::npos;
    auto found =
        end == std::string_view::npos ? env.end() : env.find(std::string(text.substr(2, end - 2)));
    if (found == env.end()) {  // it stays as it is
      out += '$';
      text.remove_prefix(1);
    } else {
      out += found->second;
      text.remove_prefix(end + 1);
    }
  }
  return out;
}

unsigned modeOf(const Value& item, const Value& volume) {
  const Value& mode = item["mode"].isInteger() ? item["mode"] : volume["defaultMode"];
  return static_cast<unsigned>(mode.integer(0644)) & 0777;
}

bool isTame(std::string_view path) {
  if (path.empty() || path.starts_with('/')) return false;
  for (std::string_view part : split(path, '/'))
    if (part == ".." || part.starts_with("..data")) return false;
  return true;
}

Result<> put(Files& files, const std::string& path, FileOf file) {
  if (!isTame(path))
    return Error{.code = Code::InvalidArgument,
                 .message = format("the path {} leaves its volume", kube::inQuotes(path))};
  files[path] = std::move(file);
  return {};
}

Result<> addKeys(Files& files, const Value& source, const Value& volume, const Value* object,
                 std::string_view kind) {
  if (!object) return {};
  auto data = dataOf(*object);
  if (source["items"].isNull()) {
    for (const auto& [key, text] : data) CADRE_TRY(put(files, key, {text, modeOf({}, volume)}));
    return {};
  }
  for (const Value& item : source["items"].array()) {
    auto found = data.find(item["key"].string());
    if (found == data.end()) {
      if (source["optional"].boolean()) continue;
      return missing(
          format("references non-existent {} key: {}", lower(kind), item["key"].string()));
    }
    CADRE_TRY(put(files, item["path"].string(), {found->second, modeOf(item, volume)}));
  }
  return {};
}

Result<> addFields(Files& files, const Value& pod, const Value& source, const Value& volume) {
  for (const Value& item : source["items"].array()) {
    std::string text = item["fieldRef"].isObject()
                           ? fieldOf(pod, item["fieldRef"]["fieldPath"].string())
                           : resourceOf(pod, item["resourceFieldRef"], nullptr);
    CADRE_TRY(put(files, item["path"].string(), {std::move(text), modeOf(item, volume)}));
  }
  return {};
}

}  // namespace

void addLinks(std::map<std::string, std::string>& env, const Value& service) {
  const std::string& address = service["spec"]["clusterIP"].string();
  const json::Array& ports = service["spec"]["ports"].array();
  if (address.empty() || address == "None" || ports.empty()) return;
  auto shouted = [](std::string_view text) {
    std::string out = upper(text);
    std::ranges::replace(out, '-', '_');
    return out;
  };
  const std::string name = shouted(kube::name(service));
  auto protocolOf = [](const Value& port) {
    return port["protocol"].string().empty() ? std::string("TCP") : port["protocol"].string();
  };
  auto url = [&](const Value& port) {
    return format("{}://{}:{}", lower(protocolOf(port)), address, port["port"].integer());
  };
  env[name + "_SERVICE_HOST"] = address;
  env[name + "_SERVICE_PORT"] = format("{}", ports[0]["port"].integer());
  env[name + "_PORT"] = url(ports[0]);
  for (const Value& port : ports) {
    const std::string number = format("{}", port["port"].integer());
    if (const std::string& its = port["name"].string(); !its.empty())
      env[format("{}_SERVICE_PORT_{}", name, shouted(its))] = number;
    const std::string prefix = format("{}_PORT_{}_{}", name, number, protocolOf(port));
    env[prefix] = url(port);
    env[prefix + "_PROTO"] = lower(protocolOf(port));
    env[prefix + "_PORT"] = number;
    env[prefix + "_ADDR"] = address;
  }
}

Result<std::map<std::string, std::string>> environmentOf(
    const Value& pod, const Value& container, const Lookup& lookup,
    const std::map<std::string, std::string>& before) {
  std::map<std::string, std::string> env = before;
  for (const Value& from : container["envFrom"].array())
    for (auto [field, kind] :
         {std::pair("configMapRef", "ConfigMap"), std::pair("secretRef", "Secret")}) {
      const Value& source = from[field];
      if (!source.isObject()) continue;
      CADRE_LET(const Value* object, find(lookup, kind, source, source["name"].string()));
      if (!object) continue;
      for (const auto& [key, text] : dataOf(*object)) env[from["prefix"].string() + key] = text;
    }
  for (const Value& one : container["env"].array()) {
    const std::string& name = one["name"].string();
    const Value& from = one["valueFrom"];
    if (!from.isObject()) {
      env[name] = expand(one["value"].string(), env);
      continue;
    }
    if (from["fieldRef"].isObject())
      env[name] = fieldOf(pod, from["fieldRef"]["fieldPath"].string());
    if (from["resourceFieldRef"].isObject())
      env[name] = resourceOf(pod, from["resourceFieldRef"], &container);
    for (auto [field, kind] :
         {std::pair("configMapKeyRef", "ConfigMap"), std::pair("secretKeyRef", "Secret")}) {
      const Value& source = from[field];
      if (!source.isObject()) continue;
      CADRE_LET(const Value* object, find(lookup, kind, source, source["name"].string()));
      if (!object) continue;
      auto data = dataOf(*object);
      auto found = data.find(source["key"].string());
      if (found != data.end())
        env[name] = found->second;
      else if (!source["optional"].boolean())
        return missing(format("couldn't find key {} in {} {}/{}", source["key"].string(), kind,
                              kube::ns(pod), source["name"].string()));
    }
  }
  return env;
}

std::vector<std::string> expanded(const Value& words,
                                  const std::map<std::string, std::string>& env) {
  std::vector<std::string> out;
  for (const Value& one : words.array()) out.push_back(expand(one.string(), env));
  return out;
}

bool isWritten(const Value& volume) {
  return volume["configMap"].isObject() || volume["secret"].isObject() ||
         volume["downwardAPI"].isObject() || volume["projected"].isObject();
}

Result<Files> filesOf(const Value& pod, const Value& volume, const Lookup& lookup) {
  Files files;
  auto add = [&](const Value& source, const Value& defaults,
                 std::string_view secret_name) -> Result<> {
    if (const Value& map = source["configMap"]; map.isObject()) {
      CADRE_LET(const Value* object, find(lookup, "ConfigMap", map, map["name"].string()));
      CADRE_TRY(addKeys(files, map, defaults.isNull() ? map : defaults, object, "ConfigMap"));
    }
    if (const Value& secret = source["secret"]; secret.isObject()) {
      CADRE_LET(const Value* object, find(lookup, "Secret", secret, secret[secret_name].string()));
      CADRE_TRY(addKeys(files, secret, defaults.isNull() ? secret : defaults, object, "Secret"));
    }
    if (const Value& fields = source["downwardAPI"]; fields.isObject())
      CADRE_TRY(addFields(files, pod, fields, defaults.isNull() ? fields : defaults));
    if (const Value& account = source["serviceAccountToken"]; account.isObject()) {
      const Value* found = lookup(kServiceAccountToken, json::write(account));
      if (!found)
        return Error{.code = Code::Unavailable,
                     .message = "the token of its service account is not there yet"};
      CADRE_TRY(
          put(files, account["path"].string(), {(*found)["token"].string(), modeOf({}, defaults)}));
    }
    return {};
  };
  CADRE_TRY(add(volume, {}, "secretName"));
  for (const Value& source : volume["projected"]["sources"].array())
    CADRE_TRY(add(source, volume["projected"], "name"));
  return files;
}

}  // namespace cadre::node
