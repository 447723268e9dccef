#include "hub/request.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/strings.h"

namespace cadre::hub {
namespace {

constexpr std::size_t kMaxPath = 4096;

// Nothing that could mean another place.
bool isSegment(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         text.find_first_of(std::string_view("/%\0", 3)) == std::string_view::npos;
}

}  // namespace

std::string_view verbName(Verb verb) {
  constexpr std::array<std::string_view, 8> kNames{"get",    "list",  "watch",  "create",
                                                   "update", "patch", "delete", "deletecollection"};
  return kNames.at(static_cast<std::size_t>(verb));
}

bool Asked::has(std::string_view name) const {
  return std::ranges::any_of(target.query, [&](const auto& one) { return one.first == name; });
}

bool Asked::flag(std::string_view name) const {
  return has(name) && option(name) != "0" && lower(option(name)) != "false";
}

bool isEscaped(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  auto isDigit = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = path.find('%'); at != path.npos; at = path.find('%', at + 1))
    if (at + 2 >= path.size() || !isDigit(path[at + 1]) || !isDigit(path[at + 2])) return false;
  return true;
}

std::optional<Asked> parseRequest(std::string_view method, std::string_view target) {
  Asked asked;
  // Proxies name the server, too.
  for (std::string_view scheme : {"http://", "https://"})
    if (lower(target.substr(0, scheme.size())) == scheme) {
      target.remove_prefix(std::min(target.find_first_of("/?", scheme.size()), target.size()));
      break;
    }
  auto [path, query] = cut(target, "?");
  if (path.size() > kMaxPath || !path.starts_with('/')) return std::nullopt;
  asked.target = net::Target::parse(target);
  std::string_view rest = path.substr(1);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (!rest.empty())
    for (std::string_view segment : split(rest, '/')) {
      std::string text = urlDecode(segment);
      if (!isSegment(text)) return std::nullopt;
      asked.segments.push_back(std::move(text));
    }
  const auto& parts = asked.segments;
  std::size_t at = 0;
  if (parts.size() >= 3 && parts[0] == "api") {
    asked.version = parts[1];
    at = 2;
  } else if (parts.size() >= 4 && parts[0] == "apis") {
    asked.group = parts[1];
    asked.version = parts[2];
    at = 3;
  } else {
    return asked;
  }
  asked.resource = true;
  auto next = [&] { return at < parts.size() ? parts[at++] : std::string(); };
  asked.plural = next();
  if (asked.plural == "namespaces" && at < parts.size()) {
    std::string ns = next();
    bool own = at >= parts.size() || (at + 1 == parts.size() && asked.group.empty() &&
                                      (parts[at] == "status" || parts[at] == "finalize"));
    if (own) {
      asked.name = ns;
      asked.subresource = next();
    } else {
      asked.ns = ns;
      asked.plural = next();
      asked.name = next();
      asked.subresource = next();
    }
  } else {
    asked.name = next();
    asked.subresource = next();
  }
  while (at < parts.size()) asked.subresource += "/" + next();

  bool collection = asked.name.empty();
  if (method == "POST") {
    asked.verb = Verb::Create;
  } else if (method == "PUT") {
    asked.verb = Verb::Update;
  } else if (method == "PATCH") {
    asked.verb = Verb::Patch;
  } else if (method == "DELETE") {
    asked.verb = collection ? Verb::DeleteCollection : Verb::Delete;
  } else {
    // Whatever is no method of resources reads nothing: it is refused later.
    asked.verb = !collection ? Verb::Get : asked.flag("watch") ? Verb::Watch : Verb::List;
  }
  return asked;
}

std::optional<Form> parseAccept(std::string_view accept, Answered what) {
  bool objects = what != Answered::Groups && what != Answered::Document;
  if (trim(accept).empty()) return Form{};
  for (std::string_view clause : split(accept, ',')) {
    std::string type, as, version, group;
    bool first = true;
    for (std::string_view part : split(clause, ';')) {
      part = trim(part);
      if (std::exchange(first, false)) {
        type = lower(part);
        continue;
      }
      auto [name, value] = cut(part, "=");
      if (name == "as") as = value;
      if (name == "v") version = value;
      if (name == "g") group = value;
    }
    bool json = type == "application/json" || type == "*/*" || type == "application/*";
    bool yaml = type == "application/yaml" && what != Answered::Watch;
    if (!json && !yaml) continue;
    Form form{.yaml = yaml};
    if (as.empty()) return form;
    if (what == Answered::Groups && json && as == "APIGroupDiscoveryList" &&
        group == "apidiscovery.k8s.io" && version == "v2") {
      form.as = Form::As::Groups;
      return form;
    }
    if (!objects || group != "meta.k8s.io" || (version != "v1" && version != "v1beta1")) continue;
    if (as == "Table") {
      form.as = Form::As::Table;
      return form;
    }
    if (as == (what == Answered::List ? "PartialObjectMetadataList" : "PartialObjectMetadata")) {
      form.as = Form::As::Metadata;
      return form;
    }
  }
  return std::nullopt;
}

bool isOfNode(std::string_view subresource) {
  constexpr std::string_view kParts[] = {"log", "exec", "attach", "portforward"};
  return std::ranges::find(kParts, subresource) != std::end(kParts);
}

}  // namespace cadre::hub
