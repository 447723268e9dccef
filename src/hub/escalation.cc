// Nobody gives away what he does not have: the checks when roles and bindings are written.
#include <algorithm>
#include <set>
#include <tuple>

#include "base/format.h"
#include "base/strings.h"
#include "hub/rbac.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

// So many single rights are compared, and no more: a role of a few kilobytes can have billions.
constexpr std::size_t kMaxRights = 100'000;
constexpr std::size_t kMaxComparisons = 2'000'000;  // some seconds

const Rule kAllResources{.verbs = {"*"}, .groups = {"*"}, .resources = {"*"}};
const Rule kAllPaths{.verbs = {"*"}, .paths = {"*"}};

std::string quotedList(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ' ';
    json::appendQuoted(out, text);
  }
  return out + "]";
}

// {APIGroups:[""], Resources:["pods"], Verbs:["list"]}
std::string textOf(const Rule& rule) {
  std::vector<std::string> parts;
  auto add = [&](std::string_view name, const std::vector<std::string>& texts) {
    if (!texts.empty()) parts.push_back(format("{}:{}", name, quotedList(texts)));
  };
  add("APIGroups", rule.groups);
  add("Resources", rule.resources);
  add("NonResourceURLs", rule.paths);
  add("ResourceNames", rule.names);
  add("Verbs", rule.verbs);
  return "{" + join(parts, ", ") + "}";
}

std::size_t rightsOf(const Rule& rule) {
  std::size_t rights = 1;
  auto times = [&](std::size_t count) {
    rights = rights > kMaxRights ? rights : rights * std::max<std::size_t>(count, 1);
  };
  for (const auto* list : {&rule.verbs, &rule.groups, &rule.resources, &rule.names})
    times(list->size());
  return rights +
         (rule.paths.size() > kMaxRights ? kMaxRights : rule.paths.size() * rule.verbs.size());
}

// Each right that a rule gives, alone.
Rules apart(const Rule& rule) {
  Rules all;
  for (const std::string& group : rule.groups)
    for (const std::string& resource : rule.resources)
      for (const std::string& verb : rule.verbs) {
        Rule one{.verbs = {verb}, .groups = {group}, .resources = {resource}};
        if (rule.names.empty()) all.push_back(one);
        for (const std::string& name : rule.names) {
          one.names = {name};
          all.push_back(one);
        }
      }
  for (const std::string& path : rule.paths)
    for (const std::string& verb : rule.verbs) all.push_back({.verbs = {verb}, .paths = {path}});
  return all;
}

// The same with the verbs of one resource in one rule again, as text, sorted.
std::set<std::string> described(const Rules& rights) {
  using Key =
      std::tuple<std::vector<std::string>, std::vector<std::string>, std::vector<std::string>>;
  std::map<Key, Rule> together;
  std::set<std::string> texts;
  for (const Rule& right : rights) {
    if (!right.paths.empty()) {
      texts.insert(textOf(right));
      continue;
    }
    auto [at, fresh] = together.try_emplace({right.groups, right.resources, right.names}, right);
    if (fresh) continue;
    auto& verbs = at->second.verbs;
    if (std::find(verbs.begin(), verbs.end(), right.verbs[0]) == verbs.end())
      verbs.push_back(right.verbs[0]);
  }
  for (const auto& [key, rule] : together) texts.insert(textOf(rule));
  return texts;
}

bool coveredBy(const Rules& held, const Rule& rule) {
  return std::any_of(held.begin(), held.end(), [&](const Rule& one) { return one.covers(rule); });
}

// Which of the rules the user does not have in that namespace, in words; nothing when he has all.
// `plural`: of what is written, by which roles that are missing are named too.
std::optional<std::string> beyond(const Rbac& rbac, const User& user, std::string_view ns,
                                  const Rules& rules, std::string_view plural) {
  Rbac::Held held = rbac.rulesFor(user, ns);
  if (coveredBy(held.rules, kAllResources) && coveredBy(held.rules, kAllPaths)) return std::nullopt;
  // The same right many times is one.
  std::ranges::sort(held.rules);
  held.rules.erase(std::unique(held.rules.begin(), held.rules.end()), held.rules.end());
  std::size_t rights = 0;
  Rules missing;
  for (const Rule& rule : rules) {
    rights += rightsOf(rule);
    if (rights > kMaxRights || rights * held.rules.size() > kMaxComparisons)
      return format(
          "gives {} rights or more at once, which are too many to be compared with the {} of the "
          "user: make several roles of it",
          rights, held.rules.size());
    for (Rule& right : apart(rule))
      if (!coveredBy(held.rules, right)) missing.push_back(std::move(right));
  }
  if (missing.empty()) return std::nullopt;
  std::set<std::string> texts = described(missing);
  std::string name;
  json::appendQuoted(name, user.name);
  std::string why =
      format("user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
             name, quotedList(user.groups), join({texts.begin(), texts.end()}, "\n"));
  if (!held.missing_names.empty()) {
    std::vector<std::string> errors;
    errors.reserve(held.missing_names.size());
    for (const std::string& role : held.missing_names)
      errors.push_back(format("{}.rbac.authorization.k8s.io \"{}\" not found", plural, role));
    std::string list = join(errors, ", ");
    why += format("; resolution errors: {}",
                  errors.size() == 1 ? "[" + list + "]" : "[[" + list + "]]");
  }
  return why;
}

// Nothing but what lets the garbage collector do its work.
bool changesOwnersOnly(const json::Value& before, const json::Value& after) {
  auto rest = [](json::Value value) {
    json::Object& metadata = value.make("metadata").makeObject();
    for (std::string_view field :
         {"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"})
      metadata.erase(field);
    return value;
  };
  return before.isObject() && rest(before) == rest(after);
}

std::optional<Failure> roleEscalation(const Rbac& rbac, const User& user, const RoleWrite& write) {
  std::string ns(write.resource.namespaced ? kube::ns(write.object) : std::string_view());
  Attributes escalate{.verb = "escalate",
                      .group = write.resource.group,
                      .resource = write.resource.plural,
                      .name = std::string(write.asked_name),
                      .ns = ns};
  if (rbac.check(user, escalate).allowed) return std::nullopt;
  auto refused = [&](std::string_view why) {
    return forbidden(write.resource, kube::name(write.object), why);
  };
  bool collects =
      write.object["aggregationRule"].isObject() || write.before["aggregationRule"].isObject();
  if (!write.resource.namespaced && collects &&
      beyond(rbac, user, "", {kAllResources, kAllPaths}, write.resource.plural))
    return refused("must have cluster-admin privileges to use the aggregationRule");
  Rules rules;
  for (const json::Value& rule : write.object["rules"].array()) rules.push_back(Rule::of(rule));
  if (auto why = beyond(rbac, user, ns, rules, write.resource.plural)) return refused(*why);
  return std::nullopt;
}

std::optional<Failure> bindingEscalation(const Rbac& rbac, const User& user,
                                         const RoleWrite& write) {
  std::string ns(write.resource.namespaced ? kube::ns(write.object) : std::string_view());
  const json::Value& ref = write.object["roleRef"];
  bool of_namespace = ref["kind"].string() == "Role";
  const std::string& name = ref["name"].string();
  Attributes bind{.verb = "bind",
                  .group = ref["apiGroup"].string(),
                  .resource = of_namespace ? "roles" : "clusterroles",
                  .name = name,
                  .ns = ns};
  if (rbac.check(user, bind).allowed) return std::nullopt;
  const Rules* rules = rbac.role(of_namespace ? ns : "", name);
  if (!rules) return notFound(write.resource, name);
  if (auto why = beyond(rbac, user, ns, *rules, write.resource.plural))
    return forbidden(write.resource, kube::name(write.object), *why);
  return std::nullopt;
}

}  // namespace

std::optional<Failure> escalation(const Rbac& rbac, const User& user, const RoleWrite& write) {
  if (user.isIn(kMasters) || changesOwnersOnly(write.before, write.object)) return std::nullopt;
  return write.object.isObject() && write.resource.plural.ends_with("bindings")
             ? bindingEscalation(rbac, user, write)
             : roleEscalation(rbac, user, write);
}

}  // namespace cadre::hub
