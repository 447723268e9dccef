#include "hub/rbac.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/selector.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kGroup = "rbac.authorization.k8s.io";

std::string quoted(std::string_view text) {
  std::string out;
  json::appendQuoted(out, text);
  return out;
}

std::vector<std::string> textsOf(const json::Value& list) {
  std::vector<std::string> texts;
  for (const json::Value& item : list.array())
    if (item.isString()) texts.push_back(item.string());
  return texts;
}

bool has(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool hasOrAll(const std::vector<std::string>& list, std::string_view text) {
  return has(list, text) || has(list, "*");
}

// "pods/log" is meant by itself, by "*/log", and by "*".
bool meansResource(const std::vector<std::string>& list, std::string_view resource) {
  if (hasOrAll(list, resource)) return true;
  std::size_t slash = resource.find('/');
  return slash != std::string_view::npos && has(list, "*" + std::string(resource.substr(slash)));
}

// Also "/healthz/*".
bool meansPath(const std::vector<std::string>& list, std::string_view path) {
  for (std::string_view one : list) {
    if (one == path) return true;
    if (!one.ends_with('*')) continue;
    while (one.ends_with('*')) one.remove_suffix(1);
    if (path.starts_with(one)) return true;
  }
  return false;
}

template <class Means>
bool meansAll(const std::vector<std::string>& list, const std::vector<std::string>& all,
              Means means) {
  return std::all_of(all.begin(), all.end(),
                     [&](const std::string& text) { return means(list, text); });
}

Rules rulesOf(const json::Value& list) {
  Rules rules;
  for (const json::Value& rule : list.array()) rules.push_back(Rule::of(rule));
  return rules;
}

std::string notFoundText(std::string_view kind, std::string_view name) {
  return format("{}.{} {} not found", kind == "Role" ? "role" : "clusterrole", kGroup,
                quoted(name));
}

// The rules that ClusterRoles with an aggregationRule collect, as JSON, by name.
class Aggregation {
 public:
  explicit Aggregation(const std::vector<json::Value>& roles) {
    for (const json::Value& role : roles) {
      Role& one = roles_[std::string(kube::name(role))];
      one.value = &role;
      one.collects = role["aggregationRule"].isObject();
      if (!one.collects) {
        one.rules = role["rules"].array();
        continue;
      }
      for (const json::Value& selector : role["aggregationRule"]["clusterRoleSelectors"].array())
        if (auto parsed = kube::LabelSelector::fromObject(selector))
          one.selectors.push_back(*std::move(parsed));
    }
    // What is collected may be collected again: until nothing comes any more. Rules are only ever
    // added, so that it ends.
    for (bool more = true; more;) {
      more = false;
      for (auto& [name, role] : roles_)
        if (role.collects) more |= collect(name, role);
    }
  }

  const json::Array& rules(std::string_view name) const { return roles_.find(name)->second.rules; }

 private:
  struct Role {
    const json::Value* value = nullptr;
    bool collects = false;
    std::vector<kube::LabelSelector> selectors;
    json::Array rules;
  };

  bool collect(const std::string& name, Role& role) {
    json::Array rules;
    std::set<std::string> known;
    for (const kube::LabelSelector& selector : role.selectors)
      for (const auto& [other_name, other] : roles_) {
        if (other_name == name || !selector.matches(kube::labels(*other.value))) continue;
        for (const json::Value& rule : other.rules)
          if (known.insert(json::write(rule)).second) rules.push_back(rule);
      }
    bool more = rules.size() != role.rules.size();
    role.rules = std::move(rules);
    return more;
  }

  std::map<std::string, Role, std::less<>> roles_;
};

// How the index names who a user or a subject is.
std::string userKey(std::string_view name) { return "u:" + std::string(name); }
std::string groupKey(std::string_view name) { return "g:" + std::string(name); }

}  // namespace

std::string together(const std::vector<std::string>& texts) {
  std::vector<std::string> each;
  for (const std::string& text : texts)
    if (!has(each, text)) each.push_back(text);
  return each.size() == 1 ? each[0] : "[" + join(each, ", ") + "]";
}

Attributes Attributes::of(const Asked& asked, std::string_view method) {
  if (!asked.resource) return {.verb = lower(method), .path = asked.target.path};
  Attributes wanted{.verb = std::string(verbName(asked.verb)),
                    .group = asked.group,
                    .resource = asked.plural,
                    .subresource = asked.subresource,
                    .name = asked.name,
                    .ns = asked.ns};
  // A namespace is in itself: whoever may get namespaces in "x" may get "x".
  if (asked.group.empty() && asked.plural == "namespaces") wanted.ns = asked.name;
  if (wanted.name.empty() && (asked.verb == Verb::List || asked.verb == Verb::Watch)) {
    auto selector = kube::FieldSelector::parse(asked.option("fieldSelector"));
    const std::string* name = selector ? selector->required("metadata.name") : nullptr;
    if (name) wanted.name = *name;
  }
  return wanted;
}

std::string Attributes::text() const {
  if (path) return format("cannot {} path {}", verb, quoted(*path));
  std::string what = subresource.empty() ? resource : resource + "/" + subresource;
  return format("cannot {} resource {} in API group {} {}", verb, quoted(what), quoted(group),
                ns.empty() ? "at the cluster scope" : "in the namespace " + quoted(ns));
}

Rule Rule::of(const json::Value& rule) {
  return {.verbs = textsOf(rule["verbs"]),
          .groups = textsOf(rule["apiGroups"]),
          .resources = textsOf(rule["resources"]),
          .names = textsOf(rule["resourceNames"]),
          .paths = textsOf(rule["nonResourceURLs"])};
}

bool Rule::allows(const Attributes& wanted) const {
  if (!hasOrAll(verbs, wanted.verb)) return false;
  if (wanted.path) return meansPath(paths, *wanted.path);
  std::string resource =
      wanted.subresource.empty() ? wanted.resource : wanted.resource + "/" + wanted.subresource;
  return hasOrAll(groups, wanted.group) &&
         (hasOrAll(resources, resource) ||
          (!wanted.subresource.empty() && has(resources, "*/" + wanted.subresource))) &&
         (names.empty() || has(names, wanted.name));
}

bool Rule::covers(const Rule& other) const {
  return meansAll(verbs, other.verbs, hasOrAll) && meansAll(groups, other.groups, hasOrAll) &&
         meansAll(resources, other.resources, meansResource) &&
         meansAll(paths, other.paths, meansPath) &&
         (names.empty() || (!other.names.empty() && meansAll(names, other.names, has)));
}

json::Value Rule::value() const {
  auto list = [](const std::vector<std::string>& texts) {
    return json::Array(texts.begin(), texts.end());
  };
  json::Object value{{"verbs", list(verbs)}};
  if (!groups.empty()) value.set("apiGroups", list(groups));
  if (!resources.empty()) value.set("resources", list(resources));
  if (!names.empty()) value.set("resourceNames", list(names));
  if (!paths.empty()) value.set("nonResourceURLs", list(paths));
  return value;
}

Rbac::Rbac(const Objects& objects) {
  addRoles(objects);
  auto add = [&](const std::vector<json::Value>& bindings, bool cluster) {
    std::map<kube::ObjectKey, const json::Value*> by_name;  // so that the first is always the same
    for (const json::Value& binding : bindings) by_name[kube::ObjectKey::of(binding)] = &binding;
    for (const auto& [key, binding] : by_name) addBinding(*binding, cluster);
  };
  add(objects.cluster_role_bindings, true);
  add(objects.role_bindings, false);
}

void Rbac::addRoles(const Objects& objects) {
  for (const json::Value& role : objects.roles)
    roles_[kube::ObjectKey::of(role)] = rulesOf(role["rules"]);
  Aggregation aggregation(objects.cluster_roles);
  for (const json::Value& role : objects.cluster_roles) {
    json::Value rules = aggregation.rules(kube::name(role));
    roles_[{"", std::string(kube::name(role))}] = rulesOf(rules);
    if (role["aggregationRule"].isObject() && json::Value(role["rules"].array()) != rules) {
      outdated_.push_back(role);
      outdated_.back().make("rules") = std::move(rules);
    }
  }
}

void Rbac::addBinding(const json::Value& binding, bool cluster) {
  std::string ns(cluster ? std::string_view() : kube::ns(binding));
  const json::Value& ref = binding["roleRef"];
  bool of_namespace = ref["kind"].string() == "Role";
  if (of_namespace ? cluster : ref["kind"].string() != "ClusterRole") return;
  Grant grant{.binding = cluster ? format("ClusterRoleBinding {}", quoted(kube::name(binding)))
                                 : format("RoleBinding {}",
                                          quoted(format("{}/{}", kube::name(binding), ns))),
              .role = format("{} {}", ref["kind"].string(), quoted(ref["name"].string())),
              .ref_kind = ref["kind"].string(),
              .ref_name = ref["name"].string(),
              .rules = role(of_namespace ? ns : "", ref["name"].string()),
              .subjects = {}};
  for (const json::Value& subject : binding["subjects"].array()) {
    const std::string& kind = subject["kind"].string();
    const std::string& name = subject["name"].string();
    std::string key, text = format("{} {}", kind, quoted(name));
    if (kind == "User") {
      key = userKey(name);
    } else if (kind == "Group") {
      key = groupKey(name);
    } else if (kind == "ServiceAccount") {
      const std::string& own = subject["namespace"].string();
      kube::ObjectKey account{own.empty() ? ns : own, name};
      if (account.ns.empty()) continue;
      key = userKey(serviceAccountName(account));
      text = format("{} {}", kind, quoted(name + "/" + account.ns));
    } else {
      continue;
    }
    by_namespace_[ns][key].push_back({grants_.size(), grant.subjects.size()});
    grant.subjects.push_back(std::move(text));
  }
  grants_.push_back(std::move(grant));
}

const Rules* Rbac::role(std::string_view ns, std::string_view name) const {
  auto found = roles_.find({std::string(ns), std::string(name)});
  return found == roles_.end() ? nullptr : &found->second;
}

// Those of the whole cluster first, then by the names of the bindings; each binding once, for the
// first of its subjects that means him.
std::vector<Rbac::Entry> Rbac::entriesOf(const User& user, std::string_view ns) const {
  std::vector<Entry> entries;
  auto take = [&](std::string_view scope) {
    auto subjects = by_namespace_.find(scope);
    if (subjects == by_namespace_.end()) return;
    auto add = [&](const std::string& key) {
      auto found = subjects->second.find(key);
      if (found != subjects->second.end())
        entries.insert(entries.end(), found->second.begin(), found->second.end());
    };
    add(userKey(user.name));
    for (const std::string& group : user.groups) add(groupKey(group));
  };
  take("");
  if (!ns.empty()) take(ns);
  std::sort(entries.begin(), entries.end());
  auto same = [](const Entry& a, const Entry& b) { return a.grant == b.grant; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  return entries;
}

Verdict Rbac::check(const User& user, const Attributes& wanted) const {
  if (user.isIn(kMasters)) return {.allowed = true};
  std::vector<std::string> missing;
  for (const Entry& entry : entriesOf(user, wanted.path ? std::string_view() : wanted.ns)) {
    const Grant& grant = grants_[entry.grant];
    if (!grant.rules) {
      missing.push_back(notFoundText(grant.ref_kind, grant.ref_name));
      continue;
    }
    for (const Rule& rule : *grant.rules)
      if (rule.allows(wanted))
        return {true, format("RBAC: allowed by {} of {} to {}", grant.binding, grant.role,
                             grant.subjects[entry.subject])};
  }
  return {false, missing.empty() ? "" : "RBAC: " + together(missing)};
}

std::optional<Failure> Rbac::refusal(const User& user, const Attributes& wanted) const {
  Verdict verdict = check(user, wanted);
  if (verdict.allowed) return std::nullopt;
  std::string why = format("User {} {}", quoted(user.name), wanted.text());
  if (!verdict.reason.empty()) why += ": " + verdict.reason;
  if (wanted.path) return Failure{403, "Forbidden", "forbidden: " + why};
  return forbidden({.group = wanted.group, .plural = wanted.resource}, wanted.name, why);
}

Rbac::Held Rbac::rulesFor(const User& user, std::string_view ns) const {
  Held held;
  for (const Entry& entry : entriesOf(user, ns)) {
    const Grant& grant = grants_[entry.grant];
    if (grant.rules) {
      held.rules.insert(held.rules.end(), grant.rules->begin(), grant.rules->end());
    } else {
      held.missing.push_back(notFoundText(grant.ref_kind, grant.ref_name));
      held.missing_names.push_back(grant.ref_name);
    }
  }
  return held;
}

}  // namespace cadre::hub
