#include "kube/discovery.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::kube {

namespace {

constexpr std::string_view kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

std::vector<std::string> strings(const json::Value& list) {
  std::vector<std::string> out;
  for (const json::Value& item : list.array()) out.push_back(item.string());
  return out;
}

}  // namespace

// Loads both halves of the API, each in the form that the server gives, and puts them together in
// order.
struct DiscoveryLoad : std::enable_shared_from_this<DiscoveryLoad> {
  DiscoveryLoad(Client& client, Function<void(Result<Discovery>)> done)
      : client(client), done(std::move(done)) {}

  Client& client;
  Function<void(Result<Discovery>)> done;
  std::vector<Pending> requests;
  std::vector<std::vector<ServedResource>> parts;  // by group, in order
  std::size_t open = 0;
  std::vector<std::string> failed;

  void start() {
    parts.resize(1);  // the core group first
    ask("/api", kAggregated,
        [](DiscoveryLoad& self, const json::Value& answer) { self.core(answer); });
    ask("/apis", kAggregated,
        [](DiscoveryLoad& self, const json::Value& answer) { self.groups(answer); });
  }

  template <class Then>
  void ask(const std::string& target, std::string_view accept, Then then) {
    ++open;
    requests.push_back(client.request(
        "GET", target, "", "",
        [weak = weak_from_this(), then, target](Result<json::Value> answer) {
          auto self = weak.lock();
          if (!self || !self->done) return;
          if (answer)
            then(*self, *answer);
          else
            self->failed.push_back(answer.error().context("discovering " + target).text());
          if (--self->open == 0)
            self->finish(answer ? std::nullopt : std::optional(answer.error()));
        },
        std::string(accept)));
  }

  void finish(std::optional<Error> last) {
    Discovery discovery;
    for (auto& part : parts)
      for (auto& resource : part) discovery.resources_.push_back(std::move(resource));
    auto callback = std::exchange(done, nullptr);
    // One group that is down (an aggregated API) does not take the others with it.
    if (discovery.resources_.empty() && last)
      return callback(last->context("asking the API server what it serves"));
    callback(std::move(discovery));
  }

  void core(const json::Value& answer) {
    if (answer["kind"].string() == "APIGroupDiscoveryList") return aggregated(answer, 0);
    for (const json::Value& version : answer["versions"].array())
      askVersion("", version.string(), "/api/", 0);
  }

  void groups(const json::Value& answer) {
    if (answer["kind"].string() == "APIGroupDiscoveryList") {
      parts.resize(parts.size() + 1);
      return aggregated(answer, parts.size() - 1);
    }
    for (const json::Value& group : answer["groups"].array()) {
      const std::string& name = group["name"].string();
      const std::string& preferred = group["preferredVersion"]["version"].string();
      std::vector<std::string> versions{preferred};
      for (const json::Value& version : group["versions"].array())
        if (version["version"].string() != preferred)
          versions.push_back(version["version"].string());
      for (const std::string& version : versions) {
        parts.resize(parts.size() + 1);
        askVersion(name, version, "/apis/" + urlEncode(name) + "/", parts.size() - 1);
      }
    }
  }

  void aggregated(const json::Value& answer, std::size_t part) {
    for (const json::Value& group : answer["items"].array())
      for (const json::Value& version : group["versions"].array())
        for (const json::Value& entry : version["resources"].array()) {
          ServedResource served{.resource = {.group = group["metadata"]["name"].string(),
                                             .version = version["version"].string(),
                                             .plural = entry["resource"].string(),
                                             .kind = entry["responseKind"]["kind"].string(),
                                             .namespaced = entry["scope"].string() == "Namespaced"},
                                .singular = entry["singularResource"].string(),
                                .short_names = strings(entry["shortNames"]),
                                .categories = strings(entry["categories"]),
                                .verbs = strings(entry["verbs"])};
          for (const json::Value& sub : entry["subresources"].array())
            served.subresources.push_back(sub["subresource"].string());
          parts[part].push_back(std::move(served));
        }
  }

  void askVersion(const std::string& group, const std::string& version, const std::string& prefix,
                  std::size_t part) {
    ask(prefix + urlEncode(version), "application/json",
        [group, version, part](DiscoveryLoad& self, const json::Value& answer) {
          self.version(group, version, answer, part);
        });
  }

  void version(const std::string& group, const std::string& version, const json::Value& answer,
               std::size_t part) {
    for (const json::Value& entry : answer["resources"].array()) {
      auto [plural, subresource] = cut(entry["name"].string(), "/");
      if (!subresource.empty()) {
        for (ServedResource& served : parts[part])
          if (served.resource.plural == plural && served.resource.version == version)
            served.subresources.emplace_back(subresource);
        continue;
      }
      parts[part].push_back({.resource = {.group = group,
                                          .version = version,
                                          .plural = std::string(plural),
                                          .kind = entry["kind"].string(),
                                          .namespaced = entry["namespaced"].boolean()},
                             .singular = entry["singularName"].string(),
                             .short_names = strings(entry["shortNames"]),
                             .categories = strings(entry["categories"]),
                             .verbs = strings(entry["verbs"])});
    }
  }
};

Pending Discovery::load(Client& client, Function<void(Result<Discovery>)> done) {
  auto load = std::make_shared<DiscoveryLoad>(client, std::move(done));
  load->start();
  return Pending([load] {
    load->done = nullptr;
    load->requests.clear();
  });
}

const ServedResource* Discovery::find(const GroupVersionKind& kind) const {
  for (const ServedResource& served : resources_)
    if (served.resource.gvk() == kind) return &served;
  return nullptr;
}

const ServedResource* Discovery::named(std::string_view name) const {
  auto [word, qualifier] = cut(name, ".");
  for (const ServedResource& served : resources_) {
    const Resource& resource = served.resource;
    if (!qualifier.empty() && qualifier != resource.group &&
        qualifier != resource.version + "." + resource.group)
      continue;
    if (word == resource.plural || equalsIgnoreCase(word, resource.kind) ||
        word == served.singular ||
        std::find(served.short_names.begin(), served.short_names.end(), word) !=
            served.short_names.end())
      return &served;
  }
  return nullptr;
}

std::vector<const ServedResource*> Discovery::inCategory(std::string_view category) const {
  std::vector<const ServedResource*> out;
  for (const ServedResource& served : resources_)
    if (std::find(served.categories.begin(), served.categories.end(), category) !=
        served.categories.end())
      out.push_back(&served);
  return out;
}

}  // namespace cadre::kube
