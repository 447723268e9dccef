#include "cli/secrets.h"

#include <string>

#include "base/strings.h"

namespace cadre::cli {
namespace {

constexpr std::string_view kNotShown = "(not shown)";

// Whether a field of this name holds a secret itself, and does not tell where one is.
bool isSecretField(std::string_view name) {
  std::string field = lower(name);
  for (std::string_view word : {"password", "passwd", "token", "apikey", "api_key", "clientsecret"})
    if (field == word) return true;
  return false;
}

}  // namespace

bool looksSecret(std::string_view variable) {
  std::string name = lower(variable);
  for (std::string_view word : {"key", "token", "secret", "password", "passwd", "credential"})
    if (name.find(word) != std::string::npos) return true;
  return false;
}

json::Value withoutSecrets(const json::Value& value, std::string_view path) {
  if (value.isString()) {
    std::size_t env = path.rfind(".env.");
    bool hidden = env != path.npos && path.ends_with(".value") && looksSecret(path.substr(env));
    return hidden ? kNotShown : value;
  }
  if (value.isArray()) {
    json::Array list;
    for (const json::Value& element : value.array()) list.push_back(withoutSecrets(element));
    return list;
  }
  if (!value.isObject()) return value;
  json::Object object;
  bool secret = looksSecret(value["name"].string());
  for (const auto& [name, member] : value.object()) {
    bool hidden = (secret && name == "value") || (member.isString() && isSecretField(name));
    json::Value shown = hidden ? kNotShown : withoutSecrets(member);
    // As in apiKey: {value: ...}.
    if (looksSecret(name) && member["value"].isString()) shown.make("value") = kNotShown;
    object.set(name, std::move(shown));
  }
  return object;
}

}  // namespace cadre::cli
