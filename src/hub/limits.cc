#include "hub/limits.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::hub {
namespace {

constexpr Duration kRetry = 1s;
constexpr std::string_view kRanges = "limitranges", kQuotas = "resourcequotas";
constexpr std::string_view kOfClass = ".storageclass.storage.k8s.io/";

kube::Quantity quantity(const json::Value& value) {
  auto parsed = kube::Quantity::fromJson(value);
  return parsed ? *parsed : kube::Quantity();
}

void add(Amounts& amounts, const std::string& name, const kube::Quantity& more) {
  kube::Quantity& place = amounts[name];
  if (auto sum = place == kube::Quantity() ? Result<kube::Quantity>(more) : place.add(more))
    place = *sum;
}

bool isPod(const Kind& kind) { return kind.storage == "pods"; }

// Pods that have ended take nothing.
bool isOver(const json::Value& pod) {
  std::string_view phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

// What the containers of a pod ask for together: those that run at a time. Sidecars run beside all
// that come after them.
Amounts podAmounts(const json::Value& pod, std::string_view which) {
  Amounts sum, sidecars, first;
  for (const json::Value& container : pod["spec"]["containers"].array())
    for (const auto& [name, value] : container["resources"][which].object())
      add(sum, name, quantity(value));
  for (const json::Value& container : pod["spec"]["initContainers"].array()) {
    bool stays = container["restartPolicy"].string() == "Always";
    Amounts now = sidecars;
    for (const auto& [name, value] : container["resources"][which].object()) {
      add(now, name, quantity(value));
      if (stays) add(sidecars, name, quantity(value));
    }
    for (const auto& [name, value] : now) first[name] = std::max(first[name], value);
  }
  for (const auto& [name, value] : sidecars) add(sum, name, value);
  for (const auto& [name, value] : first) sum[name] = std::max(sum[name], value);
  for (const auto& [name, value] : pod["spec"]["resources"][which].object())
    sum[name] = quantity(value);
  for (const auto& [name, value] : pod["spec"]["overhead"].object())
    if (which == "requests" || sum.contains(name)) add(sum, name, quantity(value));
  return sum;
}

// The containers of a pod that do not say how much of it they take.
std::vector<std::string> silent(const json::Value& pod, std::string_view amount) {
  auto [part, name] = cut(amount, ".");
  if (name.empty()) {
    name = part;
    part = "requests";
  }
  std::vector<std::string> names;
  for (std::string_view which : {"containers", "initContainers"})
    for (const json::Value& container : pod["spec"][which].array())
      if (container["resources"][part][name].isNull()) names.push_back(container["name"].string());
  return names;
}

std::string text(const Amounts& amounts, const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    auto found = amounts.find(name);
    parts.push_back(format("{}={}", name, found == amounts.end() ? "0" : found->second.text()));
  }
  return join(parts, ",");
}

std::string countOf(const kube::Resource& resource) {
  return format("count/{}{}", resource.plural, resource.group.empty() ? "" : "." + resource.group);
}

// Whether an object of the kind takes more than its place.
bool takesMore(const Kind& kind) {
  return isPod(kind) || kind.storage == "services" || kind.storage == "persistentvolumeclaims";
}

bool isCompute(std::string_view amount) {
  return amount == "cpu" || amount == "memory" || amount == "ephemeral-storage" ||
         (amount.starts_with("requests.") && amount != "requests.storage") ||
         amount.starts_with("limits.");
}

}  // namespace

Amounts amountsOf(const Kind& kind, const json::Value& object) {
  Amounts amounts;
  const kube::Quantity one = *kube::Quantity::parse("1");
  const kube::Resource& resource = kind.resource;
  amounts[countOf(resource)] = one;
  if (isPod(kind) && isOver(object)) return amounts;
  if (resource.group.empty()) amounts[resource.plural] = one;
  if (isPod(kind)) {
    for (const auto& [name, value] : podAmounts(object, "requests")) {
      amounts["requests." + name] = value;
      if (name == "cpu" || name == "memory" || name == "ephemeral-storage") amounts[name] = value;
    }
    for (const auto& [name, value] : podAmounts(object, "limits"))
      amounts["limits." + name] = value;
  } else if (kind.storage == "services") {
    std::string type = object["spec"]["type"].string();
    if (type == "LoadBalancer") amounts["services.loadbalancers"] = one;
    if (type == "NodePort" || type == "LoadBalancer")
      for (std::size_t i = 0; i < object["spec"]["ports"].array().size(); ++i)
        add(amounts, "services.nodeports", one);
  } else if (kind.storage == "persistentvolumeclaims") {
    amounts["requests.storage"] = quantity(object["spec"]["resources"]["requests"]["storage"]);
    if (const std::string& storage = object["spec"]["storageClassName"].string();
        !storage.empty()) {
      amounts[storage + std::string(kOfClass) + "requests.storage"] = amounts["requests.storage"];
      amounts[storage + std::string(kOfClass) + "persistentvolumeclaims"] = one;
    }
  }
  return amounts;
}

bool setLimits(const std::vector<json::Value>& ranges, const Kind& kind, json::Value& object) {
  if (!isPod(kind)) return false;
  bool any = false;
  for (const json::Value& range : ranges) {
    std::vector<std::string> told;
    for (auto [which, called] :
         {std::pair("containers", "container"), std::pair("initContainers", "init container")}) {
      if (object["spec"][which].array().empty()) continue;
      for (json::Value& container : object.make("spec").make(which).makeArray())
        for (auto [part, from, word] : {std::tuple("requests", "defaultRequest", "request"),
                                        std::tuple("limits", "default", "limit")}) {
          std::set<std::string> given;
          for (const json::Value& limit : range["spec"]["limits"].array())
            if (limit["type"].string() == "Container")
              for (const auto& [name, value] : limit[from].object())
                if (container["resources"][part][name].isNull()) {
                  container.make("resources").make(part).make(name) = value;
                  given.insert(name);
                }
          if (!given.empty())
            told.push_back(format("{} {} for {} {}", join({given.begin(), given.end()}, ", "), word,
                                  called, container["name"].string()));
        }
    }
    if (told.empty()) continue;
    any = true;
    object.make("metadata").make("annotations").make("kubernetes.io/limit-ranger") =
        "LimitRanger plugin set: " + join(told, "; ");
  }
  return any;
}

std::vector<std::string> beyondLimits(const std::vector<json::Value>& ranges, const Kind& kind,
                                      const json::Value& object) {
  std::vector<std::string> wrong;
  auto check = [&](const json::Value& limit, const Amounts& requests, const Amounts& limits) {
    std::string type = limit["type"].string();
    std::string_view bound = type == "PersistentVolumeClaim" ? "request" : "limit";
    for (const auto& [name, least] : limit["min"].object()) {
      auto there = requests.find(name);
      if (there == requests.end())
        wrong.push_back(format("minimum {} usage per {} is {}.  No request is specified", name,
                               type, quantity(least).text()));
      else if (there->second < quantity(least))
        wrong.push_back(format("minimum {} usage per {} is {}, but request is {}", name, type,
                               quantity(least).text(), there->second.text()));
    }
    for (const auto& [name, most] : limit["max"].object()) {
      auto there = limits.find(name);
      if (there == limits.end())
        wrong.push_back(format("maximum {} usage per {} is {}.  No {} is specified", name, type,
                               quantity(most).text(), bound));
      else if (there->second > quantity(most))
        wrong.push_back(format("maximum {} usage per {} is {}, but {} is {}", name, type,
                               quantity(most).text(), bound, there->second.text()));
    }
    for (const auto& [name, most] : limit["maxLimitRequestRatio"].object()) {
      auto asked = requests.find(name), allowed = limits.find(name);
      auto missing = [&](const Amounts& all, const auto& at) {
        return at == all.end() || at->second == kube::Quantity();
      };
      std::string text = format("{} max limit to request ratio per {} is {}, but", name, type,
                                quantity(most).text());
      if (missing(requests, asked)) {
        wrong.push_back(text + " no request is specified or request is 0");
      } else if (missing(limits, allowed)) {
        wrong.push_back(text + " no limit is specified or limit is 0");
      } else {
        double ratio = static_cast<double>(allowed->second.milliValue()) /
                       static_cast<double>(asked->second.milliValue());
        if (ratio * 1000 > static_cast<double>(quantity(most).milliValue()))
          wrong.push_back(format("{} provided ratio is {:.6f}", text, ratio));
      }
    }
  };
  auto amounts = [](const json::Value& list) {
    Amounts amounts;
    for (const auto& [name, value] : list.object()) amounts[name] = quantity(value);
    return amounts;
  };
  for (const json::Value& range : ranges)
    for (const json::Value& limit : range["spec"]["limits"].array()) {
      std::string type = limit["type"].string();
      if (isPod(kind) && type == "Container")
        for (std::string_view which : {"initContainers", "containers"})
          for (const json::Value& container : object["spec"][which].array())
            check(limit, amounts(container["resources"]["requests"]),
                  amounts(container["resources"]["limits"]));
      if (isPod(kind) && type == "Pod")
        check(limit, podAmounts(object, "requests"), podAmounts(object, "limits"));
      if (kind.storage == "persistentvolumeclaims" && type == "PersistentVolumeClaim") {
        Amounts storage = amounts(object["spec"]["resources"]["requests"]);
        check(limit, storage, storage);
      }
    }
  return wrong;
}

Limits::Limits(Scheduler& scheduler, Objects& objects, const Kinds& kinds, Registry& registry)
    : scheduler_(scheduler), objects_(objects), kinds_(kinds), registry_(registry) {}

std::vector<json::Value> Limits::inNamespace(std::string_view resource,
                                             const std::string& ns) const {
  std::vector<json::Value> found;
  const Objects::Collection& all = objects_.all(resource);
  for (auto at = all.lower_bound({ns, ""}); at != all.end() && at->first.ns == ns; ++at)
    found.push_back(at->second->value());
  return found;
}

bool Limits::complete(Draft& draft) const {
  return !draft.before && isPod(*draft.kind) &&
         setLimits(inNamespace(kRanges, draft.key.ns), *draft.kind, draft.object);
}

// A claim asks for more only where its class lets volumes grow.
bool Limits::mayGrow(const Draft& draft) const {
  auto sizeOf = [](const json::Value& claim) {
    return quantity(claim["spec"]["resources"]["requests"]["storage"]);
  };
  if (!draft.before || sizeOf(draft.object) <= sizeOf(draft.old)) return true;
  const std::string& name = draft.old["spec"]["storageClassName"].string();
  State found = objects_.find("storage.k8s.io/storageclasses", {"", name});
  return found && found->value()["allowVolumeExpansion"].boolean();
}

std::optional<Failure> Limits::check(const Draft& draft) const {
  const Kind& kind = *draft.kind;
  if (!kind.resource.namespaced || !draft.writing.subresource.empty()) return std::nullopt;
  if (kind.storage == "persistentvolumeclaims" && !mayGrow(draft))
    return forbidden(kind.resource, draft.key.name,
                     "only dynamically provisioned pvc can be resized and the storageclass that "
                     "provisions the pvc must support resize");
  if (!draft.before) {
    auto wrong = beyondLimits(inNamespace(kRanges, draft.key.ns), kind, draft.object);
    if (!wrong.empty())
      return forbidden(kind.resource, draft.key.name,
                       wrong.size() == 1 ? wrong[0] : "[" + join(wrong, ", ") + "]");
  }
  auto quotas = inNamespace(kQuotas, draft.key.ns);
  if (quotas.empty()) return std::nullopt;
  Amounts wanted = amountsOf(kind, draft.object);
  Amounts had = draft.before ? amountsOf(kind, draft.old) : Amounts();
  for (const json::Value& quota : quotas) {
    if (!quota["spec"]["scopes"].array().empty() || !quota["spec"]["scopeSelector"].isNull())
      continue;
    Amounts hard;
    std::vector<std::string> missing, beyond;
    for (const auto& [name, value] : quota["spec"]["hard"].object()) {
      hard[name] = quantity(value);
      if (isPod(kind) && isCompute(name) && name != "ephemeral-storage" && !draft.before)
        if (auto names = silent(draft.object, name); !names.empty())
          missing.push_back(format("{} for: {}", name, join(names, ",")));
    }
    if (!missing.empty())
      return forbidden(
          kind.resource, draft.key.name,
          format("failed quota: {}: must specify {}", kube::name(quota), join(missing, "; ")));
    Amounts used = usedIn(draft.key.ns, hard);
    for (const auto& [name, most] : hard) {
      auto asks = wanted.find(name);
      if (asks == wanted.end()) continue;
      kube::Quantity before = had.contains(name) ? had.at(name) : kube::Quantity();
      if (asks->second <= before) continue;  // it takes no more than it had
      auto sum = used[name].add(asks->second);
      auto limit = most.add(before);
      if (sum && limit && *sum > *limit) beyond.push_back(name);
    }
    if (!beyond.empty())
      return forbidden(
          kind.resource, draft.key.name,
          format("exceeded quota: {}, requested: {}, used: {}, limited: {}", kube::name(quota),
                 text(wanted, beyond), text(used, beyond), text(hard, beyond)));
  }
  return std::nullopt;
}

// Counted anew each time: so it is never off. What an object takes is read out of it once.
Amounts Limits::usedIn(const std::string& ns, const Amounts& counted) const {
  Amounts used;
  for (const auto& [name, most] : counted) used[name];
  for (const Kinds::Group& group : kinds_.groups())
    for (const Kinds::Version& version : group.versions)
      for (const auto& [plural, kind] : version.kinds) {
        if (kind->stored_version != kind->resource.version) continue;
        std::string count = countOf(kind->resource);
        bool counts = std::ranges::any_of(counted, [&, &plural = plural,
                                                    &kind = kind](const auto& one) {
          return (one.first == plural && group.name.empty()) || one.first == count ||
                 (isPod(*kind) && isCompute(one.first)) ||
                 (kind->storage == "services" && one.first.starts_with("services.")) ||
                 (kind->storage == "persistentvolumeclaims" &&
                  (one.first == "requests.storage" || one.first.find(kOfClass) != one.first.npos));
        });
        if (!counts) continue;
        const Objects::Collection& all = objects_.all(kind->storage);
        std::int64_t places = 0;
        for (auto at = all.lower_bound({ns, ""}); at != all.end() && at->first.ns == ns; ++at) {
          ++places;
          if (!takesMore(*kind)) continue;
          for (const auto& [name, amount] : takenBy(*kind, at->second))
            if (used.contains(name)) add(used, name, amount);
        }
        if (takesMore(*kind)) continue;
        for (const std::string& name : {count, group.name.empty() ? plural : std::string()})
          if (used.contains(name)) used[name] = *kube::Quantity::parse(format("{}", places));
      }
  return used;
}

const Amounts& Limits::takenBy(const Kind& kind, const State& state) const {
  Taken& taken = taken_[{kind.storage, state->key}];
  if (taken.of != state) taken = {state, amountsOf(kind, state->value())};
  return taken.amounts;
}

void Limits::told(const Change& change) {
  const State& state = change.after ? change.after : change.before;
  const std::string& ns = state->key.ns;
  if (!change.after) taken_.erase({change.resource, state->key});
  const Objects::Collection& quotas = objects_.all(kQuotas);
  auto first = quotas.lower_bound({ns, ""});
  if (ns.empty() || first == quotas.end() || first->first.ns != ns) return;
  outdated_.insert(ns);
  writing_ = scheduler_.after(0s, [this] { writeDown(); });
}

void Limits::writeDown() {
  KindRef kind = kinds_.stored(kQuotas);
  for (const std::string& ns : std::exchange(outdated_, {}))
    for (json::Value& quota : inNamespace(kQuotas, ns)) {
      Amounts hard;
      for (const auto& [name, value] : quota["spec"]["hard"].object()) hard[name] = quantity(value);
      json::Object used;
      for (const auto& [name, amount] : usedIn(ns, hard)) used.set(name, amount.text());
      if (quota["status"]["used"] == json::Value(used) &&
          quota["status"]["hard"] == quota["spec"]["hard"])
        continue;
      json::Value changed = quota;
      changed.make("status").make("hard") = quota["spec"]["hard"];
      changed.make("status").make("used") = std::move(used);
      changed.make("apiVersion") = kind->resource.apiVersion();
      changed.make("kind") = kind->resource.kind;
      auto draft = registry_.update(kind, kube::ObjectKey::of(quota), std::move(changed),
                                    {.manager = "cadre-hub", .subresource = "status"});
      bool written = draft && registry_.finish(*std::move(draft));
      objects_.whenKept([this, ns, written](const Result<>& kept) {
        if (written && kept) return;
        outdated_.insert(ns);
        writing_ = scheduler_.after(kRetry, [this] { writeDown(); });
      });
    }
}

}  // namespace cadre::hub
